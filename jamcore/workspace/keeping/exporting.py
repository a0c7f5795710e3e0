"""Exporting a workspace, as a journaled action, and as the first part of an archive (WS-5, WS-11, SEC-7).

What goes in is chosen once and kept in the record, so that a resumption makes the same export. It is written while nothing of its host
moves, beside its name, and appears under it whole; an export that is there is verified and never written again. The row comes last, after
all of it was read once more.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar
from uuid import UUID

from jamcore.domain.exports import ExportRequest
from jamcore.domain.kept_exports import KeptExport
from jamcore.domain.operations import OnRestart
from jamcore.domain.records import Record
from jamcore.journal.declaration import Declaration
from jamcore.journal.steps import Action, Step, boundaries, learned

KIND = "export"
CHOOSE, WRITE, KEEP = "choose", "write", "keep"
EXPORT_POINTS = boundaries(KIND, (CHOOSE, WRITE, KEEP))
"""Every boundary of one export, in the order in which a run passes them."""
WRITING = "writing."
"""Stands before the names of the boundaries inside the step that writes."""
WRITE_POINTS = tuple(f"{WRITING}export.{name}" for name in ("begun", "copied", "described", "durable", "published"))
"""The boundaries inside the step that writes, in order."""
_NO_EXPORT = "the workspace as it was, and no export of it but one that `jam export ls` names"


class Chosen(Record):
    """What goes into an export.

    Attributes:
        request: What the export's manifest repeats.
        tree: The work tree, below the app directory.
        checkpoint_id: The checkpoint that goes along; ``None``: there is none that could be resumed.
    """

    request: ExportRequest
    tree: str
    checkpoint_id: UUID | None


class ExportPart(Record):
    """What an action that makes an export knows of it. ``digest`` is that of the manifest, ``kept`` the row."""

    id: UUID
    room_id: UUID
    host_id: UUID
    session_id: UUID
    workspace_id: UUID
    export_id: UUID
    leave_out: tuple[str, ...] = ()
    chosen: Chosen | None = None
    digest: str | None = None
    kept: KeptExport | None = None

    def what(self) -> Chosen:
        """Return what was chosen.

        Raises:
            ValueError: Nothing was yet: the steps are in the wrong order.
        """
        if self.chosen is None:
            raise ValueError("an earlier step has not chosen what is exported")
        return self.chosen

    def row(self) -> KeptExport:
        """Return the row of the export.

        Raises:
            ValueError: There is none yet: the steps are in the wrong order.
        """
        if self.kept is None:
            raise ValueError("an earlier step has not kept the export")
        return self.kept


class ExportIntent(ExportPart):
    """One export. Its id is also the operation's."""


P = TypeVar("P", bound=ExportPart)


class ExportSources(Protocol):
    """What an export needs of whoever composes it. Each of these may be done again."""

    async def choose(self, part: ExportPart) -> Chosen:
        """Make what is not in a checkpoint safe, where the room is live, and return what goes into the export.

        Raises:
            JamError: The workspace cannot be exported.
        """

    async def write(self, part: ExportPart) -> str:
        """Write it while nothing of its host moves, or verify the one that is there, and return the digest of its manifest.

        Raises:
            JamError: Something cannot be exported exactly, or changed meanwhile; nothing was published.
        """

    async def keep(self, part: ExportPart, digest: str) -> KeptExport:
        """Read all of it and keep its row; the same again is fine.

        Raises:
            ExportDamagedError: It is not what was written.
        """

    async def withdraw(self, part: ExportPart) -> None:
        """Remove what was written and has no row, when the action is over."""


class ExportSteps(Generic[P]):
    """The three steps, for any action whose record says what is exported."""

    def __init__(self, sources: ExportSources) -> None:
        self._sources = sources

    def steps(self) -> tuple[Step[P], ...]:
        """Return them in order."""
        return (
            Step(CHOOSE, self.choose, OnRestart.REPLAY, leaves=_NO_EXPORT),
            Step(WRITE, self.write, OnRestart.REPLAY, leaves=_NO_EXPORT),
            Step(KEEP, self.keep, OnRestart.REPLAY, leaves=_NO_EXPORT),
        )

    async def choose(self, part: P) -> P:
        """Choose what goes in."""
        return part.model_copy(update={"chosen": await self._sources.choose(part)})

    async def write(self, part: P) -> P:
        """Write it, or verify what is there."""
        return part.model_copy(update={"digest": await self._sources.write(part)})

    async def keep(self, part: P) -> P:
        """Read it whole and keep its row."""
        return part.model_copy(update={"kept": await self._sources.keep(part, learned(part.digest))})


def export_action(sources: ExportSources) -> Action[ExportIntent]:
    """Return the action. It removes nothing, so a failure ends it; what a death cuts goes on at the next start."""
    steps: ExportSteps[ExportIntent] = ExportSteps(sources)

    async def settle(intent: ExportIntent, error: Exception) -> None:
        del error
        await sources.withdraw(intent)

    return Action(
        KIND,
        ExportIntent,
        steps.steps(),
        attempts=1,
        settle=settle,
        declares=Declaration(
            title="export of the workspace",
            evidence="the work tree while nothing of its host moves, and the export read whole",
            replay="workspace reconciliation",
        ),
    )
