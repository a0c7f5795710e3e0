"""Writes captured files beside the live state, verified and durable, to be renamed into place later."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from jamcore.continuity.generations.content import read_blocks, read_stream
from jamcore.continuity.generations.format import BLOCK, Source
from jamcore.continuity.generations.objects import Entry, Kind
from jamcore.system.crew import spread
from jamcore.system.files import PRIVATE_FILE, Files
from jamcore.system.trees import owned

SYNC_EACH = 64
"""Up to so many files each is synced by itself; above, one sync of the whole machine is quicker."""

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Owner:
    """Who owns what is restored: the owner of the state root, which is the user that the guest runs as."""

    def __init__(self, root: int) -> None:
        status = os.fstat(root)
        self._ids = (status.st_uid, status.st_gid)
        self._differs = os.geteuid() == 0 and self._ids != (os.geteuid(), os.getegid())

    def set_attributes(self, descriptor: int, mode: int, mtime_ns: int) -> None:
        """Give an open file or directory its owner, captured mode and time."""
        if self._differs:
            os.fchown(descriptor, *self._ids)
        os.fchmod(descriptor, mode)
        os.utime(descriptor, ns=(mtime_ns, mtime_ns))

    def set_link_attributes(self, directory: int, name: bytes, mtime_ns: int) -> None:
        """Give a link its owner and time; the link itself, not what it names."""
        if self._differs:
            os.chown(name, *self._ids, dir_fd=directory, follow_symlinks=False)
        os.utime(name, ns=(mtime_ns, mtime_ns), dir_fd=directory, follow_symlinks=False)


class Stage:
    """One staging directory, with numbers for names: what a guest called its files matters only at the end."""

    def __init__(self, directory: int, source: Source, owner: Owner, *, files: Files, alive: Callable[[], None]) -> None:
        self.directory = directory
        self._source = source
        self._owner = owner
        self._files = files
        self._alive = alive

    def put(self, entries: Sequence[Entry]) -> list[bytes]:
        """Write captured files and links, make them durable, and return their names here in the order of the entries.

        Raises:
            BlockDamagedError: The bytes of one are not the captured ones.
        """
        each = len(entries) <= SYNC_EACH
        numbered = [(b"%d" % number, entry) for number, entry in enumerate(entries)]
        longest_first = sorted(numbered, key=lambda one: one[1].content.size, reverse=True)
        spread(lambda one, alive: self._put(*one, alive, sync=each), longest_first, self._alive)
        if not each:
            os.sync()
        self._files.sync(self.directory)
        return [name for name, _ in numbered]

    def _put(self, name: bytes, entry: Entry, alive: Callable[[], None], *, sync: bool) -> None:
        if entry.kind is Kind.LINK:
            os.symlink(read_stream(self._source, entry.content), name, dir_fd=self.directory)
            self._owner.set_link_attributes(self.directory, name, entry.mtime_ns)
        else:
            self._put_file(name, entry, alive, sync=sync)

    def _put_file(self, name: bytes, entry: Entry, alive: Callable[[], None], *, sync: bool) -> None:
        with owned(os.open(name, _CREATE, PRIVATE_FILE, dir_fd=self.directory)) as descriptor:
            for index, block in enumerate(read_blocks(self._source, entry.content)):
                alive()
                if block.strip(b"\0"):  # what is only zeros stays a hole; this looks at the ends alone where there are others
                    _write(descriptor, block, index * BLOCK)
            os.ftruncate(descriptor, entry.content.size)
            self._owner.set_attributes(descriptor, entry.mode, entry.mtime_ns)
            if sync:
                self._files.sync(descriptor)


def _write(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        done = os.pwrite(descriptor, view, offset)
        view, offset = view[done:], offset + done
