"""Archiving a workspace, as a journaled action: no live byte goes before a verified export of it exists (WS-4, WS-12, WS-16).

Until the step that commits nothing is touched, and every failure ends the action with the workspace where it was. From then on the older
exports that were confirmed go, then the export is read whole once more, the work tree is looked at once more, and its directory gets
another name outside the guest's reach. Only then is it removed. Each resumption reads the export first; one that is damaged before the
directory has that name ends the action, and lets go of the older exports. After that the directory gets its own name back, if all that
the export holds is there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Protocol
from uuid import UUID

from jamcore.domain.exports import ExportDamagedError, TreeChangedError
from jamcore.domain.keeping import ArchiveEvidence, ArchiveUnfinishedError
from jamcore.domain.operations import ExportRetention, OnRestart
from jamcore.domain.records import Record
from jamcore.domain.removal import RemovalBlockedError, RemovalEvidenceChangedError, RemovalOverride
from jamcore.journal.declaration import Declaration
from jamcore.journal.steps import Action, Observed, Step, boundaries
from jamcore.workspace.keeping.exporting import CHOOSE, KEEP, WRITE, ExportPart, ExportSources, ExportSteps

KIND = "archive"
STAND_DOWN, INSPECT, MARK, PRUNE, NOTE = "stand-down", "inspect", "mark", "prune", "note"
ASIDE, REMOVE, SETTLE = "aside", "remove", "settle"
ARCHIVE_POINTS = boundaries(KIND, (STAND_DOWN, INSPECT, CHOOSE, WRITE, KEEP, MARK, PRUNE, NOTE, ASIDE, REMOVE, SETTLE))
"""Every boundary of one archive, in the order in which a run passes them."""
_AS_IT_WAS = "the workspace as it was"
_EXPORTED = "the workspace as it was, and a new export of it"


class ArchiveIntent(ExportPart):
    """One archive; its id is also the export's.

    Attributes:
        retention: What becomes of older exports.
        force: Whether something was overridden.
        overrides: What.
        confirmed: Digest of the evidence that a person saw.
        inspected: Digest of the look at the work tree that was made when the room had been stopped.
        exports_that_go: Older exports that go, as confirmed.
        files_removed: How many files the work tree held, git's own among them and what is left out not.
        bytes_removed: How much these held.
    """

    retention: ExportRetention
    force: bool
    overrides: tuple[RemovalOverride, ...]
    confirmed: str
    inspected: str | None = None
    exports_that_go: tuple[UUID, ...] = ()
    files_removed: int = 0
    bytes_removed: int = 0


class Seen(Record):
    """What a look at the work tree gave: its digest, the older exports that go, and what the tree holds for an export."""

    inspected: str
    exports_that_go: tuple[UUID, ...]
    files_removed: int
    bytes_removed: int


class ArchiveSources(ExportSources, Protocol):
    """What an archive needs of whoever composes it. Each of these may be done again."""

    async def stand_down(self, intent: ArchiveIntent) -> None:
        """Take the room's session off its host, with a last checkpoint; nobody brings it back while the action lasts.

        Raises:
            JamError: It could not be stopped, or its last checkpoint failed.
        """

    async def inspect(self, intent: ArchiveIntent) -> Seen:
        """Look, and require that everything is as it was confirmed and nothing stands against it.

        Raises:
            RemovalEvidenceChangedError, RemovalBlockedError: It is not, or something does.
        """

    async def require_export(self, intent: ArchiveIntent) -> None:
        """Read the export whole.

        Raises:
            ExportDamagedError: It is not what was recorded.
        """

    async def mark(self, intent: ArchiveIntent) -> None:
        """Note that the older exports go."""

    async def prune(self, intent: ArchiveIntent) -> None:
        """Remove their directories; those that are gone are fine."""

    async def note(self, intent: ArchiveIntent) -> None:
        """Note that they are gone."""

    async def set_aside(self, intent: ArchiveIntent) -> None:
        """Look at the work tree once more, and give its directory another name outside the guest's reach.

        Raises:
            TreeChangedError, RemovalEvidenceChangedError, RemovalBlockedError: It is not any more what was exported; it is where it was.
        """

    async def is_aside(self, intent: ArchiveIntent) -> bool:
        """Say whether the directory has that name, and not its own any more."""

    async def remove(self, intent: ArchiveIntent) -> None:
        """Remove what was set aside; that it is gone is fine. What has its own name again is set aside first, as it was the first time.

        Raises:
            TreeChangedError, RemovalEvidenceChangedError, RemovalBlockedError: It is not what was exported; it is where it was.
        """

    async def put_back(self, intent: ArchiveIntent) -> None:
        """Give what was set aside its own name back; what has it already is fine.

        Raises:
            JamError: It is not what was exported, or nobody can say that it is; it stays as it is.
        """

    async def settle(self, intent: ArchiveIntent) -> None:
        """Make the workspace Archived, and say it in the room, in one transaction."""

    async def give_up(self, intent: ArchiveIntent, error: Exception) -> None:
        """Put the workspace's state right when the action ends without having removed anything of it, and let go of its older exports.

        Those that are in their places may be restored again; of those that were set aside the removal is finished.

        Raises:
            StorageFailedError: Neither the new export nor any of those is there: their disk may be missing, and the action has not ended.
        """


def archive_action(sources: ArchiveSources) -> Action[ArchiveIntent]:
    """Return the action."""
    steps = _Steps(sources)
    aside = "the workspace as it was; of the older exports that were confirmed, those whose removal had not begun"
    put_back = "the workspace as it was but for what was left out, back in its place; its export is damaged"
    return Action(
        KIND,
        ArchiveIntent,
        (
            Step(STAND_DOWN, steps.stand_down, OnRestart.REPLAY, leaves=_AS_IT_WAS),
            Step(INSPECT, steps.inspect, OnRestart.REPLAY, leaves=_AS_IT_WAS),
            *steps.steps(),
            Step(MARK, steps.mark, OnRestart.REPLAY, leaves=_EXPORTED),
            Step(PRUNE, steps.prune, OnRestart.REPLAY, leaves=aside),
            Step(NOTE, steps.note, OnRestart.REPLAY, leaves=aside),
            Step(ASIDE, steps.set_aside, OnRestart.OBSERVE_THEN_FINISH, observe=steps.is_aside, leaves=aside),
            Step(REMOVE, steps.remove, OnRestart.REPLAY, leaves=put_back),
            Step(SETTLE, steps.settle, OnRestart.REPLAY, leaves="the verified export"),
        ),
        hopeless=(RemovalBlockedError, RemovalEvidenceChangedError, ExportDamagedError, TreeChangedError),
        commits_at=MARK,
        lets_go=True,
        settle=sources.give_up,
        declares=Declaration(
            title="archive of the workspace",
            evidence="a look inside the work tree, and the export read whole",
            replay="workspace reconciliation",
            confirms=ArchiveEvidence,
        ),
    )


class _Steps(ExportSteps[ArchiveIntent]):
    """``_read`` holds the very record under which an export was read whole in the run that goes on.

    A resumption has a record of its own, read from the journal, so that it reads the export again, whatever ended the run before.
    """

    def __init__(self, sources: ArchiveSources) -> None:
        super().__init__(sources)
        self._archive = sources
        self._read: dict[UUID, ArchiveIntent] = {}

    async def stand_down(self, intent: ArchiveIntent) -> ArchiveIntent:
        await self._archive.stand_down(intent)
        return intent

    async def inspect(self, intent: ArchiveIntent) -> ArchiveIntent:
        seen = await self._archive.inspect(intent)
        return intent.model_copy(update=seen.model_dump())

    async def keep(self, part: ArchiveIntent) -> ArchiveIntent:
        done = await super().keep(part)
        self._read[part.id] = done
        return done

    async def mark(self, intent: ArchiveIntent) -> ArchiveIntent:
        with self._forgotten_if_it_fails(intent):
            await self._require_read(intent)
            await self._archive.mark(intent)
        return intent

    async def prune(self, intent: ArchiveIntent) -> ArchiveIntent:
        """Remove the older exports: marked as they are, they go, so that a failure ends nothing but for that of the export that stays."""

        async def work() -> None:
            await self._require_read(intent)
            await self._archive.prune(intent)

        with self._forgotten_if_it_fails(intent):
            await _finished(intent, work, but=ExportDamagedError)
        return intent

    async def note(self, intent: ArchiveIntent) -> ArchiveIntent:
        await _finished(intent, lambda: self._archive.note(intent))
        return intent

    async def set_aside(self, intent: ArchiveIntent) -> ArchiveIntent:
        """Set aside, after the export was read once more: what was true when it was made may not be true now."""
        with self._forgotten_if_it_fails(intent):
            self._read.pop(intent.id, None)
            await self._require_read(intent)
            await self._archive.set_aside(intent)
        return intent

    async def is_aside(self, intent: ArchiveIntent) -> Observed[ArchiveIntent]:
        return Observed(await self._archive.is_aside(intent), intent)

    async def remove(self, intent: ArchiveIntent) -> ArchiveIntent:
        async def work() -> None:
            await self._require_read(intent)
            await self._archive.remove(intent)

        with self._forgotten_if_it_fails(intent):
            try:
                await _finished(intent, work, but=ExportDamagedError)
            except ExportDamagedError:
                await _finished(intent, lambda: self._archive.put_back(intent))
                raise
        self._read.pop(intent.id, None)
        return intent

    async def settle(self, intent: ArchiveIntent) -> ArchiveIntent:
        await _finished(intent, lambda: self._archive.settle(intent))
        return intent

    async def _require_read(self, intent: ArchiveIntent) -> None:
        if self._read.get(intent.id) is not intent:
            await self._archive.require_export(intent)
            self._read[intent.id] = intent

    @contextmanager
    def _forgotten_if_it_fails(self, intent: ArchiveIntent) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._read.pop(intent.id, None)
            raise


async def _finished(intent: ArchiveIntent, work: Callable[[], Awaitable[None]], *, but: type[Exception] | tuple[()] = ()) -> None:
    """Do what can only be finished: whatever fails now, ``but`` for one error, must not end the action, which every start goes on with.

    Raises:
        ArchiveUnfinishedError: It failed.
    """
    try:
        await work()
    except but:
        raise
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise ArchiveUnfinishedError(workspace=str(intent.workspace_id), problem=problem) from error
