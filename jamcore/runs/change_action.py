"""Building a change request as a journaled action: a retry and a restart end in the same package and one row (WS-11, WS-12).

The tree is taken once and named before anything is written from it, the package is published by one rename, and the row follows. Each
step can be looked for in the world or repeated without harm, so a restart goes on from where the last life was cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Protocol
from uuid import UUID

from anyio import to_thread

from jamcore.domain.changes import ChangeRequest
from jamcore.domain.errors import FaultError
from jamcore.domain.operations import OnRestart
from jamcore.domain.records import Record
from jamcore.journal.declaration import Declaration
from jamcore.journal.steps import Action, Observed, Step, boundaries, learned
from jamcore.runs.change_request import PATCHED, WRITTEN, ChangeBuilder, ChangeMaterial, ChangePackageError
from jamcore.workspace.review import ReviewGit

KIND = "change-request"
SNAPSHOT, KEEP, PACKAGE, RECORD = "snapshot", "keep", "package", "record"
_POINTS = boundaries(KIND, (SNAPSHOT, KEEP, PACKAGE, RECORD))
_WRITING = _POINTS.index(f"{KIND}.{PACKAGE}.intended") + 1
CHANGE_POINTS = (*_POINTS[:_WRITING], PATCHED, WRITTEN, *_POINTS[_WRITING:])
"""Every boundary of building one, in the order in which a run passes them."""


ATTEMPTS = 10
"""Failures after which it is over: asking for another change request is easy, and nobody waits for one that ten starts could not finish."""


@dataclass(eq=False)
class TreeLostError(FaultError):
    """The tree that a change request was begun with has lost its name in the review repository."""

    code: ClassVar[str] = "change.tree_lost"
    hint: ClassVar[str] = "Ask for another change request: the work tree itself was not touched."

    change: str


class ChangeIntent(Record):
    """What is built, and what is known of it so far.

    Attributes:
        id: The change request's own; the caller chose it.
        room_id: Whose work it is.
        session_id: Whose work tree it is.
        created_at: When it was asked for; known before the tree is taken.
        base: The tree to compare with.
        tree: The work tree as it was.
        skipped: Git's bounded words on what it could not take into the tree.
        last_seq: The room's last event at that time; the transcript ends there.
    """

    id: UUID
    room_id: UUID
    session_id: UUID
    created_at: datetime | None = None
    base: str | None = None
    tree: str | None = None
    skipped: tuple[str, ...] = ()
    last_seq: int | None = None


class ChangeSources(Protocol):
    """What the action needs of whoever composes it."""

    def now(self) -> datetime:
        """Return the time."""

    async def review(self, intent: ChangeIntent) -> ReviewGit:
        """Return Jam's own git view of the session's work tree; JamError when it cannot be reached."""

    async def last_seq(self, intent: ChangeIntent) -> int:
        """Return the number of the room's last event."""

    async def base(self, git: ReviewGit) -> str | None:
        """Return the tree that the session began with, if it was kept."""

    async def material(self, intent: ChangeIntent) -> ChangeMaterial:
        """Return what else goes into the package: the transcript up to the intent's ``last_seq``."""

    async def insert(self, change: ChangeRequest) -> None:
        """Keep the row, durably; the same again is fine."""


def change_action(builder: ChangeBuilder, sources: ChangeSources) -> Action[ChangeIntent]:
    """Return the action."""
    steps = _Steps(builder, sources)
    return Action(
        KIND,
        ChangeIntent,
        (
            Step(
                SNAPSHOT,
                steps.snapshot,
                OnRestart.REPLAY,
                intend=steps.timed,
                leaves="nothing was written; the work tree is as it was",
            ),
            Step(KEEP, steps.keep, OnRestart.REPLAY, leaves="nothing was written; the work tree is as it was"),
            Step(
                PACKAGE,
                steps.package,
                OnRestart.OBSERVE_THEN_FINISH,
                observe=steps.published,
                leaves="the tree keeps its name in the review repository; there is no package",
            ),
            Step(
                RECORD,
                steps.record,
                OnRestart.REPLAY,
                leaves="what there is of the package stays in its directory, and is not listed",
            ),
        ),
        hopeless=(TreeLostError,),
        attempts=ATTEMPTS,
        declares=Declaration(
            title="making of a change request",
            evidence="the work tree, and the tree that the session began with",
            replay="workspace reconciliation",
        ),
    )


def tree_name(identifier: UUID) -> str:
    """Return the name under which the tree of a change request is kept."""
    return f"change-{identifier}"


class _Steps:
    """The effects of the steps, and what the world says of them."""

    def __init__(self, builder: ChangeBuilder, sources: ChangeSources) -> None:
        self._builder = builder
        self._sources = sources

    def timed(self, intent: ChangeIntent) -> ChangeIntent:
        return intent.model_copy(update={"created_at": self._sources.now()})

    async def snapshot(self, intent: ChangeIntent) -> ChangeIntent:
        """Take the tree. It has no name yet, so until it is recorded it may be taken again."""
        git = await self._sources.review(intent)
        await git.prepare()
        taken = await git.snapshot()
        base = await self._sources.base(git) or taken.tree
        last = await self._sources.last_seq(intent)
        return intent.model_copy(update={"tree": taken.tree, "skipped": taken.skipped, "base": base, "last_seq": last})

    async def keep(self, intent: ChangeIntent) -> ChangeIntent:
        """Give the tree its name: what the agent writes from now on is no part of this change request."""
        await (await self._sources.review(intent)).keep(tree_name(intent.id), learned(intent.tree))
        return intent

    async def package(self, intent: ChangeIntent) -> ChangeIntent:
        git = await self._sources.review(intent)
        base, tree = learned(intent.base), learned(intent.tree)
        if await git.kept(tree_name(intent.id)) != tree:
            raise TreeLostError(change=str(intent.id))
        await self._builder.build(await self._sources.material(intent), git, base=base, tree=tree)
        return intent

    async def published(self, intent: ChangeIntent) -> Observed[ChangeIntent]:
        return Observed(await to_thread.run_sync(self._builder.published, intent.id) is not None, intent)

    async def record(self, intent: ChangeIntent) -> ChangeIntent:
        change = await to_thread.run_sync(self._builder.published, intent.id)
        if change is None:
            raise ChangePackageError(change=str(intent.id), problem="it is not there any more")
        await self._sources.insert(change)
        return intent
