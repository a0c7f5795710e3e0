"""The marker that stands while a restore is neither done nor undone: nothing may be captured, and no live state be used."""

from __future__ import annotations

from pathlib import Path

from jamcore.continuity.generations.blocks import mode_of
from jamcore.system.files import Files

MARKER = "restoring"


def is_half_restored(recovery: Path) -> bool:
    """Say whether a restore of this host began and did not end.

    Raises:
        OSError: That cannot be found out.
    """
    return mode_of(recovery / MARKER) is not None


def end_restore(recovery: Path, files: Files) -> None:
    """Say durably that all is in place; where no restore began, nothing is to be done."""
    if is_half_restored(recovery):
        files.unlink(recovery / MARKER)
