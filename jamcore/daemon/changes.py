"""Change requests as clients see them: built from a room's work tree, listed, shown."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from uuid import UUID

from anyio import to_thread

from jamcore.daemon.enginehouse import EngineHouse
from jamcore.daemon.views import RoomRecords, room_records
from jamcore.domain import layout
from jamcore.domain.changes import ChangeRequest
from jamcore.domain.errors import ConflictError
from jamcore.domain.events import RoomEvent
from jamcore.domain.plan import Plan
from jamcore.domain.requests import ChangeView
from jamcore.journal.points import CrashPoints
from jamcore.runs.change_request import PATCH, ChangeBuilder, ChangeMaterial
from jamcore.runtime.worktree import BASE, WorkTrees
from jamcore.store import Repos, Store
from jamcore.system.clock import Clock

SHOWN_BYTES = 1 << 20
"""How much of a patch is shown; the whole is in the package's file."""
EVENTS_LIMIT = 1_000_000
"""Events that one transcript holds at the most."""


class Changes:
    """See :class:`~jamcore.daemon.services.ChangeService`."""

    def __init__(
        self,
        app: Path,
        *,
        store: Store,
        engines: EngineHouse,
        work_trees: WorkTrees,
        builder: ChangeBuilder,
        clock: Clock,
        crash: CrashPoints,
    ) -> None:
        self._app = app
        self._store = store
        self._engines = engines
        self._work_trees = work_trees
        self._builder = builder
        self._clock = clock
        self._crash = crash

    async def build(self, ref: str, identifier: UUID) -> ChangeRequest:
        """Build the package and record it. The package is published by one rename before its row, which an exact retry repairs.

        Raises:
            ConflictError: The id belongs to another room's change request.
            JamError: The work tree cannot be read, or the disk refused.
        """
        records = await self._store.read(lambda repos: room_records(repos, repos.rooms.find(ref)))
        if known := await self._store.read(lambda repos: repos.changes.find_id(identifier)):
            if known.room_id != records.room.id:
                raise ConflictError(kind="change request", ref=str(identifier), problem="the id was used for another room")
            return known
        engine = self._engines.get(records.host.engine)
        git = self._work_trees.review(records.host, records.workspace, engine)
        await git.prepare()
        tree = await git.snapshot()
        self._crash.reach("change.snapshot")
        base = await git.kept(BASE) or tree
        await git.keep(f"change-{identifier}", tree)
        self._crash.reach("change.kept")
        material = await self._store.read(partial(self._material, records, identifier))
        change = await self._builder.build(material, git, base=base, tree=tree)
        await self._store.transact(lambda repos: repos.changes.insert(change))
        self._crash.reach("change.recorded")
        return change

    async def list(self) -> tuple[ChangeRequest, ...]:
        """Return all, newest first."""
        return await self._store.read(lambda repos: tuple(repos.changes.list()))

    async def show(self, ref: str) -> ChangeView:
        """Return one with its patch. What a terminal may show of it is the client's to escape; here the bytes become text."""
        change = await self._store.read(lambda repos: repos.changes.find(ref))
        directory = self._app / layout.change(change.id)

        def read() -> tuple[str, bool]:
            with (directory / PATCH).open("rb") as stream:
                head = stream.read(SHOWN_BYTES + 1)
            return head[:SHOWN_BYTES].decode("utf-8", errors="backslashreplace"), len(head) > SHOWN_BYTES

        patch, truncated = await to_thread.run_sync(read)
        return ChangeView(change=change, directory=str(directory), patch=patch, patch_truncated=truncated)

    def _material(self, records: RoomRecords, identifier: UUID, repos: Repos) -> ChangeMaterial:
        session, host = records.session, records.host
        plan = Plan.model_validate_json(host.plan_json)
        turns = tuple(repos.turns.of_session(session.id))
        events: list[RoomEvent] = []
        while len(events) < EVENTS_LIMIT and (page := repos.events.after(records.room.id, events[-1].seq if events else 0, 1000)):
            events.extend(page)
        return ChangeMaterial(
            id=identifier,
            room_id=records.room.id,
            session_id=session.id,
            objective=turns[0].text if turns else "",
            provider=host.provider,
            provider_version=plan.toolchain.version if plan.toolchain else "unknown",
            engine=host.engine,
            base_commit=records.workspace.commit,
            turns=turns,
            events=tuple(events),
            checkpoints=tuple(repos.checkpoints.of_host(host.id)),
            resumptions=tuple(repos.observations.of_session(session.id)),
            created_at=self._clock.now(),
        )
