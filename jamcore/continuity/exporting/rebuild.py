"""Reads the files of a checkpoint in an export into the units of a generation, by descriptor alone (WS-6, SEC-7).

What is on disk must be what is listed: every name, of the listed kind, with the listed bytes, and no other name. No link is followed.
"""

from __future__ import annotations

import errno
import hashlib
import os
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
from jamcore.system.trees import DIRECTORY_FLAGS, Names, SwappedError, look, names_in, open_file, owned, shown

_NOT_IT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EPERM})


class Rebuild:
    """Reads one checkpoint directory. With a sink that keeps nothing it is a verification."""

    def __init__(self, sink: Sink, listing: ExportListing, alive: Callable[[], None] = lambda: None) -> None:
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
        self._device = os.fstat(directory).st_dev
        exported, databases = self._listing.exported, self._listing.databases
        tops = [LISTING.encode(), FILES.encode(), *([DATABASES.encode()] if databases else [])]
        _require_names(directory, "", tops)
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
        _require_names(directory, f"{shown(path)}/" if path else "", listed)
        return write_directory(self._sink, [self._entry(directory, (*path, name), entry) for name, entry in listed.items()])

    def _entry(self, directory: int, path: Names, entry: ExportedEntry) -> Entry:
        self._alive()
        if entry.kind is EntryKind.DIRECTORY:
            with owned(self._entered(directory, path[-1], shown(path))) as child:
                return Entry(path[-1], Kind.DIRECTORY, entry.mode, entry.mtime_ns, self._directory(child, path))
        if entry.kind is EntryKind.LINK:
            return Entry(path[-1], Kind.LINK, entry.mode, entry.mtime_ns, self._link(directory, path, entry))
        growth = GROWTHS[entry.declared] if entry.declared else Growth.WHOLE
        with owned(self._opened(directory, path, shown(path), entry)) as descriptor:
            leaves = [self._sink.put(Unit.LEAF, data) for data in self._read(descriptor, shown(path), entry, SecretScan())]
        # No witness: its change time and inode are those of a file in an export, and prove nothing of a live one.
        return Entry(path[-1], Kind.FILE, entry.mode, entry.mtime_ns, write_index(self._sink, leaves, entry.size), growth)

    def _link(self, directory: int, path: Names, entry: ExportedEntry) -> Content:
        seen = look(directory, path[-1], path)
        target = unspelled(entry.target or "")
        if seen is None or not seen.is_link:
            raise _refused(shown(path), "it is no symbolic link")
        if os.readlink(path[-1], dir_fd=directory) != target:
            raise _refused(shown(path), "it names another target than is listed")
        return write_stream(self._sink, target)

    # ------------------------------------------------------------------------------------------------------ databases

    def _database(self, top: int, path: Names, entry: ExportedEntry) -> Database:
        self._alive()
        place = f"~/{shown(path)}"
        with ExitStack() as stack:
            parent = top
            for name in path[:-1]:
                parent = stack.enter_context(owned(self._entered(parent, name, place)))
            descriptor = stack.enter_context(owned(self._opened(parent, path, place, entry)))
            page = page_of(os.pread(descriptor, HEADER_BYTES, 0))
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
        _require_names(directory, f"~/{shown(path)}/" if path else "~/", below)
        for name, is_directory in below.items():
            if is_directory:
                with owned(self._entered(directory, name, f"~/{shown((*path, name))}")) as child:
                    self._require_database_names(child, (*path, name))

    # ----------------------------------------------------------------------------------------------------------- both

    def _entered(self, parent: int, name: bytes, place: str) -> int:
        """Open a directory that is listed."""
        try:
            descriptor = os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
        except OSError as error:
            raise _other(error, place, "it is no directory that can be read") from error
        return self._here(descriptor, place)

    def _opened(self, parent: int, path: Names, place: str, entry: ExportedEntry) -> int:
        """Open a file that is listed; nothing else is opened, since a device or a FIFO may do things or wait."""
        seen = look(parent, path[-1], path)
        if seen is None or not seen.is_file:
            raise _refused(place, "it is no regular file")
        if seen.stat.st_size != entry.size:
            raise _refused(place, f"it has {seen.stat.st_size} bytes, and {entry.size} are listed")
        try:
            descriptor = open_file(seen)
        except OSError as error:
            raise _other(error, place, "it is no file that can be read") from error
        return self._here(descriptor, place)

    def _here(self, descriptor: int, place: str) -> int:
        if os.fstat(descriptor).st_dev != self._device:
            os.close(descriptor)
            raise _refused(place, "it lies on another file system")
        return descriptor

    def _read(self, descriptor: int, place: str, entry: ExportedEntry, scan: SecretScan | None) -> Iterator[bytes]:
        """Yield a file's bytes in blocks, and hold it at the end against what is listed."""
        digest, left = hashlib.sha256(), entry.size
        while left:
            self._alive()
            data = os.pread(descriptor, min(BLOCK, left), entry.size - left)
            if len(data) != min(BLOCK, left):
                raise _refused(place, "it was cut while it was read")
            if scan and (secret := scan.find(data)):
                raise _refused(place, f"it holds {secret}")
            digest.update(data)
            left -= len(data)
            yield data
        if digest.hexdigest() != entry.sha256:
            raise _refused(place, "its bytes are not those that are listed")


def _require_names(directory: int, before: str, listed: Iterable[bytes]) -> None:
    """Compare the names in an open directory with those that are listed there. ``before`` is the way to it, for a person."""
    wanted = set(listed)
    there = set(names_in(directory, len(wanted)))
    for name in sorted(there - wanted):
        raise _refused(f"{before}{shown((name,))}", "it is not listed")
    for name in sorted(wanted - there):
        raise _refused(f"{before}{shown((name,))}", "it is not there")


def _other(error: OSError, place: str, reason: str) -> Exception:
    """Return the refusal where what is there is not what is listed, and the machine's own error otherwise."""
    return _refused(place, reason) if isinstance(error, SwappedError) or error.errno in _NOT_IT else error


def _refused(path: str, reason: str) -> CheckpointImportRefusedError:
    return CheckpointImportRefusedError(path=path, reason=reason)
