"""Deleting the payload of an export, as a journaled action: its record first, then another name, then the bytes (WS-7, WS-12).

What is refused before its record says that it goes ends the action with the export whole. Nobody knows whether any other failure came
before that or after it, so the action stays begun: a start asks the record, and from there it can only be finished, since nobody restores
from it any more. What lies in its place without such a record is never touched.
"""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from jamcore.domain.export_deletions import ExportDeletionEvidence, ExportDeletionRefusedError, LastExportError
from jamcore.domain.operations import OnRestart
from jamcore.domain.records import Record
from jamcore.journal.declaration import Declaration
from jamcore.journal.steps import Action, Observed, Step, boundaries

KIND = "export-deletion"
MARK, ASIDE, REMOVE, SETTLE = "mark", "aside", "remove", "settle"
EXPORT_DELETION_POINTS = boundaries(KIND, (MARK, ASIDE, REMOVE, SETTLE))
"""Every boundary of one deletion, in the order in which a run passes them."""


class Payload(Record):
    """What goes: how much of the disk it takes, and the digest of its names, sizes and times."""

    bytes: int
    state: str


class ExportDeletionIntent(Record):
    """One deletion. ``freed`` is known once it has been looked at and found to be what was confirmed."""

    id: UUID
    export_id: UUID
    room_id: UUID | None
    host_id: UUID | None
    session_id: UUID | None
    workspace_id: UUID | None
    confirmed: str
    force: bool
    freed: Payload | None = None


class DeletionSources(Protocol):
    """What a deletion needs of whoever composes it. Each of these may be done again."""

    async def mark(self, intent: ExportDeletionIntent) -> Payload:
        """Look, require what was confirmed, and note that the export goes; return what that is.

        Raises:
            ExportDeletionRefusedError, LastExportError: It is not what was confirmed, or something stands against it.
        """

    async def marked(self, intent: ExportDeletionIntent) -> Payload | None:
        """Return what goes when it is noted that the export goes; ``None`` when it is not."""

    async def set_aside(self, intent: ExportDeletionIntent) -> None:
        """Give the export's directory another name; that it is gone is fine.

        Raises:
            ExportDeletionUnfinishedError: There is something else in its place; that is left alone.
        """

    async def is_aside(self, intent: ExportDeletionIntent) -> bool:
        """Say whether nothing has the export's own name."""

    async def remove(self, intent: ExportDeletionIntent) -> None:
        """Remove what was set aside; that it is gone is fine."""

    async def settle(self, intent: ExportDeletionIntent) -> None:
        """Note that it is gone, and say it in its room, in one transaction."""


def deletion_action(sources: DeletionSources) -> Action[ExportDeletionIntent]:
    """Return the action."""
    steps = _Steps(sources)
    begun = "what is left of the export, which nobody can restore from any more"
    return Action(
        KIND,
        ExportDeletionIntent,
        (
            Step(MARK, steps.mark, OnRestart.OBSERVE_THEN_FINISH, observe=steps.is_marked, leaves="the export as it was"),
            Step(ASIDE, steps.set_aside, OnRestart.OBSERVE_THEN_FINISH, observe=steps.is_aside, leaves=begun),
            Step(REMOVE, steps.remove, OnRestart.REPLAY, leaves=begun),
            Step(SETTLE, steps.settle, OnRestart.REPLAY, leaves="the export's record"),
        ),
        hopeless=(ExportDeletionRefusedError, LastExportError),
        declares=Declaration(
            title="deletion of an export",
            evidence="the workspace's state, its other exports, and what lies in the directory",
            replay="workspace reconciliation",
            confirms=ExportDeletionEvidence,
        ),
    )


class _Steps:
    def __init__(self, sources: DeletionSources) -> None:
        self._sources = sources

    async def mark(self, intent: ExportDeletionIntent) -> ExportDeletionIntent:
        return intent.model_copy(update={"freed": await self._sources.mark(intent)})

    async def is_marked(self, intent: ExportDeletionIntent) -> Observed[ExportDeletionIntent]:
        freed = await self._sources.marked(intent)
        return Observed(freed is not None, intent.model_copy(update={"freed": freed}))

    async def set_aside(self, intent: ExportDeletionIntent) -> ExportDeletionIntent:
        await self._sources.set_aside(intent)
        return intent

    async def is_aside(self, intent: ExportDeletionIntent) -> Observed[ExportDeletionIntent]:
        return Observed(await self._sources.is_aside(intent), intent)

    async def remove(self, intent: ExportDeletionIntent) -> ExportDeletionIntent:
        await self._sources.remove(intent)
        return intent

    async def settle(self, intent: ExportDeletionIntent) -> ExportDeletionIntent:
        await self._sources.settle(intent)
        return intent
