"""Where the action that builds a change request gets its material: the store, the engines, the work trees."""

from __future__ import annotations

from datetime import datetime

from jamcore.daemon.enginehouse import EngineHouse
from jamcore.domain.changes import ChangeRequest
from jamcore.domain.events import RoomEvent
from jamcore.domain.plan import Plan
from jamcore.runs.change_action import ChangeIntent
from jamcore.runs.change_request import ChangeMaterial
from jamcore.runtime.worktree import BASE, WorkTrees
from jamcore.store import Repos, Store
from jamcore.system.clock import Clock
from jamcore.workspace.review import ReviewGit

EVENTS_LIMIT = 1_000_000
"""Events that one transcript holds at the most."""
EVENTS_PAGE = 1000
"""Events that are read at once."""


class StoredSources:
    """See :class:`~jamcore.runs.change_action.ChangeSources`."""

    def __init__(self, *, store: Store, engines: EngineHouse, work_trees: WorkTrees, clock: Clock) -> None:
        self._store = store
        self._engines = engines
        self._work_trees = work_trees
        self._clock = clock

    def now(self) -> datetime:
        """Return the time."""
        return self._clock.now()

    async def review(self, intent: ChangeIntent) -> ReviewGit:
        """Return Jam's own git view of the session's work tree.

        Raises:
            EngineUnavailableError, WorkTreeHiddenError: It cannot be reached.
        """
        session = await self._store.read(lambda repos: repos.sessions.get(intent.session_id))
        host = await self._store.read(lambda repos: repos.hosts.get(session.host_id))
        workspace = await self._store.read(lambda repos: repos.workspaces.of_session(session.id))
        return self._work_trees.review(host, workspace, self._engines.get(host.engine))

    async def last_seq(self, intent: ChangeIntent) -> int:
        """Return the number of the room's last event."""
        return await self._store.read(lambda repos: repos.events.last_seq(intent.room_id))

    async def base(self, git: ReviewGit) -> str | None:
        """Return the tree that the session began with, if it was kept."""
        return await git.kept(BASE)

    async def material(self, intent: ChangeIntent) -> ChangeMaterial:
        """Return what else goes into the package: the transcript up to the intent's ``last_seq``."""
        return await self._store.read(lambda repos: _material(repos, intent, self._clock.now()))

    async def insert(self, change: ChangeRequest) -> None:
        """Keep the row, durably; the same again is fine."""
        await self._store.transact(lambda repos: repos.changes.insert(change))


def _material(repos: Repos, intent: ChangeIntent, now: datetime) -> ChangeMaterial:
    session = repos.sessions.get(intent.session_id)
    host = repos.hosts.get(session.host_id)
    plan = Plan.model_validate_json(host.plan_json)
    turns = tuple(repos.turns.of_session(session.id))
    return ChangeMaterial(
        id=intent.id,
        room_id=intent.room_id,
        session_id=session.id,
        objective=turns[0].text if turns else "",
        provider=host.provider,
        provider_version=plan.toolchain.version if plan.toolchain else "unknown",
        engine=host.engine,
        base_commit=repos.workspaces.of_session(session.id).commit,
        turns=turns,
        events=_events(repos, intent),
        skipped=intent.skipped,
        checkpoints=tuple(repos.checkpoints.of_host(host.id)),
        resumptions=tuple(repos.observations.of_session(session.id)),
        created_at=intent.created_at or now,
    )


def _events(repos: Repos, intent: ChangeIntent) -> tuple[RoomEvent, ...]:
    last = EVENTS_LIMIT if intent.last_seq is None else min(intent.last_seq, EVENTS_LIMIT)
    events: list[RoomEvent] = []
    while len(events) < last and (page := repos.events.after(intent.room_id, len(events), min(EVENTS_PAGE, last - len(events)))):
        events.extend(page)
    return tuple(events)
