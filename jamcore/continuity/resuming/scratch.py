"""Empties the guest's scratch directories: rebuildable state that would disagree silently with restored files (CONT-5)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from jamcore.continuity.generations.objects import is_name
from jamcore.domain.errors import InvalidInputError
from jamcore.system.files import PRIVATE_DIRECTORY
from jamcore.system.removal import empty_directory
from jamcore.system.trees import DIRECTORY_FLAGS, look, open_root, owned


def empty_scratch(home: Path, relative: str, alive: Callable[[], None] = lambda: None) -> None:
    """Empty one directory below the guest's home, durably; where it or the home is absent, nothing is to be done.

    A link or file where a directory of the path should be is removed, not followed: it could bring stale state back in.

    Raises:
        InvalidInputError: ``relative`` is no plain relative path.
        OSError: Something could not be removed.
    """
    names = tuple(os.fsencode(part) for part in relative.split("/"))
    if not all(is_name(name) for name in names):
        raise InvalidInputError(field="guest_scratch", problem=f"{relative[:80]!r} is not a relative path")
    try:
        root = open_root(home)
    except FileNotFoundError:
        return
    with owned(root) as descriptor:
        _empty(descriptor, names, alive)


def _empty(directory: int, names: tuple[bytes, ...], alive: Callable[[], None]) -> None:
    if not names:
        empty_directory(directory, alive)
        os.fsync(directory)
        return
    name, *rest = names
    seen = look(directory, name, (name,))
    if seen is None:
        return
    if not seen.is_directory:
        owner = os.fstat(directory)
        os.unlink(name, dir_fd=directory)
        os.mkdir(name, PRIVATE_DIRECTORY, dir_fd=directory)
        if os.geteuid() == 0:
            os.chown(name, owner.st_uid, owner.st_gid, dir_fd=directory, follow_symlinks=False)
    with owned(os.open(name, DIRECTORY_FLAGS, dir_fd=directory)) as child:
        _empty(child, tuple(rest), alive)
