"""Writes captured files as plain ones, private and proven, below one open directory (WS-5, SEC-7)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from jamcore.continuity.exporting.form import DATABASES, DECLARED, FILES
from jamcore.continuity.exporting.selecting import Part
from jamcore.continuity.generations.content import Content, read_blocks, read_stream
from jamcore.continuity.generations.databases import Database
from jamcore.continuity.generations.format import Source
from jamcore.continuity.generations.objects import Entry, Kind
from jamcore.continuity.tree.patterns import CaptureRules
from jamcore.domain.checkpoint_exports import CheckpointExportRefusedError, ExportedEntry, spelled
from jamcore.domain.continuity import CaptureKind, EntryKind
from jamcore.domain.secret_shapes import LOGIN_FILES, SecretScan
from jamcore.system.tree_calls import TreeCalls
from jamcore.system.trees import Names, owned, shown


class StateWriter:
    """Writes one part of a generation. ``directory`` is open, and stays the caller's."""

    def __init__(
        self, calls: TreeCalls, source: Source, directory: int, rules: CaptureRules, *, made_ns: int, alive: Callable[[], None]
    ) -> None:
        self._calls = calls
        self._source = source
        self._directory = directory
        self._rules = rules
        self._made_ns = made_ns
        self._alive = alive

    def write(self, part: Part) -> tuple[ExportedEntry, ...]:
        """Write everything, and return what was written in the order in which it is listed.

        Raises:
            BlockDamagedError: The bytes of one are not the captured ones.
            CheckpointExportRefusedError: One is or holds a credential.
            OSError: The machine failed.
        """
        children: dict[Names, list[Names]] = {}
        for path in sorted(part.entries):
            children.setdefault(path[:-1], []).append(path)
        listed: list[ExportedEntry] = []
        with owned(self._made(self._directory, FILES.encode())) as top:
            self._state(top, (), part.entries, children, listed)
            self._calls.set_time(top, part.root.mtime_ns)
        if part.databases:
            with owned(self._made(self._directory, DATABASES.encode())) as top:
                listed += [self._database(top, one) for one in part.databases]
        return tuple(listed)

    def _state(
        self,
        directory: int,
        path: Names,
        entries: Mapping[Names, Entry],
        children: Mapping[Names, Sequence[Names]],
        listed: list[ExportedEntry],
    ) -> None:
        """Write what is in one directory; it gets its time when nothing in it changes any more."""
        for below in children.get(path, ()):
            entry = entries[below]
            listed.append(self._one(directory, below, entry))
            if entry.kind is Kind.DIRECTORY:
                with owned(self._made(directory, below[-1])) as child:
                    self._state(child, below, entries, children, listed)
                    self._calls.set_time(child, entry.mtime_ns)

    def _one(self, parent: int, path: Names, entry: Entry) -> ExportedEntry:
        """Write a file. A directory is made by whoever goes into it, and a link stands in the listing alone."""
        if entry.kind is Kind.DIRECTORY:
            return _listed(path, entry, EntryKind.DIRECTORY)
        self._require_no_login(path)
        if entry.kind is Kind.LINK:
            target = read_stream(self._source, entry.content)
            return _listed(path, entry, EntryKind.LINK, CaptureKind.WHOLE, target=spelled(target))
        digest = self._bytes(parent, path[-1], entry.content, entry.mtime_ns, shown(path), SecretScan())
        return _listed(path, entry, EntryKind.FILE, DECLARED[entry.growth], sha256=digest)

    def _database(self, top: int, one: Database) -> ExportedEntry:
        self._require_no_login(one.path)
        with ExitStack() as stack:
            parent, scan = top, SecretScan(database=True)
            for name in one.path[:-1]:
                parent = stack.enter_context(owned(self._made(parent, name, exist_ok=True)))
            digest = self._bytes(parent, one.path[-1], one.content, self._made_ns, f"~/{shown(one.path)}", scan)
        entry = Entry(one.path[-1], Kind.FILE, one.mode, 0, one.content)
        return _listed(one.path, entry, EntryKind.DATABASE, CaptureKind.DATABASE, sha256=digest)

    def _bytes(self, parent: int, name: bytes, content: Content, mtime_ns: int, place: str, scan: SecretScan) -> str:
        """Write a file and return its SHA-256. Blocks of zeros stay holes."""
        digest = hashlib.sha256()
        with owned(self._calls.create(parent, name)) as descriptor:
            for index, block in enumerate(read_blocks(self._source, content)):
                self._alive()
                if secret := scan.find(block):
                    raise CheckpointExportRefusedError(path=place, reason=f"it holds {secret}")
                digest.update(block)
                if block.strip(b"\0"):
                    self._calls.write(descriptor, memoryview(block), index * content.block)
            self._calls.set_size(descriptor, content.size)
            self._calls.set_time(descriptor, mtime_ns)
        return digest.hexdigest()

    def _made(self, parent: int, name: bytes, *, exist_ok: bool = False) -> int:
        """Make a private directory and return it open."""
        try:
            self._calls.make_directory(parent, name)
        except FileExistsError:
            if not exist_ok:
                raise
        return self._calls.open_directory(parent, name)

    def _require_no_login(self, path: Names) -> None:
        if path[-1] in LOGIN_FILES or self._rules.credentials.matches(path):
            raise CheckpointExportRefusedError(path=shown(path), reason="it is a credential")


def _listed(
    path: Names,
    entry: Entry,
    kind: EntryKind,
    declared: CaptureKind | None = None,
    *,
    sha256: str | None = None,
    target: str | None = None,
) -> ExportedEntry:
    return ExportedEntry(
        path=spelled(b"/".join(path)),
        kind=kind,
        declared=declared,
        mode=entry.mode,
        mtime_ns=entry.mtime_ns,
        size=entry.content.size if declared else 0,
        sha256=sha256,
        target=target,
    )
