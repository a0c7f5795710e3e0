"""Rooms of a host whose conversation was captured, and the daemon's part that starts them afresh, composed anew for each life."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import anyio
import pytest

from jamcore.continuity.capturing.broker import CheckpointBroker
from jamcore.continuity.coordinator import Coordinators
from jamcore.continuity.generations.packs import ENTRY_BYTES, HEADER_BYTES
from jamcore.continuity.generations.publish import Generations
from jamcore.continuity.resuming.activate import Activator
from jamcore.continuity.resuming.observe import Observer, observation_of
from jamcore.daemon.continuity_resets import ContinuityResets
from jamcore.daemon.reset_files import ResetFiles
from jamcore.daemon.reset_plan import ResetPlanner
from jamcore.domain import layout
from jamcore.domain.cells import CellTable, Placement
from jamcore.domain.continuity import Checkpoint, CheckpointReason, ResumeSource
from jamcore.domain.errors import JamError
from jamcore.domain.requests import RoomRequest
from jamcore.domain.resets import StartFreshRequest, StartFreshResult
from jamcore.domain.sessions import HostState, RuntimeHost, RuntimeSession, Turn, TurnState
from jamcore.journal.points import CrashPoints, NoCrash
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner
from jamcore.plugins.manager import ProviderManager
from jamcore.runtime.allocator import Allocation, Allocator, Resolved
from jamcore.runtime.continuity import HostContinuity
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.gate import StopGate
from jamcore.runtime.provision import SessionProvisioner
from jamcore.store import Repos, Store, StoreJournal, open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds
from jamcore.testing.doubles import plans
from jamcore.testing.doubles.engines import DirectoryEngine
from jamcore.testing.doubles.providers import GOOD, GoodProvider
from jamcore.testing.doubles.world import World
from jamcore.workspace.provision import Provisioner

DAEMON = UUID(int=1)
VERSION = "unknown"
ACTION = UUID(int=5)
FILE = "mine.txt"


@dataclass
class Life:
    """One life of a daemon. ``live`` are the rooms that were brought up."""

    world: World
    store: Store
    plugins: ProviderManager
    crash: CrashPoints
    live: list[str] = field(default_factory=list)
    gate: StopGate = field(default_factory=StopGate)
    cannot_start: JamError | None = None

    def __post_init__(self) -> None:
        """Compose."""
        clock, ids = SystemClock(), SystemIds()
        self.feed = RoomFeed(self.store)
        self.journal = StoreJournal(self.store)
        self.runner = Runner(self.journal, self.crash)
        self.actions = ActionRegistry()
        self.provisioner = SessionProvisioner(
            store=self.store, layout=Provisioner(self.world.app, files=self.world.files), runner=self.runner, ids=ids
        )
        self.actions.register(self.provisioner.action)
        self.locks: dict[UUID, anyio.Lock] = {}
        coordinators = Coordinators()
        generations = Generations(self.world.app, files=self.world.files)
        parts: dict[str, Any] = {"store": self.store, "coordinators": coordinators, "crash": self.crash, "clock": clock, "ids": ids}
        self.broker = CheckpointBroker(generations, **parts)
        self.activator = Activator(generations, broker=self.broker, **parts)
        self.observer = Observer(self.store)
        engines: Any = SimpleNamespace(get=lambda _: self.world.engine)
        self.resets = ContinuityResets(
            store=self.store,
            feed=self.feed,
            engines=engines,
            hosts=cast("Any", self),
            rooms=cast("Any", self),
            provisioner=self.provisioner,
            planner=ResetPlanner(self.store, self.plugins, engines, cast("Any", None), clock, ids),
            files=ResetFiles(self.world.app, store=self.store, engines=engines, files=self.world.files),
            kept_down=self.kept_down,
            gate=self.gate,
            clock=clock,
            runner=self.runner,
            actions=self.actions,
        )

    @asynccontextmanager
    async def kept_down(self, host: UUID) -> AsyncIterator[None]:
        """As the pool does."""
        async with self.locks.setdefault(host, anyio.Lock()):
            yield

    async def resume(self, ref: str) -> None:
        """As rooms do."""
        if self.cannot_start:
            raise self.cannot_start
        self.live.append(ref)

    def ownership(self, _engine: object) -> object:
        """As workers do."""
        return self.world.ownership

    def continuity(self, host: RuntimeHost) -> HostContinuity:
        """As workers do."""
        return HostContinuity(
            host=host,
            hooks=self.plugins.provider("good"),
            state_root=self.world.app / layout.provider_state(host.id, "good"),
            scratch_root=self.world.app / layout.guest_disk(host.id) / "home",
            program_version=VERSION,
            freeze=None,
            broker=self.broker,
            activator=self.activator,
            observer=self.observer,
            store=self.store,
            feed=self.feed,
            clock=SystemClock(),
            ids=SystemIds(),
        )

    async def start_up(self) -> list[str]:
        """What the start does: resets, then provisions. Returns the codes of what could not be done."""
        failed = await self.actions.replay(self.journal, self.runner, only="continuity-reset")
        failed += await self.actions.replay(self.journal, self.runner, only="provision")
        return [error.code for _, error in failed]

    async def start_fresh(self, room: UUID, digest: str, *, action: UUID = ACTION) -> StartFreshResult:
        """Ask for it."""
        return await self.resets.start_fresh(str(room), StartFreshRequest(id=action, evidence=digest, confirm=True))

    async def capture(self, host: RuntimeHost) -> Checkpoint:
        """Make a generation."""
        row = await self.continuity(host).capture(CheckpointReason.AFTER_TURN)
        assert row is not None
        return row

    async def observe(self, session: RuntimeSession, checkpoint: UUID, reported: str | None) -> None:
        """Record what came of a resume."""
        seen = observation_of(
            await self.store.read(lambda repos: repos.sessions.get(session.id)),
            checkpoint,
            observation_id=SystemIds().uuid(),
            observed_at=SystemClock().now(),
            source=ResumeSource.LIVE,
            reported=reported,
        )
        await self.observer.record(seen)


@dataclass
class Stage:
    """One app directory with the rooms of one host, of which each said something and was captured."""

    world: World
    plugins: ProviderManager
    rooms: tuple[Allocation, ...] = ()

    @property
    def host(self) -> RuntimeHost:
        """The host as it was made."""
        return self.rooms[0].host

    @property
    def state(self) -> Path:
        """The provider's state root."""
        return self.world.app / layout.provider_state(self.host.id, "good")

    @property
    def packs(self) -> list[Path]:
        """The packs of the host."""
        return sorted((self.world.app / layout.packs(self.host.id)).glob("*.pack"))

    def directory(self, host: UUID, session: UUID) -> Path:
        """A session's directory."""
        return self.world.app / layout.session_workspace(host, session)

    def living(self, crash: CrashPoints | None = None) -> AbstractAsyncContextManager[Life]:
        """Live once."""
        return _living(self, crash or NoCrash())

    def corrupt(self) -> None:
        """Damage the root of every generation, so that nobody can say any more what it holds."""
        for pack in self.packs:
            data = bytearray(pack.read_bytes())
            data[-1] ^= 0xFF
            pack.write_bytes(bytes(data))

    def damage_log(self) -> None:
        """Damage what the first generation has of the log: the unit that comes first in its pack."""
        pack = self.packs[0]
        data = bytearray(pack.read_bytes())
        data[HEADER_BYTES + ENTRY_BYTES] ^= 0xFF
        pack.write_bytes(bytes(data))

    async def make(
        self, *, placement: Placement = Placement.SHARED, rooms: int = 2, log: bytes = b"hello\n" * 100, **changes: Any
    ) -> Stage:
        """Make the rooms."""
        async with self.living() as life:
            for _ in range(rooms):
                await self.join(life, placement=placement, **changes)
            await life.store.transact(lambda repos: repos.hosts.move(self.host.id, HostState.PARKED))
            (self.state / "home" / "logs").mkdir(parents=True)
            if log:
                (self.state / "home" / "logs" / "a").write_bytes(log)
            await life.capture(self.host)
        return self

    async def join(self, life: Life, *, placement: Placement = Placement.SHARED, **changes: Any) -> None:
        """Make a room, let something be said in it, and let its agent write a file."""
        allocator = Allocator(store=life.store, clock=SystemClock(), ids=SystemIds())
        room, number = await allocator.allocate(self._asked(placement, **changes)), len(self.rooms)
        await life.provisioner.provision(room.provision)
        await life.store.transact(partial(_talk, room, number))
        if room.workspace.path is None:
            (self.directory(room.host.id, room.session.id) / FILE).write_text(f"work {number}")
        self.rooms = (*self.rooms, room)

    def _asked(self, placement: Placement, **changes: Any) -> Resolved:
        path, commit = changes.get("path"), changes.pop("commit", None)
        request = {"id": SystemIds().uuid(), "provider": "good", "placement": placement, **changes}
        return Resolved(
            request=RoomRequest.model_validate(request),
            hooks=self.plugins.provider("good"),
            engine=plans.ALL_ABLE,
            table=CellTable({"good": GOOD.cells}),
            toolchain=None,
            path=path,
            commit=commit,
        )


@asynccontextmanager
async def _living(stage: Stage, crash: CrashPoints) -> AsyncIterator[Life]:
    path = stage.world.app / layout.DATABASE
    async with open_store(path, files=Files(), clock=SystemClock(), daemon_id=DAEMON) as store:
        yield Life(stage.world, store, stage.plugins, crash)


def _talk(room: Allocation, number: int, repos: Repos) -> None:
    """A turn that was completed, and one whose end nobody saw."""
    repos.sessions.bind_identity(room.session.id, f"thread-{number}")
    for state in (TurnState.COMPLETED, TurnState.RUNNING):
        turn = Turn(
            id=SystemIds().uuid(),
            room_id=room.room.id,
            session_id=room.session.id,
            text="hello",
            state=TurnState.ACCEPTED,
            provider_turn=None,
            detail="",
            checkpoint_id=None,
            workspace_digest=None,
            process_epoch=1,
            accepted_at=SystemClock().now(),
            ended_at=None,
        )
        repos.turns.accept(turn)
        repos.turns.move(turn.id, TurnState.RUNNING)
        if state is TurnState.COMPLETED:
            repos.turns.move(turn.id, TurnState.COMPLETED)


async def make_stage(directory: Path) -> Stage:
    """Return an app directory without rooms."""
    plugins = ProviderManager()
    await plugins.add("good", GoodProvider())
    return Stage(World.over(directory / "app", DirectoryEngine()), plugins)


@pytest.fixture
async def stage(tmp_path: Path) -> Stage:
    """An app directory without rooms."""
    return await make_stage(tmp_path)


@pytest.fixture
def new_stage() -> Callable[[Path], Awaitable[Stage]]:
    """What makes one, for tests of many."""
    return make_stage
