"""A host with provider state, a store, and the parts of continuity composed as a daemon composes them."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol, TypeVar
from uuid import UUID

import anyio
import pytest

from jamcore.continuity.capturing.broker import CheckpointBroker, Freeze
from jamcore.continuity.capturing.capture import Bounds
from jamcore.continuity.coordinator import Coordinators
from jamcore.continuity.generations.publish import Generations
from jamcore.continuity.resuming.activate import Activator, Placement
from jamcore.continuity.resuming.observe import Observer, observation_of
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
    ResumeSource,
)
from jamcore.domain.sessions import Agent, HostState, Room, RuntimeHost, RuntimeSession, SessionState, Turn, TurnState
from jamcore.journal.points import CrashPoints, NoCrash
from jamcore.store import Repos, Store, open_store
from jamcore.system.files import Files
from jamcore.system.ids import IdSource, SystemIds

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
        """Return a time that is ahead of the file system's."""
        return datetime.now(UTC) + self.ahead

    def monotonic(self) -> float:
        """Never asked."""
        return 0.0


class TestStore:
    """The real store, which can be told to fail; the properties look into it as it is now."""

    __test__ = False

    def __init__(self, store: Store, host: RuntimeHost, clock: FakeClock, name: str = "") -> None:
        self._store = store
        self._host = host
        self.fails: Exception | None = None
        agent = Agent(id=host.agent_id, name=f"agent{name}", provider=host.provider, created_at=clock.now())
        self.room = Room(id=host.id, name=f"room{name}", agent_id=agent.id, created_at=clock.now())
        self.now(lambda repos: (repos.agents.insert(agent), repos.hosts.insert(host), repos.rooms.insert(self.room)))

    async def transact(self, work: Callable[[Repos], T], /) -> T:
        """Run a transaction, or fail as told."""
        if self.fails:
            raise self.fails
        return await self._store.transact(work)

    async def read(self, work: Callable[[Repos], T], /) -> T:
        """Run a read."""
        return await self._store.read(work)

    def now(self, work: Callable[[Repos], T]) -> T:
        """Run a transaction at once, in this thread."""
        return self._store._run(work, write=True)

    @property
    def checkpoints(self) -> dict[UUID, Checkpoint]:
        """The rows of the host."""
        return {row.id: row for row in self.now(lambda repos: repos.checkpoints.of_host(self._host.id))}

    @property
    def turns(self) -> dict[UUID, Turn]:
        """The turns of the host's sessions."""

        def turns(repos: Repos) -> dict[UUID, Turn]:
            sessions = repos.sessions.of_host(self._host.id)
            return {turn.id: turn for session in sessions for turn in repos.turns.of_session(session.id)}

        return self.now(turns)

    def observations(self, session: RuntimeSession) -> tuple[Observation, ...]:
        """The observations of a session."""
        return self.now(lambda repos: repos.observations.of_session(session.id))


class CountingFiles(Files):
    """Counts syncs."""

    def __init__(self) -> None:
        self.syncs = 0

    def sync(self, descriptor: int) -> None:
        """Count, and sync."""
        self.syncs += 1
        super().sync(descriptor)


class World:
    """One app directory with one host. ``restart`` composes everything anew over what is on disk and in the store."""

    def __init__(
        self,
        app: Path,
        store: Store,
        *,
        clock: FakeClock,
        host: RuntimeHost | None = None,
        bounds: Bounds | None = None,
        captures: CaptureList = LOGS,
        plan: ActivationPlan = PLAN,
        name: str = "",
    ) -> None:
        self.app, self.clock, self.bounds, self.captures, self.plan = app, clock, bounds, captures, plan
        self.ids: IdSource = SystemIds()
        self.files = CountingFiles()
        self.host = host or new_host(store.fence.daemon_id, clock, name)
        self.store = TestStore(store, self.host, clock, name)
        self.session = self.add_session("thread-1")
        self.state = self.app / layout.provider_state(self.host.id, "probe")
        self.home = self.app / layout.guest_disk(self.host.id)
        for directory in (self.state / "home" / "sessions", self.home):
            directory.mkdir(parents=True)
        self.restart()

    def restart(self, crash: CrashPoints | None = None) -> None:
        """Compose everything anew, as a new process does."""
        self.crash = crash or NoCrash()
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
        self.observer = Observer(self.store)

    @property
    def recovery(self) -> Path:
        """Where generations are."""
        return self.app / layout.recovery(self.host.id)

    @property
    def packs(self) -> list[Path]:
        """The packs, oldest first."""
        return sorted((self.app / layout.packs(self.host.id)).glob("*.pack"))

    def complete(self, checkpoint: Checkpoint) -> Path:
        """The published root of a generation."""
        return self.app / layout.checkpoint_root(self.host.id, checkpoint.id) / "complete.json"

    def log(self, name: str = "a.jsonl") -> Path:
        """A log of the provider."""
        return self.state / "home" / "sessions" / name

    def write(self, relative: str, data: bytes) -> Path:
        """Write a file of the provider's state."""
        path = self.state / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def add_session(self, identity: str | None) -> RuntimeSession:
        """Add a session to the host."""
        session = RuntimeSession(
            id=self.ids.uuid(),
            host_id=self.host.id,
            agent_id=self.host.agent_id,
            state=SessionState.LIVE,
            provider_identity=identity,
            model=None,
            created_at=self.clock.now(),
        )
        return self.store.now(lambda repos: repos.sessions.insert(session))

    def add_turn(self, session: RuntimeSession, state: TurnState) -> UUID:
        """Add a turn in a state."""
        turn = Turn(
            id=self.ids.uuid(),
            room_id=self.store.room.id,
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
        return self.store.now(lambda repos: repos.turns.accept(turn)).id

    def observed(self, checkpoint_id: UUID, *, source: ResumeSource, reported: str | None, detail: str = "") -> Observation:
        """Build an observation of the session."""
        return observation_of(
            self.session,
            checkpoint_id,
            observation_id=self.ids.uuid(),
            observed_at=self.clock.now(),
            source=source,
            reported=reported,
            detail=detail,
        )

    async def capture(
        self,
        reason: CheckpointReason = CheckpointReason.AFTER_TURN,
        *,
        checkpoint_id: UUID | None = None,
        freeze: Freeze | None = None,
        identities: Mapping[UUID, str] | None = None,
        **more: Any,
    ) -> Checkpoint:
        """Make a generation."""
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

    async def inspect(
        self, session: RuntimeSession | None = None, current: str | None = VERSION, *, live: bool = False
    ) -> ActivationDecision:
        """Inspect a session; ``live``: the live state may prove itself against a damaged generation, as it may in a daemon."""
        return await self.activator.inspect(
            session or self.session,
            self.host,
            accepts_version=lambda captured, now: captured == now,
            current_version=current,
            state_root=self.state if live else None,
        )

    async def place(self, decision: ActivationDecision | None = None, **more: Any) -> Placement:
        """Place the session's state."""
        return await self.activator.place(
            decision or await self.inspect(),
            self.session,
            state_root=self.state,
            scratch_root=self.home,
            capture_list=self.captures,
            activation_plan=self.plan,
            **more,
        )


def new_host(daemon_id: UUID, clock: FakeClock, name: str = "") -> RuntimeHost:
    ids = SystemIds()
    return RuntimeHost(
        id=ids.uuid(),
        agent_id=ids.uuid(),
        provider="probe",
        engine="none",
        cell=SHARED_CELL,
        sandbox=f"jam-1{name}",
        plan_json="{}",
        state=HostState.ACTIVE,
        daemon_id=daemon_id,
        fence_epoch=1,
        created_at=clock.now(),
    )


class MakeWorld(Protocol):
    """Makes a world with a database of its own, and closes it."""

    def __call__(
        self, app: Path, *, bounds: Bounds | None = None, captures: CaptureList = LOGS, plan: ActivationPlan = PLAN
    ) -> AbstractAsyncContextManager[World]:
        """Open a world."""


@pytest.fixture(scope="session")
def make_world(tmp_path_factory: pytest.TempPathFactory) -> MakeWorld:
    """Make a world with a database of its own; the schema is made once and copied."""
    daemon_id, clock = SystemIds().uuid(), FakeClock()
    blank = tmp_path_factory.mktemp("blank") / "jam.db"

    async def prepare() -> None:
        async with open_store(blank, files=Files(), clock=clock, daemon_id=daemon_id):
            pass

    anyio.run(prepare)

    @asynccontextmanager
    async def make(
        app: Path, *, bounds: Bounds | None = None, captures: CaptureList = LOGS, plan: ActivationPlan = PLAN
    ) -> AsyncIterator[World]:
        app.mkdir(parents=True, exist_ok=True)
        shutil.copy(blank, app / "jam.db")
        async with open_store(app / "jam.db", files=Files(), clock=clock, daemon_id=daemon_id) as store:
            yield World(app, store, clock=FakeClock(), bounds=bounds, captures=captures, plan=plan)

    return make


@pytest.fixture
async def world(make_world: MakeWorld, tmp_path: Path) -> AsyncIterator[World]:
    async with make_world(tmp_path / "app") as world:
        yield world
