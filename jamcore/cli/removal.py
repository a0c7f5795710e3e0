"""What ``jam checkpoint rm`` chooses among a room's checkpoints, and how it shows what would go."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from jamcore.cli.output import Output
from jamcore.cli.words import SHORT_ID, exact_size
from jamcore.control.client import JamClient
from jamcore.domain.continuity import Checkpoint
from jamcore.domain.retention import REMOVED_TOGETHER, Blocker, CheckpointStanding, RemovalEvidence, RemovalPlan, Retention

NAMED = 10
"""So many ids at most are put into a command that a person is told to type."""


def oldest(found: Sequence[CheckpointStanding], keep: int, days: int | None, up_to: int | None) -> tuple[Sequence[Checkpoint], int]:
    """Return those of a room that may go together, newest first, and how many more may go after them.

    One sandbox at a time: a fresh start leaves another one's behind, which can be named by their ids.
    """
    ours = [each for each in found if each.checkpoint.host_id == found[0].checkpoint.host_id][keep:]
    before = datetime.now(UTC) - timedelta(days=days or 0)
    may_go = [
        each.checkpoint
        for each in ours
        if each.kept_because is None
        and (days is None or each.checkpoint.created_at < before)
        and (up_to is None or each.checkpoint.generation <= up_to)
    ]
    return may_go[-REMOVED_TOGETHER:], max(0, len(may_go) - REMOVED_TOGETHER)


def of_room(room: str, keep: int | None, older_than: int | None, *, up_to: int) -> str:
    """Return the arguments that choose the same once more: what was typed, and where it ends, since the room goes on meanwhile."""
    kept = () if keep is None else ("--keep", str(keep))
    old = () if older_than is None else ("--older-than", str(older_than))
    return shlex.join(("--room", room, *kept, *old, "--up-to", str(up_to)))


async def host_of_removed(client: JamClient, refs: Sequence[str]) -> UUID | None:
    """Return whose these checkpoints were if the payload of all of them is gone: who repeats a removal is told so, and not refused."""
    host = None
    for ref in refs:
        view = await client.checkpoint(ref)
        if view.removed_at is None:
            return None
        host = view.checkpoint.host_id
    return host


def show_plan(output: Output, plan: RemovalPlan, typed: str) -> None:
    """Print what would go, with the command that removes it, or what stands against it. ``typed``: the arguments of that command."""
    seen = plan.evidence
    output.table(("GENERATION", "ID", "FREES", "STAYS", "KEPT"), map(_row, seen.items))
    if is_gone(seen):
        output.note("Nothing is left to remove of what was named, and nothing was changed.")
    elif seen.blocked:
        _leave_out(output, seen)
    else:
        _offer(output, plan, typed)


def is_gone(seen: RemovalEvidence) -> bool:
    """Whether the payload of all of these went already."""
    return all(item.blocker is Blocker.REMOVED for item in seen.items)


def _offer(output: Output, plan: RemovalPlan, typed: str) -> None:
    seen = plan.evidence
    output.line(
        f"{exact_size(seen.bytes_freed)} would be freed; {exact_size(seen.bytes_stay)} stay, because other checkpoints need them"
    )
    if seen.bytes_copied:
        output.line(f"{exact_size(seen.bytes_copied)} that others need are copied first: as much must be free on the disk")
    output.note("FREES leaves the disk with a checkpoint; STAYS is what it shares with those that stay.")
    output.note(f"Remove them: jam checkpoint rm {typed} --confirm {plan.digest}")


def _leave_out(output: Output, seen: RemovalEvidence) -> None:
    output.note("Nothing can be removed while one of them has to stay: leave those out.", "yellow")
    rest = [str(item.checkpoint_id) for item in seen.items if item.blocker is None]
    if 0 < len(rest) <= NAMED:
        output.note(f"The others: jam checkpoint rm {' '.join(rest)}")


def _row(item: Retention) -> tuple[object, ...]:
    kept = f"{item.blocker}: {item.detail}" if item.blocker else ""
    return (item.generation, str(item.checkpoint_id)[:SHORT_ID], item.bytes_freed, item.bytes_stay, kept)
