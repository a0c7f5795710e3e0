"""What restores replaced, and for how long it is kept.

Each restore sets its own aside, whole. It is a person's last way to what a generation did not hold, so the newest few stay, whatever
becomes of the session; older ones go once a later restore has put a verified generation in place.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from jamcore.continuity.resuming.restore import REPLACED
from jamcore.system.removal import remove_entry
from jamcore.system.trees import names_in, open_root, owned

KEPT = 3
"""Restores of one host whose replaced files are kept. A restore is rare (a crash that lost or forked live state), and each may set aside a
whole conversation log: three reach back over several mishaps and bound the disk."""
_MOST = 10_000
"""Names looked at in one go; nothing makes so many."""


def prune_replaced(recovery: Path, alive: Callable[[], None] = lambda: None) -> tuple[str, ...]:
    """Remove all but the newest of what restores replaced, and return what went. Only names that a restore gives are looked at.

    Raises:
        OSError: Something could not be removed; the rest stays for the next time.
    """
    try:
        directory = open_root(recovery / REPLACED)
    except FileNotFoundError:
        return ()
    with owned(directory):
        old = _restores(directory)[:-KEPT]
        for name in old:
            remove_entry(directory, name, alive)
        if old:
            os.fsync(directory)
    return tuple(os.fsdecode(name) for name in old)


def newest_replaced(recovery: Path) -> UUID | None:
    """Return the newest restore that replaced something. The next one's id must sort behind it, whatever the clock says."""
    try:
        directory = open_root(recovery / REPLACED)
    except FileNotFoundError:
        return None
    with owned(directory):
        return max((UUID(os.fsdecode(name)) for name in _restores(directory)), default=None)


def _restores(directory: int) -> list[bytes]:
    """Return the names that restores gave, oldest first: their ids are made to sort in the order of the restores."""
    return [name for name in names_in(directory, _MOST) if _is_id(name)]


def _is_id(name: bytes) -> bool:
    try:
        return str(UUID(os.fsdecode(name))).encode() == name
    except ValueError:
        return False
