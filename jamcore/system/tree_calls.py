"""The system calls by which a tree is read and copied, in one object, so that a test can fail or interrupt each of them.

All take open directories and names, never paths, and none follows a link.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Iterator
from threading import Event

from jamcore.system.files import PRIVATE_DIRECTORY, PRIVATE_FILE
from jamcore.system.trees import DIRECTORY_FLAGS, FILE_FLAGS, names_in, status_of

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_ATTRIBUTES = frozenset({errno.ENOTSUP, errno.ENOSYS})
_RENAME_NOREPLACE = 1
_NO_NOREPLACE = frozenset({errno.EINVAL, errno.ENOSYS})

TICK_S = 0.02
"""The kernel counts the times of files in ticks of at most a hundredth of a second."""


class TreeCalls:
    """One object per daemon; tests subclass it."""

    def open_directory(self, parent: int, name: bytes) -> int:
        """Open a directory; a link is refused."""
        return os.open(name, DIRECTORY_FLAGS, dir_fd=parent)

    def open_file(self, parent: int, name: bytes) -> int:
        """Open a file for reading; a link is refused, and a FIFO or a device does not make it wait."""
        return os.open(name, FILE_FLAGS, dir_fd=parent)

    def close(self, descriptor: int) -> None:
        """Close what was opened."""
        os.close(descriptor)

    def names(self, directory: int, at_most: int) -> list[bytes]:
        """See :func:`jamcore.system.trees.names_in`."""
        return names_in(directory, at_most)

    def status(self, parent: int, name: bytes) -> os.stat_result:
        """Look at a name."""
        return os.stat(name, dir_fd=parent, follow_symlinks=False)

    def status_of(self, descriptor: int) -> os.stat_result:
        """Look at what is open."""
        return os.fstat(descriptor)

    def may_read(self, parent: int, name: bytes, *, directory: bool) -> bool:
        """Say whether this user may read a file, or list and enter a directory."""
        wanted = os.R_OK | os.X_OK if directory else os.R_OK
        return os.access(name, wanted, dir_fd=parent, effective_ids=True, follow_symlinks=False)

    def target(self, parent: int, name: bytes) -> bytes:
        """Read a symbolic link."""
        return os.readlink(name, dir_fd=parent)

    def read(self, descriptor: int, buffer: memoryview, offset: int) -> int:
        """Read into a buffer and return how many bytes came."""
        return os.preadv(descriptor, [buffer], offset)

    def extents(self, descriptor: int, size: int) -> Iterator[tuple[int, int]]:
        """Yield where the data of a file with holes begins and ends."""
        offset = 0
        while offset < size:
            try:
                start = os.lseek(descriptor, offset, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # a hole up to the end
                    return
                raise
            offset = min(os.lseek(descriptor, start, os.SEEK_HOLE), size)
            yield start, offset

    def attributes(self, descriptor: int) -> dict[str, bytes]:
        """Return the extended attributes; none where the file system has none."""
        try:
            names = os.listxattr(descriptor)
        except OSError as error:
            if error.errno in _NO_ATTRIBUTES:
                return {}
            raise
        return {name: os.getxattr(descriptor, name) for name in sorted(names)} if names else {}

    def make_directory(self, parent: int, name: bytes) -> None:
        """Make a private directory."""
        os.mkdir(name, PRIVATE_DIRECTORY, dir_fd=parent)

    def create(self, parent: int, name: bytes) -> int:
        """Make a private file that is not there yet and open it for writing."""
        return os.open(name, _CREATE, PRIVATE_FILE, dir_fd=parent)

    def write(self, descriptor: int, data: memoryview, offset: int) -> None:
        """Write all of it."""
        while data:
            done = os.pwrite(descriptor, data, offset)
            data, offset = data[done:], offset + done

    def set_size(self, descriptor: int, size: int) -> None:
        """Give a file its size; what was not written is a hole."""
        os.ftruncate(descriptor, size)

    def set_attribute(self, descriptor: int, name: str, value: bytes) -> None:
        """Set an extended attribute."""
        os.setxattr(descriptor, name, value)

    def make_link(self, target: bytes, parent: int, name: bytes) -> None:
        """Make a symbolic link."""
        os.symlink(target, name, dir_fd=parent)

    def link(self, old_parent: int, old: bytes, parent: int, name: bytes) -> None:
        """Make a hard link."""
        os.link(old, name, src_dir_fd=old_parent, dst_dir_fd=parent, follow_symlinks=False)

    def rename(self, parent: int, old: bytes, new: bytes) -> None:
        """Rename within a directory."""
        os.rename(old, new, src_dir_fd=parent, dst_dir_fd=parent)

    def move(self, old_parent: int, old: bytes, parent: int, new: bytes) -> None:
        """Give a name that nobody has to something in another directory of the same file system.

        Where the system has no such call, or the file system does not know it, the name is looked at right before.

        Raises:
            FileExistsError: Something has the new name; both stay.
            OSError: The machine refused.
        """
        sys.audit("os.rename", old, new, old_parent, parent)  # Python has no call of its own for this, and would say as much of it
        number = _rename("renameat2", old_parent, old, parent, new, _RENAME_NOREPLACE)
        if number in _NO_NOREPLACE:
            number = _rename("renameat", old_parent, old, parent, new) if status_of(parent, new) is None else errno.EEXIST
        if number:
            raise OSError(number, os.strerror(number), os.fsdecode(new))

    def set_owner(self, descriptor: int, owner: tuple[int, int]) -> None:
        """Give a file or directory to a user and group."""
        os.fchown(descriptor, *owner)

    def set_mode(self, descriptor: int, mode: int) -> None:
        """Set the permission bits."""
        os.fchmod(descriptor, mode)

    def set_time(self, descriptor: int, mtime_ns: int) -> None:
        """Set when it was changed."""
        os.utime(descriptor, ns=(mtime_ns, mtime_ns))

    def set_link_owner(self, parent: int, name: bytes, owner: tuple[int, int]) -> None:
        """Give a symbolic link itself to a user and group."""
        os.chown(name, *owner, dir_fd=parent, follow_symlinks=False)

    def set_link_time(self, parent: int, name: bytes, mtime_ns: int) -> None:
        """Set when a symbolic link itself was changed."""
        os.utime(name, ns=(mtime_ns, mtime_ns), dir_fd=parent, follow_symlinks=False)

    def pass_tick(self) -> None:
        """Wait until a change that is made from now on leaves another time than one that was made before."""
        Event().wait(TICK_S)


def _rename(call: str, *arguments: int | bytes) -> int:
    """Rename by a call of the C library and return the number of its error; 0: it is done."""
    function = getattr(ctypes.CDLL(None, use_errno=True), call, None)
    if function is None:
        return errno.ENOSYS
    return 0 if function(*arguments) == 0 else ctypes.get_errno()
