"""What goes with a sandbox: before a private clone is lost with it, what it holds is looked at (OWN-9).

Whether the clone goes is the engine's own word (:attr:`~jamcore.domain.cells.Ability.KEEPS_DISK`). What cannot be looked at counts as
work: nothing is ever lost because a question had no answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from jamcore.domain.cells import Ability
from jamcore.domain.clone_work import CloneWork, WorkWouldBeLostError
from jamcore.domain.errors import JamError
from jamcore.domain.plan import ClonePlan, Plan
from jamcore.domain.sandboxes import Presence
from jamcore.engines.port import Clones, Engine, HostView
from jamcore.sandbox.calls import EngineCalls


class LooksAtClone(Protocol):
    """Looks at a clone on the host; :func:`jamcore.workspace.clone_work.look_at_clone`, with a place for its own files."""

    async def __call__(self, path: Path, commit: str, *, guest_path: str) -> CloneWork:
        """Return what the clone holds beyond ``commit``; bounded, read-only, and nothing in it is executed."""


def goes_with_sandbox(plan: Plan, engine: Engine) -> bool:
    """Say whether removing the plan's sandbox removes a private clone."""
    return plan.clone and Ability.KEEPS_DISK not in engine.abilities


async def work_in_clone(calls: EngineCalls, plan: Plan, presence: Presence, look: LooksAtClone | None) -> CloneWork | None:
    """Return what the clone of a plan's sandbox holds now, or ``None`` when there is none.

    What a running guest may write while it is looked at cannot be said; where the clone stays, what is seen is good enough to be told.
    An absent sandbox has none: what goes with it is gone.
    """
    if not isinstance(plan.primary, ClonePlan) or presence is Presence.ABSENT:
        return None
    commit, engine = plan.primary.commit, calls.engine
    if presence is Presence.RUNNING and goes_with_sandbox(plan, engine):
        return CloneWork(commit=commit, unknown=("the sandbox runs, and its files may change",))
    if (
        look is None
        or Ability.HOST_VIEW not in engine.abilities
        or not isinstance(engine, HostView)
        or not isinstance(engine, Clones)
    ):
        return CloneWork(commit=commit, unknown=("the engine does not show its files",))
    try:
        source = await calls.clone(engine, plan.name)
        path = engine.host_path(plan.name, source.guest_path)
    except JamError as error:
        return CloneWork(commit=commit, unknown=(f"the engine does not show its files: {error.code}",))
    return await look(path, commit, guest_path=source.guest_path)


def require_nothing_lost(sandbox: str, work: CloneWork | None, *, discard: bool) -> None:
    """Accept a removal that loses no work, or whose loss was confirmed.

    Raises:
        WorkWouldBeLostError: There is work, or that cannot be said.
    """
    if work is not None and not discard and (lost := work.blockers()):
        raise WorkWouldBeLostError(sandbox=sandbox, lost=lost)
