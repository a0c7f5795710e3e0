"""Whether the names in an export from elsewhere can be taken in: each means one place in it, and no two the same one (WS-6). Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from jamcore.domain import limits
from jamcore.domain.checkpoint_exports import unspelled
from jamcore.domain.exports import CHECKPOINT, WORKSPACE, ExportedKind, ExportEntry, ImportNamesError
from jamcore.workspace.exports.survey import Named

RESERVED = b".jam-"
"""How names begin that Jam makes in trees while it works on them."""

_TOPS = frozenset({WORKSPACE.encode(), CHECKPOINT.encode()})
_NAME_BYTES = 255


def check_names(entries: Iterable[ExportEntry]) -> None:
    """Accept the entries of an export from elsewhere, or name all that is wrong with their names.

    Names that differ by case or by their Unicode form alone are refused as well: where the export goes next they may be one file.

    Raises:
        ImportNamesError: Some names cannot be taken in.
    """
    check = _Check()
    for entry in entries:
        check.take(entry)
    if check.found.total:
        raise ImportNamesError(total=check.found.total, named=tuple(check.found.first))


class _Check:
    def __init__(self) -> None:
        self.found = Named()
        self._kinds: dict[bytes, ExportedKind] = {}
        self._folded: dict[str, bytes] = {}
        self._firsts: set[str] = set()

    def take(self, entry: ExportEntry) -> None:
        try:
            path = unspelled(entry.path)
        except ValueError:
            self.found.add((entry.path.encode(),), "is not spelled as Jam spells names")
            return
        if problem := _form_of(path):
            self.found.add((path[: limits.EXPORT_PATH_BYTES],), problem)
            return
        if problem := self._place_of(path) or self._origin_of(entry):
            self.found.add((path,), problem)
        self._kinds.setdefault(path, entry.kind)
        if entry.kind is ExportedKind.FILE and entry.same_file_as is None:
            self._firsts.add(entry.path)

    def _place_of(self, path: bytes) -> str:
        """Say what is wrong with a path beside those before it."""
        if path in self._kinds:
            return "is there twice"
        folded = unicodedata.normalize("NFC", unicodedata.normalize("NFD", path.decode(errors="surrogateescape")).casefold())
        other = self._folded.setdefault(folded, path)
        if other != path:
            return f"differs from {other.decode(errors='backslashreplace')} by case or Unicode form alone"
        parent = path.rpartition(b"/")[0]
        if parent and self._kinds.get(parent) is not ExportedKind.DIRECTORY:
            return "lies in no directory of the export"
        return ""

    def _origin_of(self, entry: ExportEntry) -> str:
        if entry.same_file_as is not None and entry.same_file_as not in self._firsts:
            return "is a hard link to no file before it"
        return ""


def _form_of(path: bytes) -> str:
    """Say what is wrong with a path by itself."""
    names = path.split(b"/")
    problems = (
        (path.startswith(b"/"), "is absolute"),
        (b"\0" in path, "has a zero byte"),
        (b".." in names, "leads upwards"),
        (b"" in names or b"." in names, "has an empty name"),
        (names[0] not in _TOPS, "is in no tree of the export"),
        (any(name.startswith(RESERVED) for name in names), "has a name that Jam keeps for itself"),
        (max(map(len, names)) > _NAME_BYTES, f"has a name of more than {_NAME_BYTES} bytes"),
        (len(path) > limits.EXPORT_PATH_BYTES + len(names[0]), f"is longer than {limits.EXPORT_PATH_BYTES} bytes"),
        (len(names) > limits.EXPORT_DEPTH + 1, f"is deeper than {limits.EXPORT_DEPTH} directories"),
    )
    return next((problem for wrong, problem in problems if wrong), "")
