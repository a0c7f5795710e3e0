"""One bad record in every step of a start blocks no other record and no other step (START-1). The store and the files are real."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import anyio
import pytest

from jamcore.continuity.generations.blocks import PACK_SUFFIX
from jamcore.continuity.resets import action as reset_action
from jamcore.continuity.retention import deletion
from jamcore.daemon.compose import composed
from jamcore.daemon.identity import daemon_identity
from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.startup import ORDER, Problems, StartStep, start_up
from jamcore.domain import layout
from jamcore.domain.cells import Ability
from jamcore.domain.changes import Run
from jamcore.domain.events import SessionNotice, TurnStateChanged
from jamcore.domain.operations import About, OperationState
from jamcore.domain.ownership import PendingCleanup
from jamcore.domain.plan import Plan
from jamcore.domain.sandboxes import Isolation
from jamcore.domain.sessions import (
    Agent,
    Binding,
    HostState,
    Room,
    RuntimeHost,
    RuntimeSession,
    SessionState,
    SessionWorkspace,
    Turn,
    TurnState,
    WorkspaceState,
)
from jamcore.runtime.provision import ProvisionIntent, begin_provision
from jamcore.sandbox import cleanup
from jamcore.sandbox.planning import EngineFacts
from jamcore.store import Repos, Store, open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds
from jamcore.testing.doubles import plans

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

ENGINE = EngineFacts(name="bubblewrap", isolation=Isolation.NAMESPACE, abilities=frozenset({Ability.REACH, Ability.HOST_VIEW}))
THEN = datetime(2026, 1, 2, tzinfo=UTC)
BAD, GOOD = 1, 2
"""The bad record of each kind is always the first that is come to."""
RESET, DELETION, CLEANUP = 3, 4, 5
"""Of an action."""
DAMAGED_PENDING = f"{layout.PENDING_CLEANUPS}/jam-0000000000000000.json"
NOBODY = UUID(int=0)
"""The store puts its own daemon and epoch into every row."""
STUCK, FREE = ".stuck.00000000.tmp", ".free.00000000.tmp"


def ident(kind: int, number: int) -> UUID:
    """Return an id by kind and number, so that a test can name a row."""
    return UUID(int=(kind << 64) + number)


HOST, SESSION, WORKSPACE, ROOM, TURN, OPERATION, CHANGE, AGENT, BINDING, ACTION = range(1, 11)


class Stubborn(Files):
    """One file cannot be removed."""

    def unlink(self, path: Path) -> None:
        """See :meth:`Files.unlink`."""
        if path.name == STUCK:
            raise PermissionError(1, "Operation not permitted", str(path))
        super().unlink(path)


def leave(repos: Repos, number: int, plan: Plan) -> None:
    """Store what a daemon leaves that is killed in the middle of everything: a live room, a provision, a run."""
    at = THEN + timedelta(seconds=number)
    agent, host, session, room = (ident(kind, number) for kind in (AGENT, HOST, SESSION, ROOM))
    repos.agents.insert(Agent(id=agent, name=f"agent {number}", provider="good", created_at=at))
    repos.hosts.insert(
        RuntimeHost(
            id=host,
            agent_id=agent,
            provider="good",
            engine=plan.engine,
            cell=plan.cell,
            sandbox=f"jam-{number:016x}",
            plan_json=plan.canonical_json().decode(),
            state=HostState.ACTIVE,
            created_at=at,
            daemon_id=NOBODY,
            fence_epoch=0,
        )
    )
    repos.sessions.insert(
        RuntimeSession(
            id=session, host_id=host, agent_id=agent, state=SessionState.LIVE, provider_identity=None, model=None, created_at=at
        )
    )
    repos.workspaces.insert(
        SessionWorkspace(
            id=ident(WORKSPACE, number),
            session_id=session,
            host_id=host,
            source=plan.cell.workspace,
            path=None,
            commit=None,
            guest_path=f"/jam/work/{session}",
            state=WorkspaceState.PROVISIONING,
            created_at=at,
        )
    )
    repos.rooms.insert(Room(id=room, name=f"room {number}", agent_id=agent, created_at=at))
    repos.bindings.insert(Binding(id=ident(BINDING, number), room_id=room, session_id=session, live=True))
    repos.turns.accept(
        Turn(
            id=ident(TURN, number),
            room_id=room,
            session_id=session,
            text="do it",
            state=TurnState.FAILED,
            provider_turn=None,
            detail="",
            checkpoint_id=None,
            workspace_digest=None,
            process_epoch=0,
            accepted_at=at,
            ended_at=at,
        )
    )
    repos.events.append(room, ident(TURN, number), [TurnStateChanged(state=TurnState.FAILED)])
    begin_provision(
        repos,
        ProvisionIntent(id=ident(OPERATION, number), host_id=host, session_id=session, workspace_id=ident(WORKSPACE, number)),
    )
    repos.runs.insert(Run(room_id=room, turn_id=ident(TURN, number), change_id=ident(CHANGE, number), objective="do it"))


def damage(database: Path) -> None:
    """Damage one row of each step, as a bad disk or a hand with a database tool does."""
    with sqlite3.connect(database) as connection:
        for table, column, kind in (
            ("hosts", "cell", HOST),
            ("operations", "started_at", OPERATION),
        ):
            changed = connection.execute(f"UPDATE {table} SET {column} = '0 damaged' WHERE id = ?", (str(ident(kind, BAD)),))
            assert changed.rowcount == 1, table
        changed = connection.execute("UPDATE runs SET turn_id = 'damaged' WHERE room_id = ?", (str(ident(ROOM, BAD)),))
        assert changed.rowcount == 1
    connection.close()


def leave_files(app: Path, files: Files, good: Plan) -> None:
    """Leave files of interrupted work, one bad and one good of each kind."""
    for relative, data in (
        (DAMAGED_PENDING, b"{damaged"),
        (layout.pending_cleanup(good.name), PendingCleanup(plan=good, nonce="0" * 64).canonical_json()),
        (STUCK, b""),
        (FREE, b""),
        (f"{layout.packs(ident(HOST, GOOD))}/{ident(HOST, 9)}{PACK_SUFFIX}", b"half"),
    ):
        files.make_private((app / relative).parent)
        (app / relative).write_bytes(data)
    packs = app / layout.packs(ident(HOST, BAD))
    files.make_private(packs.parent)
    packs.symlink_to(packs)


async def seen(store_options: DaemonOptions) -> dict[str, object]:
    """Return what the store says of the good records."""
    async with open_store(
        store_options.app / layout.DATABASE, files=Files(), clock=SystemClock(), daemon_id=identity_of(store_options)
    ) as store:
        return await store.read(
            lambda repos: {
                "host": repos.hosts.get(ident(HOST, GOOD)).state,
                "session": repos.sessions.get(ident(SESSION, GOOD)).state,
                "workspace": repos.workspaces.get(ident(WORKSPACE, GOOD)).state,
                "operation": repos.operations.get(ident(OPERATION, GOOD)).state,
            }
        )


def identity_of(options: DaemonOptions) -> UUID:
    """Return the daemon's lasting id."""
    return daemon_identity(options.app, files=Files(), ids=SystemIds())


@pytest.fixture
async def options(tmp_path: Path) -> DaemonOptions:
    """An app directory whose last daemon was killed, and then a record of every kind was damaged."""
    app, files = tmp_path / "app", Stubborn()
    files.make_private(app)
    made = DaemonOptions(
        app=app, runtime=tmp_path / "run", version="1", pid=1, environment={"HOME": str(tmp_path)}, engine="bubblewrap", files=files
    )
    plan = plans.plan(engine=ENGINE)
    async with open_store(app / layout.DATABASE, files=Files(), clock=SystemClock(), daemon_id=identity_of(made)) as store:
        for number in (BAD, GOOD):
            await store.transact(lambda repos, number=number: leave(repos, number, plan))  # type: ignore[misc]
        await unknown_actions(store)
    damage(app / layout.DATABASE)
    leave_files(app, files, plan)
    return made


async def unknown_actions(store: Store) -> None:
    """Begin two actions of kinds that this Jam does not have, and one of each kind with a step of its own, which cannot be read."""
    await store.transact(lambda repos: repos.operations.begin(ident(ACTION, DELETION), deletion.KIND, "{}", About()))
    await store.transact(lambda repos: repos.operations.begin(ident(ACTION, RESET), reset_action.KIND, "{}", About()))
    await store.transact(lambda repos: repos.operations.begin(ident(ACTION, CLEANUP), cleanup.KIND, "{}", About()))
    for number in (BAD, GOOD):
        await store.transact(
            lambda repos, number=number: repos.operations.begin(ident(ACTION, number), f"gone-{number}", "{}", About())  # type: ignore[misc]
        )


@pytest.mark.guarantee("START-1")
async def test_one_bad_record_in_each_step_blocks_nothing(options: DaemonOptions) -> None:
    """Each bad record is named by its step; every good one is in order, and the daemon serves."""
    async with composed(options) as services:
        problems = [view.detail for view in (await services.system.doctor()).findings if view.subject == "start-up"]
        room = str(ident(ROOM, GOOD))
        with anyio.fail_after(20):
            async with services.rooms.events(room, after=0, follow=True) as events:
                async for event in events:
                    if isinstance(event.payload, SessionNotice) and event.payload.code.startswith("run."):
                        break
    for step, record in zip(
        ORDER,
        (
            Path(DAMAGED_PENDING).stem,
            ident(ACTION, CLEANUP),
            ident(HOST, BAD),
            ident(HOST, BAD),
            STUCK,
            ident(ACTION, DELETION),
            ident(ACTION, RESET),
            ident(OPERATION, BAD),
            ident(ROOM, BAD),
        ),
        strict=True,
    ):
        assert any(line.startswith(f"{step}: {record}") for line in problems), (step, problems)
    for number in (BAD, GOOD):
        assert any(f"{ident(ACTION, number)}: journal.unknown_kind" in line for line in problems), problems
    assert len(problems) == len(ORDER) + 2, problems
    assert await seen(options) == {
        "host": HostState.PARKED,
        "session": SessionState.DORMANT,
        "workspace": WorkspaceState.READY,
        "operation": OperationState.SUCCEEDED,
    }
    assert [path.name for path in (options.app / layout.PENDING_CLEANUPS).iterdir()] == [Path(DAMAGED_PENDING).name]
    assert (options.app / STUCK).exists()
    assert not (options.app / FREE).exists()
    assert not any((options.app / layout.packs(ident(HOST, GOOD))).iterdir())


@pytest.mark.guarantee("START-1")
async def test_each_step_is_said_before_it_begins_and_nothing_at_the_end() -> None:
    """Whoever waits for the daemon hears what keeps it, also of a step that fails."""
    said: list[str] = []
    begun: list[str] = []

    async def run() -> Problems:
        begun.append(said[-1])
        if len(begun) == 2:
            raise OSError("disk")
        return ()

    assert len(await start_up(tuple(StartStep(name, run) for name in ORDER), said.append)) == 1
    assert (begun, said) == ([*ORDER], [*ORDER, ""])
