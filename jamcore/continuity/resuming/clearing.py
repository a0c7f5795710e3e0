"""Empties directories that a guest could write to: never through a link, and whatever their depth.

Deep trees are flattened on the way: a subdirectory's own subdirectories are moved up before it is removed, so that neither the stack nor
the open descriptors grow with the depth that a guest chose.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from itertools import count

from jamcore.continuity.tree.walk import DIRECTORY_FLAGS, names_in, owned

_BATCH = 4096
_IS_DIRECTORY = frozenset({errno.EISDIR, errno.EPERM})
_TAKEN = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR})


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


def remove_entry(parent: int, name: bytes, alive: Callable[[], None] = lambda: None) -> None:
    """Remove one name with all that is below it."""
    if not _unlink(parent, name):
        with owned(os.open(name, DIRECTORY_FLAGS, dir_fd=parent)) as child:
            empty_directory(child, alive)
        os.rmdir(name, dir_fd=parent)


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
    with owned(os.open(name, DIRECTORY_FLAGS, dir_fd=top)) as child:
        while below := names_in(child, _BATCH):
            for entry in below:
                if not _unlink(child, entry):
                    _lift(child, entry, top, numbers)
    os.rmdir(name, dir_fd=top)


def _lift(child: int, name: bytes, top: int, numbers: Iterator[int]) -> None:
    for number in numbers:
        try:
            os.rename(name, b".jam-emptying-%d" % number, src_dir_fd=child, dst_dir_fd=top)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
        else:
            return
