"""Starting a host's conversations afresh, as a journaled action (CONT-9, CONT-13).

The plan mints every id before anything is changed, and the record that keeps it is the point of no return: from then on the action can
only be finished, and nothing of the source is resumed any more. What comes after it destroys nothing. Rooms are moved in one transaction
that ends with the source being archived: whoever sees an archived source sees everything.
"""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from jamcore.domain.operations import OnRestart
from jamcore.domain.ownership import MarkerUnreadableError, OwnershipMismatchError
from jamcore.domain.records import Record
from jamcore.domain.resets import ContinuityEvidence, ContinuityReset, ResetRefusedError
from jamcore.journal.declaration import Declaration
from jamcore.journal.steps import Action, Observed, Step, boundaries

KIND = "continuity-reset"
PLAN, RECORD, SETTLE, CHECKPOINT, CARRY, APPLY = "plan", "record", "settle", "checkpoint", "carry", "apply"
RESET_POINTS = boundaries(KIND, (PLAN, RECORD, SETTLE, CHECKPOINT, CARRY, APPLY))
"""Every boundary of one reset, in the order in which a run passes them."""
_NOTHING = "everything as it was"


class ResetIntent(Record):
    """One fresh start. ``reset`` is planned by the first step; ``checkpoint`` and ``files`` are words on what the later ones did."""

    id: UUID
    host_id: UUID
    confirmed: str
    reset: ContinuityReset | None = None
    checkpoint: str = ""
    files: tuple[str, ...] = ()

    def planned(self) -> ContinuityReset:
        """Return what the first step planned.

        Raises:
            ValueError: It has not yet: the steps are in the wrong order.
        """
        if self.reset is None:
            raise ValueError("the reset is not planned yet")
        return self.reset


class ResetSources(Protocol):
    """What the action needs of whoever composes it. Each of these may be done again."""

    async def plan(self, intent: ResetIntent) -> ContinuityReset:
        """Make sure that nothing runs, look at the evidence again, and mint what takes the source's place.

        Raises:
            ResetRefusedError: The evidence is not what was confirmed, or something runs.
        """

    async def record(self, reset: ContinuityReset) -> None:
        """Look at the evidence once more and keep the record; the same again is fine.

        Raises:
            ResetRefusedError: The evidence changed, or the source is being started afresh already.
        """

    async def is_recorded(self, reset: ContinuityReset) -> bool:
        """Say whether the record is kept."""

    async def settle(self, reset: ContinuityReset) -> None:
        """Cut every turn of the source that is not known to be safe: nobody will bring it back."""

    async def checkpoint(self, reset: ContinuityReset) -> str:
        """Try to make a last generation of the source, and say what came of it."""

    async def carry(self, reset: ContinuityReset) -> tuple[str, ...]:
        """Copy the files that the new sessions go on with, and say where which are."""

    async def apply(self, intent: ResetIntent) -> None:
        """Move the rooms to what was planned and archive the source, in one transaction; one that was applied is fine."""


def reset_action(sources: ResetSources) -> Action[ResetIntent]:
    """Return the action. What ends it for good happens before the record is kept; from then on it can only be finished."""
    steps = _Steps(sources)
    return Action(
        KIND,
        ResetIntent,
        (
            Step(PLAN, steps.plan, OnRestart.REPLAY, leaves=_NOTHING),
            Step(RECORD, steps.record, OnRestart.OBSERVE_THEN_FINISH, observe=steps.recorded, leaves=_NOTHING),
            Step(SETTLE, steps.settle, OnRestart.REPLAY, leaves="the record of what was planned"),
            Step(CHECKPOINT, steps.checkpoint, OnRestart.REPLAY, leaves="the record of what was planned"),
            Step(CARRY, steps.carry, OnRestart.REPLAY, leaves="the record of what was planned, and copies of files"),
            Step(APPLY, steps.apply, OnRestart.REPLAY, leaves="the record of what was planned, and copies of files"),
        ),
        hopeless=(ResetRefusedError, OwnershipMismatchError, MarkerUnreadableError),
        declares=Declaration(
            title="fresh start of the conversations",
            evidence="the newest generation read whole, and what was last observed of each session",
            replay="continuity resets",
            confirms=ContinuityEvidence,
        ),
    )


class _Steps:
    def __init__(self, sources: ResetSources) -> None:
        self._sources = sources

    async def plan(self, intent: ResetIntent) -> ResetIntent:
        return intent.model_copy(update={"reset": await self._sources.plan(intent)})

    async def record(self, intent: ResetIntent) -> ResetIntent:
        await self._sources.record(intent.planned())
        return intent

    async def recorded(self, intent: ResetIntent) -> Observed[ResetIntent]:
        return Observed(await self._sources.is_recorded(intent.planned()), intent)

    async def settle(self, intent: ResetIntent) -> ResetIntent:
        await self._sources.settle(intent.planned())
        return intent

    async def checkpoint(self, intent: ResetIntent) -> ResetIntent:
        return intent.model_copy(update={"checkpoint": await self._sources.checkpoint(intent.planned())})

    async def carry(self, intent: ResetIntent) -> ResetIntent:
        return intent.model_copy(update={"files": await self._sources.carry(intent.planned())})

    async def apply(self, intent: ResetIntent) -> ResetIntent:
        await self._sources.apply(intent)
        return intent
