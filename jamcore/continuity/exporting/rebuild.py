"""Reads the files of a checkpoint in an export into the units of a generation, by descriptor alone (WS-6, SEC-7).

What is on disk must be what is listed: every name, of the listed kind, with the listed bytes, and no other name. Links are
listed and not there, so none is followed or taken.
"""

from __future__ import annotations

import errno
import hashlib
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack

from jamcore.continuity.exporting.form import DATABASES, FILES, GROWTHS, LISTING
from jamcore.continuity.exporting.listing import ExportListing
from jamcore.continuity.generations.content import Content, write_index, write_stream
from jamcore.continuity.generations.databases import HEADER_BYTES, Database, DatabaseWriter, page_of, write_databases
from jamcore.continuity.generations.format import BLOCK, Sink, Unit
from jamcore.continuity.generations.objects import Entry, Growth, Kind, Root, write_directory
from jamcore.domain.checkpoint_exports import CheckpointImportRefusedError, ExportedEntry, unspelled
from jamcore.domain.continuity import EntryKind, SecretInStateError
from jamcore.domain.secret_shapes import SecretScan
from jamcore.system.tree_calls import TreeCalls
from jamcore.system.trees import Names, owned, shown

_NOT_IT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EPERM})


class Rebuild:
    """Reads one checkpoint directory. With a sink that keeps nothing it is a verification."""

    def __init__(
        self, sink: Sink, listing: ExportListing, alive: Callable[[], None] = lambda: None, calls: TreeCalls | None = None
    ) -> None:
        self._calls = calls or TreeCalls()
        self._sink = sink
        self._listing = listing
        self._alive = alive
        self._device = -1

    def run(self, directory: int) -> Root:
        """Read everything below an open checkpoint directory, and return the root of what it makes.

        Raises:
            CheckpointImportRefusedError: Anything is not as it is listed, or holds a credential; the path is named.
            OSError: The machine failed.
        """
        self._device = self._calls.status_of(directory).st_dev
        exported, databases = self._listing.exported, self._listing.databases
        tops = [LISTING.encode(), FILES.encode(), *([DATABASES.encode()] if databases else [])]
        self._require_names(directory, "", tops)
        with owned(self._entered(directory, FILES.encode(), FILES)) as top:
            content = self._directory(top, ())
        table: list[Database] = []
        if databases:
            with owned(self._entered(directory, DATABASES.encode(), DATABASES)) as top:
                self._require_database_names(top, ())
                table = [self._database(top, path, entry) for path, entry in databases.items()]
        return Root(
            exported.mode, exported.mtime_ns, content, exported.files, exported.bytes_total, write_databases(self._sink, table)
        )

    # -------------------------------------------------------------------------------------------------------- the state

    def _directory(self, directory: int, path: Names) -> Content:
        listed = self._listing.children[path]
        on_disk = [name for name, entry in listed.items() if entry.kind is not EntryKind.LINK]
        self._require_names(directory, f"{shown(path)}/" if path else "", on_disk)
        return write_directory(self._sink, [self._entry(directory, (*path, name), entry) for name, entry in listed.items()])

    def _entry(self, directory: int, path: Names, entry: ExportedEntry) -> Entry:
        self._alive()
        if entry.kind is EntryKind.DIRECTORY:
            with owned(self._entered(directory, path[-1], shown(path))) as child:
                return Entry(path[-1], Kind.DIRECTORY, entry.mode, entry.mtime_ns, self._directory(child, path))
        if entry.kind is EntryKind.LINK:
            target = write_stream(self._sink, unspelled(entry.target or ""))
            return Entry(path[-1], Kind.LINK, entry.mode, entry.mtime_ns, target)
        growth = GROWTHS[entry.declared] if entry.declared else Growth.WHOLE
        with owned(self._opened(directory, path, shown(path), entry)) as descriptor:
            leaves = [self._sink.put(Unit.LEAF, data) for data in self._read(descriptor, shown(path), entry, SecretScan())]
        # No witness: its change time and inode are those of a file in an export, and prove nothing of a live one.
        return Entry(path[-1], Kind.FILE, entry.mode, entry.mtime_ns, write_index(self._sink, leaves, entry.size), growth)

    # ------------------------------------------------------------------------------------------------------ databases

    def _database(self, top: int, path: Names, entry: ExportedEntry) -> Database:
        self._alive()
        place = f"~/{shown(path)}"
        with ExitStack() as stack:
            parent = top
            for name in path[:-1]:
                parent = stack.enter_context(owned(self._entered(parent, name, place)))
            descriptor = stack.enter_context(owned(self._opened(parent, path, place, entry)))
            page = page_of(self._bytes(descriptor, HEADER_BYTES, 0))
            if not page or entry.size % page:
                raise _refused(place, "it is no database")
            writer = DatabaseWriter(self._sink, path, page)
            try:
                for data in self._read(descriptor, place, entry, None):
                    writer.take(data)
                return writer.finish(entry.mode)
            except SecretInStateError as error:
                raise _refused(place, error.reason) from error
            except ValueError as error:
                raise _refused(place, "it was changed while it was read") from error

    def _require_database_names(self, directory: int, path: Names) -> None:
        """Compare all names below the databases' directory with those that are listed."""
        depth = len(path)
        below = {one[depth]: len(one) > depth + 1 for one in self._listing.databases if one[:depth] == path}
        self._require_names(directory, f"~/{shown(path)}/" if path else "~/", below)
        for name, is_directory in below.items():
            if is_directory:
                with owned(self._entered(directory, name, f"~/{shown((*path, name))}")) as child:
                    self._require_database_names(child, (*path, name))

    # ----------------------------------------------------------------------------------------------------------- both

    def _entered(self, parent: int, name: bytes, place: str) -> int:
        """Open a directory that is listed."""
        try:
            descriptor = self._calls.open_directory(parent, name)
        except OSError as error:
            raise _other(error, place, "it is no directory that can be read") from error
        return self._here(descriptor, place)

    def _opened(self, parent: int, path: Names, place: str, entry: ExportedEntry) -> int:
        """Open a file that is listed; nothing else is opened, since a device or a FIFO may do things or wait."""
        try:
            seen = self._calls.status(parent, path[-1])
            if not stat.S_ISREG(seen.st_mode):
                raise _refused(place, "it is no regular file")
            return self._here(self._calls.open_file(parent, path[-1]), place, entry.size)
        except OSError as error:
            raise _other(error, place, "it is no file that can be read") from error

    def _here(self, descriptor: int, place: str, size: int | None = None) -> int:
        """Return what was opened, or close it where it is not what is listed. ``size`` is a file's."""
        with ExitStack() as opened:
            opened.callback(self._calls.close, descriptor)
            now = self._calls.status_of(descriptor)
            if now.st_dev != self._device:
                raise _refused(place, "it lies on another file system")
            if size is not None and not (stat.S_ISREG(now.st_mode) and now.st_size == size):
                raise _refused(place, f"it has {now.st_size} bytes, and {size} are listed")
            opened.pop_all()
        return descriptor

    def _read(self, descriptor: int, place: str, entry: ExportedEntry, scan: SecretScan | None) -> Iterator[bytes]:
        """Yield a file's bytes in blocks, and hold it at the end against what is listed."""
        digest, left = hashlib.sha256(), entry.size
        while left:
            self._alive()
            data = self._bytes(descriptor, min(BLOCK, left), entry.size - left)
            if len(data) != min(BLOCK, left):
                raise _refused(place, "it was cut while it was read")
            if scan and (secret := scan.find(data)):
                raise _refused(place, f"it holds {secret}")
            digest.update(data)
            left -= len(data)
            yield data
        if digest.hexdigest() != entry.sha256:
            raise _refused(place, "its bytes are not those that are listed")

    def _bytes(self, descriptor: int, count: int, offset: int) -> bytes:
        """Return so many bytes of a file; fewer at its end."""
        buffer = bytearray(count)
        return bytes(buffer[: self._calls.read(descriptor, memoryview(buffer), offset)])

    def _require_names(self, directory: int, before: str, listed: Iterable[bytes]) -> None:
        """Compare the names in an open directory with those that are listed there. ``before`` is the way to it, for a person."""
        wanted = set(listed)
        there = set(self._calls.names(directory, len(wanted)))
        for name in sorted(there - wanted):
            raise _refused(f"{before}{shown((name,))}", "it is not listed")
        for name in sorted(wanted - there):
            raise _refused(f"{before}{shown((name,))}", "it is not there")


def _other(error: OSError, place: str, reason: str) -> Exception:
    """Return the refusal where what is there is not what is listed, and the machine's own error otherwise."""
    return _refused(place, reason) if error.errno in _NOT_IT else error


def _refused(path: str, reason: str) -> CheckpointImportRefusedError:
    return CheckpointImportRefusedError(path=path, reason=reason)
