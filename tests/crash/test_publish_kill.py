"""SIGKILL in the middle of publications and restores, with the real store, in real processes (CONT-4, CONT-11, WS-12)."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import anyio
import pytest

from jamcore.continuity.capturing.broker import CheckpointBroker
from jamcore.continuity.coordinator import Coordinators
from jamcore.continuity.generations.publish import POINTS, Generations
from jamcore.continuity.resuming.activate import Activator
from jamcore.continuity.resuming.restore import RESTORE_POINTS
from jamcore.domain import layout
from jamcore.domain.cells import SHARED_CELL
from jamcore.domain.continuity import (
    Activation,
    ActivationPlan,
    CaptureEntry,
    CaptureKind,
    CaptureList,
    CheckpointReason,
    ResumeSource,
)
from jamcore.domain.sessions import Agent, HostState, Room, RuntimeHost, RuntimeSession, SessionState, Turn, TurnState
from jamcore.journal.points import CrashPoints, NoCrash
from jamcore.store import Repos, Store, open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds
from jamcore.testing.crash import Lives, SigkillAt
from jamcore.testing.daemon import until

pytestmark = [pytest.mark.crash]

LOGS = CaptureList(entries=(CaptureEntry(pattern="*.jsonl", kind=CaptureKind.APPEND_ONLY),))
PLAN = ActivationPlan(delete=("*.sqlite",), check=("*.jsonl",))
FIXED = UUID(int=1 << 120)
ROUNDS = 10
HOST, AGENT, ROOM, SESSION, DAEMON = (UUID(int=FIXED.int + number) for number in range(5))


@dataclass(frozen=True)
class Daemon:
    """What a process of one daemon life has."""

    app: Path
    store: Store
    broker: CheckpointBroker
    activator: Activator
    host: RuntimeHost
    session: RuntimeSession

    @property
    def log(self) -> Path:
        """The provider's log."""
        return self.app / layout.provider_state(HOST, "probe") / "thread.jsonl"

    async def exchange(self, number: int) -> None:
        """Let the provider complete one turn: a line in its log, a row in the store."""
        with self.log.open("ab") as stream:
            stream.write(b"turn %d\n" % number)
        turn = Turn(
            id=SystemIds().uuid(),
            room_id=ROOM,
            session_id=SESSION,
            text=str(number),
            state=TurnState.COMPLETED,
            provider_turn=None,
            detail="",
            checkpoint_id=None,
            workspace_digest=None,
            process_epoch=0,
            accepted_at=SystemClock().now(),
            ended_at=None,
        )
        await self.store.transact(lambda repos: repos.turns.accept(turn))

    async def capture(self, checkpoint_id: UUID | None = None) -> None:
        """Make a generation."""
        await self.broker.capture(
            self.host,
            reason=CheckpointReason.AFTER_TURN,
            state_root=self.log.parent,
            capture_list=LOGS,
            provider_version="1",
            checkpoint_id=checkpoint_id,
        )

    async def resume(self) -> ResumeSource:
        """Decide and place; only an exact resume will do."""
        decision = await self.activator.inspect(self.session, self.host, accepts_version=lambda *_: True, current_version="1")
        assert decision.outcome is Activation.EXACT_RESUME
        placed = await self.activator.place(
            decision, self.session, state_root=self.log.parent, scratch_root=None, capture_list=LOGS, activation_plan=PLAN
        )
        return placed.source

    async def settle(self) -> None:
        """Cut the completed turns that the provider does not remember; whoever resumes does this before the next capture."""
        remembered = set(self.log.read_bytes().decode().splitlines())

        def cut(repos: Repos) -> None:
            for turn in repos.turns.unfinished_of(SESSION):
                if f"turn {turn.text}" not in remembered:
                    repos.turns.move(turn.id, TurnState.CUT)

        await self.store.transact(cut)

    async def turns(self, state: TurnState) -> set[str]:
        """Return the texts of the turns in a state."""
        return {turn.text for turn in await self.store.read(lambda repos: repos.turns.of_session(SESSION)) if turn.state is state}


@asynccontextmanager
async def daemon(app: Path, crash: CrashPoints) -> AsyncIterator[Daemon]:
    """Begin a daemon's life over what is on disk."""
    clock, ids, files = SystemClock(), SystemIds(), Files()
    async with open_store(app / "jam.db", files=files, clock=clock, daemon_id=DAEMON) as store:
        host, session = await store.transact(_seed)
        coordinators, generations = Coordinators(), Generations(app, files)
        broker = CheckpointBroker(generations, store=store, coordinators=coordinators, clock=clock, ids=ids, crash=crash)
        activator = Activator(generations, broker=broker, store=store, coordinators=coordinators, clock=clock, ids=ids, crash=crash)
        here = Daemon(app, store, broker, activator, host, session)
        here.log.parent.mkdir(parents=True, exist_ok=True)
        await broker.repair(HOST)
        yield here


def _seed(repos: Repos) -> tuple[RuntimeHost, RuntimeSession]:
    now = SystemClock().now()
    agent = Agent(id=AGENT, name="agent", provider="probe", created_at=now)
    host = RuntimeHost(
        id=HOST,
        agent_id=AGENT,
        provider="probe",
        engine="none",
        cell=SHARED_CELL,
        sandbox="jam-1",
        plan_json="{}",
        state=HostState.ACTIVE,
        daemon_id=DAEMON,
        fence_epoch=1,
        created_at=now,
    )
    session = RuntimeSession(
        id=SESSION,
        host_id=HOST,
        agent_id=AGENT,
        state=SessionState.LIVE,
        provider_identity="thread",
        model=None,
        created_at=now,
    )
    repos.agents.insert(agent)
    repos.rooms.insert(Room(id=ROOM, name="room", agent_id=AGENT, created_at=now))
    return repos.hosts.insert(host), repos.sessions.insert(session)


async def live(app: Path, mode: str, point: str) -> None:
    """Be the process that is killed."""
    async with daemon(app, SigkillAt(point) if point != "never" else NoCrash()) as here:
        if mode == "capture":
            await here.exchange(len(await here.turns(TurnState.CAPTURED)) + 1)
            await here.capture()
        elif mode == "resume":
            await here.resume()
        elif mode == "work":
            for number in range(10_000):
                await here.exchange(number)
                await here.capture()
                print(number, flush=True)


async def printed(said: Path, lines: int) -> None:
    """Wait until a life has printed so many lines."""
    await until(f"{lines} lines", lambda: said.exists() and said.read_bytes().count(b"\n") >= lines)


async def proven(app: Path) -> None:
    """A new life finds every captured turn in the generation, resumes exactly, and can go on."""
    async with daemon(app, NoCrash()) as here:
        captured = await here.turns(TurnState.CAPTURED)
        here.log.write_bytes(b"lost\n")
        assert await here.resume() is ResumeSource.GENERATION
        await here.settle()
        lines = here.log.read_bytes().decode().splitlines()
        assert {f"turn {text}" for text in captured} <= set(lines)
        rows = await here.store.read(lambda repos: repos.checkpoints.of_host(HOST))
        assert [row.generation for row in rows] == list(range(1, len(rows) + 1))
        recovery = app / layout.recovery(HOST)
        assert {path.stem for path in (recovery / "packs").iterdir()} == {str(row.id) for row in rows}
        assert not [path.name for path in recovery.rglob("*.tmp")]
        await here.capture()


@pytest.mark.guarantee("CONT-4", "WS-12")
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_every_boundary_of_a_publication(tmp_path: Path, point: str, lives: Lives) -> None:
    """SIGKILL at the boundary, and SIGKILL again in the recovery of it; the third life finds nothing lost."""
    assert lives.run(live, tmp_path, "capture", "never") == 0
    assert lives.run(live, tmp_path, "capture", point) == -signal.SIGKILL
    assert lives.run(live, tmp_path, "resume", "publish.recorded") in (0, -signal.SIGKILL)
    anyio.run(proven, tmp_path)


@pytest.mark.guarantee("CONT-11", "WS-12")
@pytest.mark.parametrize("point", RESTORE_POINTS)
def test_killed_at_every_boundary_of_a_restore(tmp_path: Path, point: str, lives: Lives) -> None:
    """A restore that is killed twice at the same boundary is whole in the end."""
    assert lives.run(live, tmp_path, "capture", "never") == 0
    log = tmp_path / layout.provider_state(HOST, "probe") / "thread.jsonl"
    captured = log.read_bytes()
    log.write_bytes(b"other\n")
    database = log.with_name("x.sqlite")
    database.touch()
    for _ in range(2):
        assert lives.run(live, tmp_path, "resume", point) in (0, -signal.SIGKILL)
    assert lives.run(live, tmp_path, "resume", "never") == 0
    assert log.read_bytes() == captured
    assert not database.exists()
    anyio.run(proven, tmp_path)


@pytest.mark.guarantee("CONT-4", "CONT-11")
async def test_killed_at_any_moment(tmp_path: Path, lives: Lives) -> None:
    """At moments drawn from a printed seed: captured turns are in the generation, and the session resumes exactly."""
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    source = random.Random(seed)
    for number in range(ROUNDS):
        said = tmp_path / f"said-{number}"
        life = lives.begin(live, tmp_path, "work", "never", said=said)
        try:
            await printed(said, 1 + source.randrange(4))
            # Between two lines lie a store's commit, a capture and another commit: some ten milliseconds.
            time.sleep(source.random() * 0.015)  # noqa: ASYNC251 - nothing else runs here, and nothing may come between
        finally:
            life.kill()
        assert life.wait() == -signal.SIGKILL, said.read_text()
        await proven(tmp_path)
