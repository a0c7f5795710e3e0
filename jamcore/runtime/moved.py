"""A host whose guest sees host paths, after the app directory moved: what the guest rebuilds by itself may name the old place.

Providers keep databases with absolute paths on the guest disk and rebuild them from their state. Where guest paths are fixed these stay
true for ever; where they are host paths they are emptied once after a move, as after a restore (CONT-5, PLAN-4).
"""

from __future__ import annotations

from pathlib import Path

from jamcore.continuity.resuming.scratch import empty_scratch
from jamcore.domain import layout
from jamcore.domain.plan import GuestPaths, Plan
from jamcore.system.files import Files

SEEN_AT = "seen-at"
"""The app directory that the guest saw last, on the guest disk beside the home."""


def forget_old_places(plan: Plan, app: Path, scratch: tuple[str, ...], *, files: Files) -> bool:
    """Empty the scratch directories if the guest saw another app directory before. Blocking; repeated after a crash, it is the same.

    Returns:
        Whether they were emptied.
    """
    if plan.paths is GuestPaths.FIXED:
        return False
    disk = app / layout.guest_disk(plan.owner.stable_id)
    note, now = disk / SEEN_AT, str(app.resolve())
    if _read(note) == now:
        return False
    if (disk / "home").is_dir():
        for relative in scratch:
            empty_scratch(disk / "home", relative)
    files.make_private(disk)
    files.write_atomic(note, now.encode(errors="surrogateescape"))
    return True


def _read(note: Path) -> str | None:
    try:
        return note.read_bytes().decode(errors="surrogateescape")
    except FileNotFoundError:
        return None
