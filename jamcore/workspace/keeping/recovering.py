"""Putting a workspace's newest sound export in its place, beside what is there, as a journaled action (START-3, WS-12).

The files are copied beside their place first and compared. Only then does what is there get another name, which nobody removes, and what
was copied takes the place. Until that moment every failure leaves the workspace as it was.
"""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from jamcore.domain.operations import OnRestart
from jamcore.domain.records import Record
from jamcore.journal.declaration import Declaration
from jamcore.journal.steps import Action, Step, boundaries

KIND = "recover"
ENTER, COPY, ASIDE, PLACE, SETTLE = "enter", "copy", "aside", "place", "settle"
RECOVER_POINTS = boundaries(KIND, (ENTER, COPY, ASIDE, PLACE, SETTLE))
"""Every boundary of one recovery, in the order in which a run passes them."""
_AS_IT_WAS = "the workspace as it was, and the export"


class RecoverIntent(Record):
    """One recovery.

    Attributes:
        digest: Of the export's manifest, as it was read whole before.
        tree: Where the files belong, below the app directory.
        copied: Where they are copied to first.
        kept_as: Where what is there is kept.
        was_ready: Whether the workspace could be used before.
        files: How many came back.
    """

    id: UUID
    room_id: UUID
    host_id: UUID
    session_id: UUID
    workspace_id: UUID
    export_id: UUID
    digest: str
    tree: str
    copied: str
    kept_as: str
    was_ready: bool
    files: int = 0


class RecoverSources(Protocol):
    """What a recovery needs of whoever composes it. Each of these may be done again."""

    async def enter(self, intent: RecoverIntent) -> None:
        """Make sure that nobody works in the files, and make the workspace Recovering.

        Raises:
            HostInUseError: The room is live.
        """

    async def copy(self, intent: RecoverIntent) -> int:
        """Copy the export's files beside their place, compared, and return how many they are; a copy that is there is made anew.

        Raises:
            ExportDamagedError: The export is not what was read before.
        """

    async def keep_aside(self, intent: RecoverIntent) -> None:
        """Give what is in the place its other name; that nothing is there, or that it has the name, is fine."""

    async def place(self, intent: RecoverIntent) -> None:
        """Put the copy in the place; one that is there is fine."""

    async def settle(self, intent: RecoverIntent) -> None:
        """Make the workspace Ready, and say it in the room, in one transaction."""

    async def give_up(self, intent: RecoverIntent, error: Exception) -> None:
        """Remove the copy, and give the workspace its state back."""


def recover_action(sources: RecoverSources) -> Action[RecoverIntent]:
    """Return the action."""
    steps = _Steps(sources)
    both = "what was there, under its other name, the copy of the export, and the export"
    return Action(
        KIND,
        RecoverIntent,
        (
            Step(ENTER, steps.enter, OnRestart.REPLAY, leaves=_AS_IT_WAS),
            Step(COPY, steps.copy, OnRestart.REPLAY, leaves=_AS_IT_WAS),
            Step(ASIDE, steps.keep_aside, OnRestart.REPLAY, leaves=both),
            Step(PLACE, steps.place, OnRestart.REPLAY, leaves=both),
            Step(SETTLE, steps.settle, OnRestart.REPLAY, leaves=both),
        ),
        commits_at=ASIDE,
        lets_go=True,
        settle=sources.give_up,
        declares=Declaration(
            title="return to the newest export",
            evidence="the export read whole, and the copy of it compared",
            replay="workspace reconciliation",
        ),
    )


class _Steps:
    def __init__(self, sources: RecoverSources) -> None:
        self._sources = sources

    async def enter(self, intent: RecoverIntent) -> RecoverIntent:
        await self._sources.enter(intent)
        return intent

    async def copy(self, intent: RecoverIntent) -> RecoverIntent:
        return intent.model_copy(update={"files": await self._sources.copy(intent)})

    async def keep_aside(self, intent: RecoverIntent) -> RecoverIntent:
        await self._sources.keep_aside(intent)
        return intent

    async def place(self, intent: RecoverIntent) -> RecoverIntent:
        await self._sources.place(intent)
        return intent

    async def settle(self, intent: RecoverIntent) -> RecoverIntent:
        await self._sources.settle(intent)
        return intent
