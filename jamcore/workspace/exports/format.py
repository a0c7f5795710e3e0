"""The files beside the trees of an export: how they are written, and how they are read when nothing of them is trusted."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from pydantic import ValidationError

from jamcore.domain import limits
from jamcore.domain.checkpoint_exports import unspelled
from jamcore.domain.exports import ENTRIES, MANIFEST, README, ExportedKind, ExportEntry, ExportManifest
from jamcore.system.tree_calls import TreeCalls
from jamcore.system.trees import owned
from jamcore.workspace.exports.reading import SWAPPED

README_BYTES = b"""\
This directory is an export of a workspace, made by Jam. It can be checked and read without Jam.

To check that it is whole, in this directory:

    sha256sum --quiet -c SHA256SUMS

What is in it:

    workspace/      the files of the workspace, as they were. Modes, times, symbolic links, hard links, holes and extended attributes
                    of users are kept; set-user-id and set-group-id bits are not.
    checkpoint/     if there: the state of the agent's program, so that its conversation can go on. checkpoint.json says what it is.
    manifest.json   what the export is and where it comes from, and names of what was left out of it, lost set-id bits, or looks like a
                    credential.
    entries.jsonl   one line of JSON for each name below workspace/ and checkpoint/. Names that are not UTF-8 are written as base64:...
    SHA256SUMS      the SHA-256 of every file here but itself.

To take the files elsewhere, copy workspace/ with a program that keeps all this, such as: cp -a --sparse=always workspace DESTINATION
Do not run anything in it that you would not have run in the sandbox: an agent wrote it.
"""

_MOST_ENTRIES = 2 * limits.EXPORT_ENTRIES
"""Two trees."""
_ESCAPES = ((b"\\", b"\\\\"), (b"\n", b"\\n"), (b"\r", b"\\r"))


class DamagedError(Exception):
    """A file of the export is missing, or not what it should be; the words say how."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name
        self.problem = problem


def sha256(data: bytes) -> str:
    """Return the digest of bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def sum_line(digest: str, path: bytes) -> bytes:
    """Return one line as ``sha256sum`` writes it: a name with a backslash or a line's end is escaped, and the line says so."""
    escaped = path
    for plain, written in _ESCAPES:
        escaped = escaped.replace(plain, written)
    return (b"\\" if escaped != path else b"") + digest.encode() + b"  " + escaped + b"\n"


def first_sums(manifest: bytes, entries_sha256: str, readme_sha256: str) -> bytes:
    """Return the lines of the files beside the trees."""
    names = ((README, readme_sha256), (ENTRIES, entries_sha256), (MANIFEST, sha256(manifest)))
    return b"".join(sum_line(digest, name.encode()) for name, digest in names)


def entry_sum(entry: ExportEntry) -> bytes:
    """Return the line of one entry; none of what is no file."""
    return sum_line(entry.sha256, unspelled(entry.path)) if entry.kind is ExportedKind.FILE and entry.sha256 else b""


class ExportFiles:
    """Reads the files beside the trees of one export, below its open directory."""

    def __init__(self, root: int, calls: TreeCalls, alive: Callable[[], None]) -> None:
        self._root = root
        self._calls = calls
        self._alive = alive

    def manifest(self, digest: str | None) -> tuple[ExportManifest, bytes]:
        """Return the manifest and its bytes.

        Args:
            digest: Its recorded SHA-256; ``None`` when nobody recorded one.

        Raises:
            DamagedError: It is not the recorded one, or no manifest.
            OSError: The machine failed, which says nothing of the export.
        """
        data = b"".join(self._parts(MANIFEST, limits.EXPORT_MANIFEST_BYTES))
        if digest is not None and sha256(data) != digest:
            raise DamagedError(MANIFEST, "it is not the one that was recorded")
        try:
            manifest = ExportManifest.model_validate_json(data)
        except ValidationError as error:
            raise DamagedError(MANIFEST, f"it is no manifest: {error.errors()[0]['msg']}") from error
        if manifest.file_bytes() != data:
            raise DamagedError(MANIFEST, "it is not written as Jam writes it")
        return manifest, data

    def entries(self, manifest: ExportManifest) -> Iterator[ExportEntry]:
        """Yield all entries in their order.

        Raises:
            DamagedError: The list is not what the manifest says. Known at the end alone: believe nothing before.
        """
        digest = hashlib.sha256()
        with self._opened(ENTRIES) as descriptor, os.fdopen(os.dup(descriptor), "rb") as stream:
            for number in count():
                self._alive()
                line = stream.readline(limits.EXPORT_LINE_BYTES)
                if not line:
                    break
                if number == _MOST_ENTRIES:
                    raise DamagedError(ENTRIES, f"it has more than {_MOST_ENTRIES} lines")
                digest.update(line)
                yield _entry(line)
        if digest.hexdigest() != manifest.entries_sha256:
            raise DamagedError(ENTRIES, "it is not what the manifest says")

    def digest(self, name: str) -> str:
        """Return the SHA-256 of a file.

        Raises:
            DamagedError: It is missing, no file, or very large.
        """
        found = hashlib.sha256()
        for part in self._parts(name, limits.EXPORT_BYTES):
            found.update(part)
        return found.hexdigest()

    def _parts(self, name: str, at_most: int) -> Iterator[bytes]:
        with self._opened(name) as descriptor:
            buffer = memoryview(bytearray(1 << 20))
            offset = 0
            while done := self._calls.read(descriptor, buffer, offset):
                self._alive()
                offset += done
                if offset > at_most:
                    raise DamagedError(name, f"it has more than {at_most} bytes")
                yield bytes(buffer[:done])

    @contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        try:
            descriptor = self._calls.open_file(self._root, name.encode())
        except OSError as error:
            if error.errno not in SWAPPED:
                raise
            raise DamagedError(name, "it is missing, or no file") from error
        with owned(descriptor):
            if not stat.S_ISREG(self._calls.status_of(descriptor).st_mode):
                raise DamagedError(name, "it is no file")
            yield descriptor


def _entry(line: bytes) -> ExportEntry:
    try:
        entry = ExportEntry.model_validate_json(line)
        unspelled(entry.path)
    except ValueError as error:
        raise DamagedError(ENTRIES, f"it has a line that is no entry: {line[:80].decode(errors='backslashreplace')}") from error
    if entry.line() != line:
        raise DamagedError(ENTRIES, f"a line is not written as Jam writes it: {line[:80].decode(errors='backslashreplace')}")
    return entry
