"""Making a room of a confirmed export from elsewhere, as a journaled action (WS-6, CONT-1, WS-12).

The rows and the intent are kept in one transaction; the room cannot be used until all of it is there. The conversation comes before the
files, as with every restore: without it the files could be resumed with a conversation that knows nothing of them.
"""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from jamcore.domain.errors import JamError
from jamcore.domain.operations import OnRestart
from jamcore.domain.records import Record
from jamcore.journal.declaration import Declaration
from jamcore.journal.steps import Action, Observed, Step, boundaries

KIND = "adopt"
LAYOUT, CHECKPOINT, PLACE, SETTLE = "layout", "checkpoint", "place", "settle"
ADOPT_POINTS = boundaries(KIND, (LAYOUT, CHECKPOINT, PLACE, SETTLE))
"""Every boundary of one adoption, in the order in which a run passes them."""
_UNUSED = "a room that cannot be used, and the export"


class AdoptIntent(Record):
    """One adoption.

    Attributes:
        asked: The digest of what was asked, so that another request under this id is told from a retry.
        checkpoint_id: Of the generation that is made of the export; ``None``: a new conversation begins.
        digest: Of the export's manifest.
    """

    id: UUID
    export_id: UUID
    room_id: UUID
    host_id: UUID
    session_id: UUID
    workspace_id: UUID
    asked: str
    digest: str
    checkpoint_id: UUID | None


class AdoptSources(Protocol):
    """What an adoption needs of whoever composes it. Each of these may be done again."""

    async def lay_out(self, intent: AdoptIntent) -> None:
        """Make the host's directories, without the session's own."""

    async def build(self, intent: AdoptIntent) -> None:
        """Make a generation of the export's checkpoint and bind its conversation to the session.

        Raises:
            CheckpointImportRefusedError: It is not what was confirmed.
        """

    async def place(self, intent: AdoptIntent) -> None:
        """Put the files in place.

        Raises:
            ExportDamagedError: The export is not what was confirmed; nothing is in the place.
        """

    async def is_placed(self, intent: AdoptIntent) -> bool:
        """Say whether the files are in the place.

        Raises:
            ConflictError: Something else is.
        """

    async def settle(self, intent: AdoptIntent) -> None:
        """Make the workspace Ready and the host Parked, and note whose the export is, in one transaction."""

    async def give_up(self, intent: AdoptIntent, error: Exception) -> None:
        """Note that the workspace cannot be used as it is."""


def adopt_action(sources: AdoptSources, hopeless: tuple[type[JamError], ...]) -> Action[AdoptIntent]:
    """Return the action. ``hopeless`` are the errors that say that the export is not any more what was confirmed."""
    steps = _Steps(sources)
    return Action(
        KIND,
        AdoptIntent,
        (
            Step(LAYOUT, steps.lay_out, OnRestart.REPLAY, leaves=_UNUSED),
            Step(CHECKPOINT, steps.build, OnRestart.REPLAY, leaves=_UNUSED),
            Step(PLACE, steps.place, OnRestart.OBSERVE_THEN_FINISH, observe=steps.is_placed, leaves=_UNUSED),
            Step(SETTLE, steps.settle, OnRestart.REPLAY, leaves=_UNUSED),
        ),
        hopeless=hopeless,
        settle=sources.give_up,
        declares=Declaration(
            title="room of an export from elsewhere",
            evidence="every name and byte of the export, against the digest that was confirmed",
            replay="workspace reconciliation",
        ),
    )


class _Steps:
    def __init__(self, sources: AdoptSources) -> None:
        self._sources = sources

    async def lay_out(self, intent: AdoptIntent) -> AdoptIntent:
        await self._sources.lay_out(intent)
        return intent

    async def build(self, intent: AdoptIntent) -> AdoptIntent:
        if intent.checkpoint_id is not None:
            await self._sources.build(intent)
        return intent

    async def place(self, intent: AdoptIntent) -> AdoptIntent:
        await self._sources.place(intent)
        return intent

    async def is_placed(self, intent: AdoptIntent) -> Observed[AdoptIntent]:
        return Observed(await self._sources.is_placed(intent), intent)

    async def settle(self, intent: AdoptIntent) -> AdoptIntent:
        await self._sources.settle(intent)
        return intent
