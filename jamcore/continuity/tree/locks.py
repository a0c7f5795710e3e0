"""Tells lock files: brought back with a conversation, one would say that a program runs which ended long ago.

A name alone is not enough, since package managers keep what they pinned in ``*.lock``. A lock holds nothing, or whose it is.
"""

from __future__ import annotations

LOCK_BYTES = 64
"""Most bytes of a lock file: a process id, a start time, a host's name."""
_NAMES = frozenset({b"lock", b".lock", b"LOCK", b"lockfile", b"SingletonLock"})
_ENDS = (b".lock", b".lck", b".pid")


def is_lock(name: bytes, size: int) -> bool:
    """Say whether a file, link or empty directory of this name and size in bytes is a lock."""
    return size <= LOCK_BYTES and (name in _NAMES or name.endswith(_ENDS))
