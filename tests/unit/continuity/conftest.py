"""A host with provider state, a store, and the parts of continuity composed as a daemon composes them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import pytest

from jamcore.continuity.activate import Activator, Placement
from jamcore.continuity.broker import CheckpointBroker, Freeze
from jamcore.continuity.capture import Bounds
from jamcore.continuity.coordinator import Coordinators
from jamcore.continuity.observe import Observer
from jamcore.continuity.publish import CrashPoints, Generations, NoCrashPoints
from jamcore.domain import layout
from jamcore.domain.cells import SHARED_CELL
from jamcore.domain.continuity import (
    ActivationDecision,
    ActivationPlan,
    CaptureEntry,
    CaptureKind,
    CaptureList,
    Checkpoint,
    CheckpointReason,
    Observation,
)
from jamcore.domain.errors import ConflictError
from jamcore.domain.sessions import TURN, HostState, RuntimeHost, RuntimeSession, SessionState, Turn, TurnState
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds

T = TypeVar("T")
VERSION = "1.0.0"
LOGS = CaptureList(
    entries=(
        CaptureEntry(pattern="home/tmp/**", kind=CaptureKind.NEVER),
        CaptureEntry(pattern="home/sessions/**/*.jsonl", kind=CaptureKind.APPEND_ONLY),
        CaptureEntry(pattern="home/archived/*.jsonl", kind=CaptureKind.APPEND_ONLY),
        CaptureEntry(pattern="home/config/**", kind=CaptureKind.WHOLE),
    ),
    guest_scratch=(".cache/db",),
    credential_patterns=("home/config/token*",),
)
PLAN = ActivationPlan(delete=("home/*.sqlite*",), check=("home/sessions/**/*.jsonl",))


class FakeClock:
    """A clock a day ahead, so that files written by a test are old enough to be left unread."""

    def __init__(self) -> None:
        self.ahead = timedelta(days=1)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def monotonic(self) -> float:
        return 0.0


class Tables:
    """What a store keeps."""

    def __init__(self) -> None:
        self.hosts: dict[UUID, RuntimeHost] = {}
        self.sessions: dict[UUID, RuntimeSession] = {}
        self.turns: dict[UUID, Turn] = {}
        self.checkpoints: dict[UUID, Checkpoint] = {}
        self.decisions: list[tuple[UUID, ActivationDecision]] = []
        self.observations: list[Observation] = []


class Hosts:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def get(self, host_id: UUID, /) -> RuntimeHost:
        return self._tables.hosts[host_id]


class Sessions:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def of_host(self, host_id: UUID, /) -> tuple[RuntimeSession, ...]:
        return tuple(session for session in self._tables.sessions.values() if session.host_id == host_id)


class Turns:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def of_session(self, session_id: UUID, /) -> tuple[Turn, ...]:
        return tuple(turn for turn in self._tables.turns.values() if turn.session_id == session_id)

    def move(self, turn_id: UUID, new: TurnState, /, *, checkpoint_id: UUID | None = None) -> Turn:
        old = self._tables.turns[turn_id]
        TURN.require(old.state, new)
        self._tables.turns[turn_id] = old.model_copy(update={"state": new, "checkpoint_id": checkpoint_id})
        return self._tables.turns[turn_id]


class Checkpoints:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def insert(self, checkpoint: Checkpoint, /) -> Checkpoint:
        stored = self._tables.checkpoints.get(checkpoint.id)
        if stored is None:
            number = 1 + max((row.generation for row in self.of_host(checkpoint.host_id)), default=0)
            stored = self._tables.checkpoints[checkpoint.id] = checkpoint.model_copy(update={"generation": number})
        elif stored.model_copy(update={"generation": checkpoint.generation}) != checkpoint:
            raise ConflictError(kind="checkpoint", ref=str(checkpoint.id), problem="changed")
        return stored

    def of_host(self, host_id: UUID, /) -> tuple[Checkpoint, ...]:
        return tuple(row for row in self._tables.checkpoints.values() if row.host_id == host_id)

    def latest_of_host(self, host_id: UUID, /) -> Checkpoint | None:
        return max(self.of_host(host_id), key=lambda row: row.generation, default=None)


class Activations:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def record(self, decision_id: UUID, session_id: UUID, decision: ActivationDecision, decided_at: datetime, /) -> None:
        self._tables.decisions.append((session_id, decision))


class Observations:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def insert(self, observation: Observation, /) -> None:
        self._tables.observations.append(observation)

    def latest(self, checkpoint_id: UUID, session_id: UUID, /) -> Observation | None:
        found = [o for o in self._tables.observations if (o.checkpoint_id, o.session_id) == (checkpoint_id, session_id)]
        return found[-1] if found else None


class MemoryRows:
    """The repositories over one set of tables."""

    def __init__(self, tables: Tables) -> None:
        self.hosts = Hosts(tables)
        self.sessions = Sessions(tables)
        self.turns = Turns(tables)
        self.checkpoints = Checkpoints(tables)
        self.activations = Activations(tables)
        self.observations = Observations(tables)


class MemoryStore:
    """A store whose transactions happen as a whole or not at all; ``fails`` makes the next ones fail."""

    def __init__(self) -> None:
        self.tables = Tables()
        self.fails: Exception | None = None

    async def transact(self, work: Callable[[MemoryRows], T], /) -> T:
        if self.fails:
            raise self.fails
        attempt = copy.deepcopy(self.tables)
        answer = work(MemoryRows(attempt))
        self.tables = attempt
        return answer

    async def read(self, work: Callable[[MemoryRows], T], /) -> T:
        return work(MemoryRows(self.tables))


class CountingFiles(Files):
    """Counts syncs."""

    def __init__(self) -> None:
        self.syncs = 0

    def sync(self, descriptor: int) -> None:
        self.syncs += 1
        super().sync(descriptor)


@dataclass
class World:
    """One app directory with one host. ``restart`` composes everything anew over what is on disk and in the store."""

    app: Path
    store: MemoryStore = field(default_factory=MemoryStore)
    clock: FakeClock = field(default_factory=FakeClock)
    ids: SystemIds = field(default_factory=SystemIds)
    bounds: Bounds | None = None
    captures: CaptureList = LOGS
    plan: ActivationPlan = PLAN
    crash: CrashPoints = field(default_factory=NoCrashPoints)

    def __post_init__(self) -> None:
        self.files = CountingFiles()
        now = self.clock.now()
        self.host = RuntimeHost(
            id=self.ids.uuid(),
            agent_id=self.ids.uuid(),
            provider="probe",
            engine="none",
            cell=SHARED_CELL,
            sandbox="jam-1",
            plan_json="{}",
            state=HostState.ACTIVE,
            daemon_id=self.ids.uuid(),
            fence_epoch=1,
            created_at=now,
        )
        self.store.tables.hosts[self.host.id] = self.host
        self.session = self.add_session("thread-1")
        self.state = self.app / layout.provider_state(self.host.id, "probe")
        self.home = self.app / layout.guest_disk(self.host.id)
        for directory in (self.state / "home" / "sessions", self.home):
            directory.mkdir(parents=True)
        self.restart()

    def restart(self, crash: CrashPoints | None = None) -> None:
        self.crash = crash or NoCrashPoints()
        self.generations = Generations(self.app, self.files)
        self.coordinators = Coordinators()
        self.broker = CheckpointBroker(
            self.generations,
            store=self.store,
            coordinators=self.coordinators,
            clock=self.clock,
            ids=self.ids,
            crash=self.crash,
            bounds=self.bounds,
        )
        self.activator = Activator(
            self.generations,
            broker=self.broker,
            store=self.store,
            coordinators=self.coordinators,
            clock=self.clock,
            ids=self.ids,
            crash=self.crash,
        )
        self.observer = Observer(store=self.store, clock=self.clock, ids=self.ids)

    @property
    def recovery(self) -> Path:
        return self.app / layout.recovery(self.host.id)

    @property
    def packs(self) -> list[Path]:
        return sorted((self.app / layout.packs(self.host.id)).glob("*.pack"))

    def complete(self, checkpoint: Checkpoint) -> Path:
        return self.app / layout.checkpoint_root(self.host.id, checkpoint.id) / "complete.json"

    def log(self, name: str = "a.jsonl") -> Path:
        return self.state / "home" / "sessions" / name

    def write(self, relative: str, data: bytes) -> Path:
        path = self.state / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def add_session(self, identity: str | None) -> RuntimeSession:
        session = RuntimeSession(
            id=self.ids.uuid(),
            host_id=self.host.id,
            agent_id=self.host.agent_id,
            state=SessionState.LIVE,
            provider_identity=identity,
            model=None,
            created_at=self.clock.now(),
        )
        self.store.tables.sessions[session.id] = session
        return session

    def add_turn(self, session: RuntimeSession, state: TurnState) -> UUID:
        turn = Turn(
            id=self.ids.uuid(),
            room_id=self.ids.uuid(),
            session_id=session.id,
            text="hello",
            state=state,
            provider_turn=None,
            detail="",
            checkpoint_id=None,
            workspace_digest=None,
            process_epoch=0,
            accepted_at=self.clock.now(),
            ended_at=None,
        )
        self.store.tables.turns[turn.id] = turn
        return turn.id

    async def capture(
        self,
        reason: CheckpointReason = CheckpointReason.AFTER_TURN,
        *,
        checkpoint_id: UUID | None = None,
        freeze: Freeze | None = None,
        identities: Mapping[UUID, str] | None = None,
        **more: Any,
    ) -> Checkpoint:
        return await self.broker.capture(
            self.host,
            reason=reason,
            state_root=self.state,
            capture_list=self.captures,
            provider_version=VERSION,
            checkpoint_id=checkpoint_id,
            freeze=freeze,
            identities=identities,
            **more,
        )

    async def inspect(self, session: RuntimeSession | None = None, current: str | None = VERSION) -> ActivationDecision:
        return await self.activator.inspect(
            session or self.session, self.host, accepts_version=lambda captured, now: captured == now, current_version=current
        )

    async def place(self, decision: ActivationDecision | None = None, **more: Any) -> Placement:
        return await self.activator.place(
            decision or await self.inspect(),
            self.session,
            state_root=self.state,
            scratch_root=self.home,
            capture_list=self.captures,
            activation_plan=self.plan,
            **more,
        )


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "app")


@pytest.fixture
def make_world() -> Callable[..., World]:
    return World
