"""Taking an export in from elsewhere, as a journaled action (WS-6, WS-11, WS-12, SEC-7).

It is copied and verified beside its place, gets its name, and then its row, which says that nobody has confirmed it. New ids for everything
that it names are minted before anything is written, and kept with the row.
"""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from jamcore.domain.exports import Listed
from jamcore.domain.imports import SourcePath
from jamcore.domain.kept_exports import KeptExport
from jamcore.domain.operations import OnRestart
from jamcore.domain.records import Record
from jamcore.journal.declaration import Declaration
from jamcore.journal.steps import Action, Observed, Step, boundaries, learned

KIND = "import"
COPY, PUBLISH, KEEP = "copy", "publish", "keep"
IMPORT_POINTS = boundaries(KIND, (COPY, PUBLISH, KEEP))
"""Every boundary of one import, in the order in which a run passes them."""
COPY_POINTS = tuple(f"writing.import.{name}" for name in ("begun", "copied", "durable"))
"""The boundaries inside the step that copies, in order."""
_NOTHING = "nothing of it here"


class NewIds(Record):
    """What the ids of an export from elsewhere become here. A room of it has a sandbox of its own, which bears the session's id."""

    agent_id: UUID
    session_id: UUID
    room_id: UUID
    checkpoint_id: UUID


class ImportIntent(Record):
    """One import. Its id is also the export's.

    Attributes:
        digest: Of its manifest.
        credentials: Where something in its workspace looks like a credential.
        kept: Its row.
    """

    id: UUID
    export_id: UUID
    path: SourcePath
    ids: NewIds | None = None
    digest: str | None = None
    credentials: Listed = Listed()
    kept: KeptExport | None = None

    def new_ids(self) -> NewIds:
        """Return the ids.

        Raises:
            ValueError: They were not minted yet.
        """
        if self.ids is None:
            raise ValueError("the new ids were not minted")
        return self.ids


class ImportSources(Protocol):
    """What an import needs of whoever composes it. Each of these may be done again."""

    def mint(self) -> NewIds:
        """Return new ids."""

    async def copy(self, intent: ImportIntent) -> tuple[str, Listed]:
        """Copy it beside its place, verified, and return its manifest's digest, and where credentials are.

        Raises:
            JamError: Something of it cannot be taken in; nothing of it is left.
        """

    async def publish(self, intent: ImportIntent) -> None:
        """Give the copy its name."""

    async def is_published(self, intent: ImportIntent) -> bool:
        """Say whether the copy has its name: nothing had it when the import began."""

    async def keep(self, intent: ImportIntent, digest: str) -> KeptExport:
        """Read all of it, and keep its row and its ids in one transaction; the same again is fine."""

    async def give_up(self, intent: ImportIntent, error: Exception) -> None:
        """Remove what was copied, as far as no row says that it is there."""


def import_action(sources: ImportSources) -> Action[ImportIntent]:
    """Return the action. A failure ends it with nothing taken in; what a death cuts goes on at the next start."""
    steps = _Steps(sources)
    return Action(
        KIND,
        ImportIntent,
        (
            Step(COPY, steps.copy, OnRestart.REPLAY, intend=steps.named, leaves=_NOTHING),
            Step(PUBLISH, steps.publish, OnRestart.OBSERVE_THEN_FINISH, observe=steps.is_published, leaves=_NOTHING),
            Step(KEEP, steps.keep, OnRestart.REPLAY, leaves=_NOTHING),
        ),
        attempts=1,
        settle=sources.give_up,
        declares=Declaration(
            title="import of an export",
            evidence="every name and byte of the copy, against its own lists",
            replay="workspace reconciliation",
        ),
    )


class _Steps:
    def __init__(self, sources: ImportSources) -> None:
        self._sources = sources

    def named(self, intent: ImportIntent) -> ImportIntent:
        return intent.model_copy(update={"ids": self._sources.mint()})

    async def copy(self, intent: ImportIntent) -> ImportIntent:
        digest, credentials = await self._sources.copy(intent)
        return intent.model_copy(update={"digest": digest, "credentials": credentials})

    async def publish(self, intent: ImportIntent) -> ImportIntent:
        await self._sources.publish(intent)
        return intent

    async def is_published(self, intent: ImportIntent) -> Observed[ImportIntent]:
        return Observed(await self._sources.is_published(intent), intent)

    async def keep(self, intent: ImportIntent) -> ImportIntent:
        return intent.model_copy(update={"kept": await self._sources.keep(intent, learned(intent.digest))})
