"""What the store costs: an operation's changes of state beside the same statements without Jam, and a start over a full database."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Engine, event, insert
from sqlalchemy.sql import Executable

from benchmarks.table import Laps, Row
from jamcore.domain import layout
from jamcore.domain.cells import Cell, Configuration, Placement, WorkspaceSource
from jamcore.domain.events import SessionNotice
from jamcore.domain.operations import About, OperationState
from jamcore.domain.sessions import (
    Agent,
    Binding,
    HostState,
    Room,
    RuntimeHost,
    RuntimeSession,
    SessionState,
    SessionWorkspace,
    WorkspaceState,
)
from jamcore.store import Repos, Store, open_store
from jamcore.store.tables.conversation import COUNTERS, EVENTS
from jamcore.store.tables.hosts import AGENTS, BINDINGS, HOSTS, ROOMS, SESSIONS, WORKSPACES
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds
from jamcore.testing.daemon import DaemonChild, running_daemon
from jamcore.workspace.provision import HostManifest

AT = datetime(2026, 1, 1, tzinfo=UTC)
SESSIONS_STORED, EVENTS_OF_EACH = 10_000, 10
TRANSITIONS = 4
"""Of one operation: begun, one step intended and recorded, ended."""


@dataclass
class Recorded:
    """The statements of each transaction of a run, as SQLAlchemy was given them, and as the database was."""

    core: list[list[tuple[Executable, Any]]] = field(default_factory=list)
    sql: list[list[tuple[str, Any]]] = field(default_factory=list)
    listening: bool = False

    def listen(self, engine: Engine) -> None:
        """Record everything from now on."""
        event.listen(engine, "before_execute", self._statement)
        event.listen(engine, "before_cursor_execute", self._text)
        event.listen(engine, "begin", self._begin)

    def _begin(self, _connection: Connection) -> None:
        if self.listening:
            self.core.append([])
            self.sql.append([])

    def _statement(self, _connection: Connection, statement: Any, many: Any, one: Any, _options: Any) -> None:
        if self.listening and not isinstance(statement, str):
            self.core[-1].append((statement, many or one or None))

    def _text(self, _connection: Connection, _cursor: Any, text: str, values: Any, _context: Any, _many: bool) -> None:
        if self.listening and not text.startswith("BEGIN"):
            self.sql[-1].append((text, values))


async def measure_transitions(root: Path, *, operations: int, rounds: int) -> list[Row]:
    """Count changes of state in a second, each a durable transaction; beside it the same statements through SQLAlchemy, and SQLite.

    Each side begins with the same database. What they do differs in nothing but who does it.

    Args:
        root: An empty private directory.
        operations: How many operations each round has.
        rounds: How many times all three are measured, alternately.
    """
    jam, core, plain = Laps(), Laps(), Laps()
    for number in range(rounds):
        here = root / str(number)
        here.mkdir()
        blank = here / "blank.db"
        async with open_store(blank, files=Files(), clock=SystemClock(), daemon_id=UUID(int=1)):
            pass
        places = [Path(shutil.copy(blank, here / f"{name}.db")) for name in ("jam", "core", "plain")]
        recorded = Recorded()
        async with open_store(places[0], files=Files(), clock=SystemClock(), daemon_id=UUID(int=1)) as store:
            recorded.listen(store._engine)
            recorded.listening = True
            with jam.lap():
                await _operations(store, operations)
            recorded.listening = False
        async with open_store(places[1], files=Files(), clock=SystemClock(), daemon_id=UUID(int=1)) as store:
            with core.lap():
                _replay(store._engine, recorded.core)
        async with open_store(places[2], files=Files(), clock=SystemClock(), daemon_id=UUID(int=1)):
            pass
        with plain.lap():
            _replay_plain(places[2], recorded.sql)
    count = operations * TRANSITIONS
    rates = {name: [count / (ms / 1000) for ms in laps.values] for name, laps in (("jam", jam), ("core", core), ("plain", plain))}
    return [
        Row("changes of state", rates["jam"], "SQLAlchemy Core", rates["core"], aim="at least 0.7 x", unit="/s"),
        Row("changes of state", rates["jam"], "sqlite3", rates["plain"], unit="/s"),
    ]


async def measure_start(root: Path, *, rounds: int) -> list[Row]:
    """Time a daemon from its beginning to its first answer, over a full database and over an empty one, alternately."""
    laps = {"full": Laps(), "empty": Laps()}
    children = {name: DaemonChild(root / name / "app", private=root / name / "private") for name in laps}
    for child in children.values():
        child.app.parent.mkdir()
        async with running_daemon(child):
            pass
    await fill(children["full"].app / layout.DATABASE)
    place(children["full"].app)
    for number in range(rounds + 1):
        for name, child in children.items():
            with laps[name].lap():
                child.start()
                await child.up(limit_s=120)
            child.stop()
            if number == 0:
                laps[name].values.clear()
    what = f"start: {SESSIONS_STORED:,} sessions, {SESSIONS_STORED * EVENTS_OF_EACH:,} events"
    return [Row(what, laps["full"].values, "start: nothing stored", laps["empty"].values, aim="under 2000 ms")]


async def fill(database: Path) -> None:
    """Put sessions with their rooms and events into a daemon's database, each on a parked host of its own."""
    with sqlite3.connect(database) as raw:
        daemon = UUID(raw.execute("SELECT id FROM daemons").fetchone()[0])
    raw.close()
    async with open_store(database, files=Files(), clock=SystemClock(), daemon_id=daemon) as store:
        await store.transact(_fill)


def place(app: Path) -> None:
    """Make what a start looks at of each session: the directory of its files, and the manifest of its host."""
    for number in range(SESSIONS_STORED):
        host, session = (_session(number)[name] for name in ("host", "session"))
        (app / layout.session_workspace(host.id, session.id)).mkdir(parents=True)
        manifest = HostManifest(
            agent_id=host.agent_id, host_id=host.id, provider=host.provider, sandbox=host.sandbox, created_at=host.created_at
        )
        (app / layout.manifest(host.id)).write_bytes(manifest.canonical_json() + b"\n")


def _fill(repos: Repos) -> None:
    connection, fence = repos.agents._connection, repos.agents._ownership()
    rows = [_session(number) for number in range(SESSIONS_STORED)]
    event_row = {"at": AT, "turn_id": None, "payload": SessionNotice(code="bench.event", detail="it happened").model_dump_json()}
    for table, pick in (
        (AGENTS, lambda row: row["agent"].model_dump()),
        (HOSTS, lambda row: row["host"].model_dump(mode="python") | _host_columns(row["host"]) | fence),
        (SESSIONS, lambda row: row["session"].model_dump() | {"state": row["session"].state.value, "approvals": "never"}),
        (WORKSPACES, lambda row: row["workspace"].model_dump() | {"state": "ready", "source": row["workspace"].source.value}),
        (ROOMS, lambda row: row["room"].model_dump()),
        (BINDINGS, lambda row: row["binding"].model_dump()),
        (COUNTERS, lambda row: {"room_id": row["room"].id, "seq": EVENTS_OF_EACH}),
    ):
        connection.execute(insert(table), [_columns(table, pick(row)) for row in rows])
    events = [{"room_id": row["room"].id, "seq": seq, **event_row} for row in rows for seq in range(1, EVENTS_OF_EACH + 1)]
    connection.execute(insert(EVENTS), events)


def _host_columns(host: RuntimeHost) -> dict[str, Any]:
    return {"cell": host.cell.canonical_json().decode(), "placement": host.cell.placement.value, "state": host.state.value}


def _columns(table: Any, values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in table.c}


def _session(number: int) -> dict[str, Any]:
    """Return one of each record."""
    agent, host, session, workspace, room, binding = (UUID(int=(kind << 64) + number) for kind in range(1, 7))
    cell = Cell(configuration=Configuration.JAM_MANAGED, workspace=WorkspaceSource.MANAGED, placement=Placement.DEDICATED)
    named: dict[str, Any] = {"created_at": AT}
    return {
        "agent": Agent(id=agent, name=f"agent {number}", provider="bench", **named),
        "host": RuntimeHost(
            id=host,
            agent_id=agent,
            provider="bench",
            engine="bubblewrap",
            cell=cell,
            sandbox=f"jam-bench-{number:016x}",
            plan_json="{}",
            state=HostState.PARKED,
            daemon_id=agent,
            fence_epoch=0,
            **named,
        ),
        "session": RuntimeSession(
            id=session, host_id=host, agent_id=agent, state=SessionState.DORMANT, provider_identity="thread", model=None, **named
        ),
        "workspace": SessionWorkspace(
            id=workspace,
            session_id=session,
            host_id=host,
            source=cell.workspace,
            path=None,
            commit=None,
            guest_path="/jam/work",
            state=WorkspaceState.READY,
            **named,
        ),
        "room": Room(id=room, name=f"room {number}", agent_id=agent, **named),
        "binding": Binding(id=binding, room_id=room, session_id=session, live=True),
    }


async def _operations(store: Store, count: int) -> None:
    """Begin operations, pass the boundaries of a step, and end them."""
    about = About(confirmed="0" * 64)
    for identifier in (SystemIds().uuid() for _ in range(count)):
        changes: tuple[Callable[[Repos], object], ...] = (
            lambda repos, identifier=identifier: repos.operations.begin(identifier, "bench", "{}", about),
            lambda repos, identifier=identifier: repos.operations.note(identifier, "one", "intended", "{}"),
            lambda repos, identifier=identifier: repos.operations.note(identifier, "one", "recorded", "{}"),
            lambda repos, identifier=identifier: repos.operations.end(identifier, OperationState.SUCCEEDED, ""),
        )
        for change in changes:
            await store.transact(change)


def _replay(engine: Engine, transactions: list[list[tuple[Executable, Any]]]) -> None:
    for statements in transactions:
        with engine.begin() as connection:
            for statement, values in statements:
                connection.execute(statement, values)


def _replay_plain(path: Path, transactions: list[list[tuple[str, Any]]]) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "trusted_schema=OFF"):
        connection.execute(f"PRAGMA {pragma}")
    for statements in transactions:
        connection.execute("BEGIN IMMEDIATE")
        for text, values in statements:
            connection.execute(text, values)
        connection.execute("COMMIT")
    connection.close()
