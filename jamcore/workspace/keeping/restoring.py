"""Bringing an archived workspace back from one of its exports, as a journaled action (WS-6, CONT-1).

The conversation comes first: a generation of it that is there and sound is enough, and otherwise one is made of the export. The files come
after it, copied beside their place, compared and renamed. Nothing of the export is changed, and nothing that is there is overwritten.
"""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from jamcore.domain.operations import OnRestart
from jamcore.domain.records import Record
from jamcore.journal.declaration import Declaration
from jamcore.journal.steps import Action, Observed, Step, boundaries

KIND = "restore"
CHECK, CHECKPOINT, ENTER, PLACE, SETTLE = "check", "checkpoint", "enter", "place", "settle"
RESTORE_POINTS = boundaries(KIND, (CHECK, CHECKPOINT, ENTER, PLACE, SETTLE))
"""Every boundary of one restore, in the order in which a run passes them."""
PLACE_POINTS = tuple(f"writing.restore.{name}" for name in ("begun", "copied", "durable", "published"))
"""The boundaries inside the step that puts the files in place, in order."""
_ARCHIVED = "the workspace archived, and the export"


class RestoreIntent(Record):
    """One restore.

    Attributes:
        new_checkpoint: Id of the generation that is made of the export if one is needed, so that a resumption makes the same.
        digest: Of the export's manifest.
        checkpoint: Where the conversation comes from, in words.
        files: How many came back.
        bytes_total: How large they are.
    """

    id: UUID
    room_id: UUID
    host_id: UUID
    session_id: UUID
    workspace_id: UUID
    export_id: UUID
    new_checkpoint: UUID | None = None
    digest: str = ""
    checkpoint: str = ""
    files: int = 0
    bytes_total: int = 0


class CheckedExport(Record):
    """An export that was read whole, and may be brought back: its manifest's digest, and what its workspace holds."""

    digest: str
    files: int
    bytes_total: int


class RestoreSources(Protocol):
    """What a restore needs of whoever composes it. Each of these may be done again."""

    async def check(self, intent: RestoreIntent) -> CheckedExport:
        """Read the export whole, and require that it is of this workspace and that nothing is in its place.

        Raises:
            ExportNotUsableError, ExportDamagedError, ConflictError: It cannot be brought back; nothing was changed.
        """

    def mint(self) -> UUID:
        """Return a new id."""

    async def checkpoint(self, intent: RestoreIntent) -> str:
        """Make sure that the conversation can be brought back as far as the export has it, and say where it comes from.

        Raises:
            JamError: It cannot.
        """

    async def enter(self, intent: RestoreIntent) -> None:
        """Make the workspace Recovering."""

    async def place(self, intent: RestoreIntent) -> None:
        """Put the files in place.

        Raises:
            ConflictError: Something is there.
            ExportDamagedError: The export is not what was recorded, or the copy is not the export; nothing is in the place.
        """

    async def is_placed(self, intent: RestoreIntent) -> bool:
        """Say whether the files are in the place.

        Raises:
            ConflictError: Something else is.
        """

    async def settle(self, intent: RestoreIntent) -> None:
        """Make the workspace Ready and an Archived host Parked, and say it in the room, in one transaction.

        Raises:
            ConflictError: Another Shared host of the agent lives.
        """

    async def give_up(self, intent: RestoreIntent, error: Exception) -> None:
        """Make the workspace Archived again when the action ends without having placed anything."""


def restore_action(sources: RestoreSources) -> Action[RestoreIntent]:
    """Return the action. Until the files are in place every failure ends it, with the workspace archived as it was."""
    steps = _Steps(sources)
    return Action(
        KIND,
        RestoreIntent,
        (
            Step(CHECK, steps.check, OnRestart.REPLAY, intend=steps.named, leaves=_ARCHIVED),
            Step(CHECKPOINT, steps.checkpoint, OnRestart.REPLAY, leaves=_ARCHIVED),
            Step(ENTER, steps.enter, OnRestart.REPLAY, leaves=_ARCHIVED),
            Step(PLACE, steps.place, OnRestart.OBSERVE_THEN_FINISH, observe=steps.is_placed, leaves=_ARCHIVED),
            Step(SETTLE, steps.settle, OnRestart.REPLAY, leaves="the files in their place, and the export"),
        ),
        commits_at=SETTLE,
        lets_go=True,
        settle=sources.give_up,
        declares=Declaration(
            title="restore of the workspace",
            evidence="the export read whole, and the place that its files go to",
            replay="workspace reconciliation",
        ),
    )


class _Steps:
    def __init__(self, sources: RestoreSources) -> None:
        self._sources = sources

    def named(self, intent: RestoreIntent) -> RestoreIntent:
        return intent.model_copy(update={"new_checkpoint": self._sources.mint()})

    async def check(self, intent: RestoreIntent) -> RestoreIntent:
        return intent.model_copy(update=(await self._sources.check(intent)).model_dump())

    async def checkpoint(self, intent: RestoreIntent) -> RestoreIntent:
        return intent.model_copy(update={"checkpoint": await self._sources.checkpoint(intent)})

    async def enter(self, intent: RestoreIntent) -> RestoreIntent:
        await self._sources.enter(intent)
        return intent

    async def place(self, intent: RestoreIntent) -> RestoreIntent:
        await self._sources.place(intent)
        return intent

    async def is_placed(self, intent: RestoreIntent) -> Observed[RestoreIntent]:
        return Observed(await self._sources.is_placed(intent), intent)

    async def settle(self, intent: RestoreIntent) -> RestoreIntent:
        await self._sources.settle(intent)
        return intent
