"""Removes trees that somebody else could write: never through a link, whatever their depth, and also where they are read-only.

Deep trees are flattened on the way: a subdirectory's own subdirectories are moved up before it is removed, so that neither the stack nor
the open descriptors grow with the depth that a guest chose.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from jamcore.system.trees import DIRECTORY_FLAGS, names_in, owned

_BATCH = 4096
_IS_DIRECTORY = frozenset({errno.EISDIR, errno.EPERM})
_TAKEN = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR})
_REACH = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OWN = 0o700


def remove_tree(
    parent: int, name: bytes, *, sync: Callable[[int], None] = os.fsync, alive: Callable[[], None] = lambda: None
) -> bool:
    """Remove one name with all that is below it, durably, and say whether it was there.

    Args:
        parent: An open directory; the name is removed from it alone.
        name: What is removed. A link goes itself, not what it names.
        sync: Makes the open ``parent`` durable.
        alive: Called often; raises when the caller gave up.

    Raises:
        OSError: Something could not be removed; what is left of it can be removed again.
    """
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    remove_entry(parent, name, alive)
    sync(parent)
    return True


def remove_entry(parent: int, name: bytes, alive: Callable[[], None] = lambda: None) -> None:
    """Remove one name with all that is below it."""
    if not _unlink(parent, name):
        with owned(_open(parent, name)) as child:
            empty_directory(child, alive)
        os.rmdir(name, dir_fd=parent)


def empty_directory(directory: int, alive: Callable[[], None] = lambda: None) -> None:
    """Remove everything in an open directory.

    Raises:
        OSError: Something could not be removed.
    """
    numbers = count()
    while names := names_in(directory, _BATCH):
        for name in names:
            alive()
            if not _unlink(directory, name):
                _flatten(directory, name, numbers)


def _open(parent: int, name: bytes) -> int:
    """Open a directory that is to be emptied. An ordinary user gives himself what its mode denies its owner; root needs nothing."""
    if os.geteuid() != 0:
        with owned(os.open(name, _REACH, dir_fd=parent)) as reached:
            mode = os.fstat(reached).st_mode
            if mode & _OWN != _OWN:
                Path(f"/proc/self/fd/{reached}").chmod(mode & 0o777 | _OWN)  # by its name, a link could have taken its place
    return os.open(name, DIRECTORY_FLAGS, dir_fd=parent)


def _unlink(parent: int, name: bytes) -> bool:
    """Remove a name that is no directory; say whether it is gone."""
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in _IS_DIRECTORY:
            return False
        raise
    return True


def _flatten(top: int, name: bytes, numbers: Iterator[int]) -> None:
    with owned(_open(top, name)) as child:
        while below := names_in(child, _BATCH):
            for entry in below:
                if not _unlink(child, entry):
                    _lift(child, entry, top, numbers)
    os.rmdir(name, dir_fd=top)


def _lift(child: int, name: bytes, top: int, numbers: Iterator[int]) -> None:
    os.close(_open(child, name))  # moving a directory changes its ``..``, so it has to be writable itself
    for number in numbers:
        try:
            os.rename(name, b".jam-emptying-%d" % number, src_dir_fd=child, dst_dir_fd=top)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
        else:
            return
