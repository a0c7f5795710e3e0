"""A store on a database of its own, and records to put into it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

import anyio
import pytest

from jamcore.domain.cells import Cell, Configuration, Placement, WorkspaceSource
from jamcore.domain.changes import ChangeRequest, Run
from jamcore.domain.continuity import (
    ActivationDecision,
    ActivationEvidence,
    Checkpoint,
    CheckpointReason,
    Observation,
    ObservationOutcome,
    ResumeSource,
    decide_activation,
)
from jamcore.domain.operations import About, Operation, OperationState
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
from jamcore.store import Repos, Store, open_store
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds

if TYPE_CHECKING:
    from jamcore.testing.needs import Probe

BEGINNING = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def pytest_jam_needs() -> dict[str, Probe]:
    """Contribute ``tmpfs``: a small disk can be mounted in a namespace of one's own."""
    return {"tmpfs": _probe_tmpfs}


def _probe_tmpfs() -> str | None:
    script = "mount -t tmpfs -o size=64k tmpfs /mnt"
    done = subprocess.run(["unshare", "-Urm", "sh", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return None if done.returncode == 0 else done.stderr.decode(errors="replace").strip()


class HandClock:
    """A clock that a test sets, also backwards."""

    def __init__(self) -> None:
        self.at = BEGINNING

    def turn(self, seconds: float) -> None:
        """Move on, or back."""
        self.at += timedelta(seconds=seconds)

    def now(self) -> datetime:
        """Return the set time."""
        return self.at

    def monotonic(self) -> float:
        """Never asked."""
        return 0.0


@dataclass(frozen=True)
class Seed:
    """One agent with a host, a session and a room, as stored."""

    agent: Agent
    host: RuntimeHost
    session: RuntimeSession
    workspace: SessionWorkspace
    room: Room


class Make:
    """Makes records that differ in nothing but their ids, unless told otherwise."""

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock
        self.ids = SystemIds()

    def agent(self, name: str = "agent") -> Agent:
        """Return an agent."""
        return Agent(id=self.ids.uuid(), name=name, provider="probe", created_at=self.clock.now())

    def host(
        self, agent: Agent, *, placement: Placement = Placement.DEDICATED, state: HostState = HostState.PROVISIONING
    ) -> RuntimeHost:
        """Return a host; its fence fields are the store's business."""
        identifier = self.ids.uuid()
        return RuntimeHost(
            id=identifier,
            agent_id=agent.id,
            provider="probe",
            engine="none",
            cell=Cell(configuration=Configuration.JAM_MANAGED, workspace=WorkspaceSource.MANAGED, placement=placement),
            sandbox=f"jam-{identifier.hex}",
            plan_json='{"prefix":"ä"}',
            state=state,
            daemon_id=self.ids.uuid(),
            fence_epoch=77,
            created_at=self.clock.now(),
        )

    def session(self, host: RuntimeHost) -> RuntimeSession:
        """Return a dormant session."""
        return RuntimeSession(
            id=self.ids.uuid(),
            host_id=host.id,
            agent_id=host.agent_id,
            state=SessionState.DORMANT,
            provider_identity=None,
            model="m",
            created_at=self.clock.now(),
        )

    def workspace(self, session: RuntimeSession, *, state: WorkspaceState = WorkspaceState.PLANNED) -> SessionWorkspace:
        """Return a workspace."""
        return SessionWorkspace(
            id=self.ids.uuid(),
            session_id=session.id,
            host_id=session.host_id,
            source=WorkspaceSource.MANAGED,
            path=None,
            commit=None,
            guest_path="/jam/work",
            state=state,
            created_at=self.clock.now(),
        )

    def room(self, agent: Agent, name: str = "room", *, identifier: UUID | None = None) -> Room:
        """Return a room."""
        return Room(
            id=identifier or self.ids.uuid(), name=name, agent_id=agent.id, request_digest="0" * 64, created_at=self.clock.now()
        )

    def binding(self, room: Room, session: RuntimeSession, *, live: bool = True) -> Binding:
        """Return a binding."""
        return Binding(id=self.ids.uuid(), room_id=room.id, session_id=session.id, live=live)

    def turn(self, room: Room, session: RuntimeSession, text: str = "do it", *, state: TurnState = TurnState.ACCEPTED) -> Turn:
        """Return a turn."""
        return Turn(
            id=self.ids.uuid(),
            room_id=room.id,
            session_id=session.id,
            text=text,
            state=state,
            provider_turn=None,
            detail="",
            checkpoint_id=None,
            workspace_digest=None,
            process_epoch=1,
            accepted_at=self.clock.now(),
            ended_at=None,
        )

    def about(self, workspace: SessionWorkspace) -> About:
        """Return what an operation on a workspace is about."""
        return About(host_id=workspace.host_id, session_id=workspace.session_id, workspace_id=workspace.id)

    def operation(
        self,
        repos: Repos,
        workspace: SessionWorkspace,
        *,
        state: OperationState = OperationState.RUNNING,
        identifier: UUID | None = None,
    ) -> Operation:
        """Begin an operation on a workspace."""
        return repos.operations.begin(identifier or self.ids.uuid(), "provision", "{}", self.about(workspace), state=state)

    def checkpoint(self, host: RuntimeHost, *, digest: str = "d1") -> Checkpoint:
        """Return a checkpoint without a number."""
        return Checkpoint(
            id=self.ids.uuid(),
            host_id=host.id,
            agent_id=host.agent_id,
            provider="probe",
            provider_version="1",
            reason=CheckpointReason.AFTER_TURN,
            root_digest=digest,
            sessions=(),
            files=1,
            bytes_total=1,
            bytes_written=1,
            generation=0,
            created_at=self.clock.now(),
        )

    def observation(self, session: RuntimeSession, checkpoint: UUID, *, outcome: ObservationOutcome) -> Observation:
        """Return an observation."""
        return Observation(
            id=self.ids.uuid(),
            session_id=session.id,
            checkpoint_id=checkpoint,
            outcome=outcome,
            source=ResumeSource.LIVE,
            expected_identity="thread",
            reported_identity="thread" if outcome is ObservationOutcome.SUCCEEDED else None,
            detail="",
            observed_at=self.clock.now(),
        )

    def decision(self, identity: str | None = None) -> ActivationDecision:
        """Return a decision."""
        return decide_activation(
            ActivationEvidence(
                provider_identity=identity,
                checkpoint_id=None,
                generation_state="none",
                session_captured=False,
                captured_identity=None,
                version_compatible=True,
                captured_version=None,
                current_version="1",
            )
        )

    def change(self, room: Room, session: RuntimeSession, objective: str = "mend it") -> ChangeRequest:
        """Return a change request."""
        return ChangeRequest(
            id=self.ids.uuid(),
            room_id=room.id,
            session_id=session.id,
            objective=objective,
            base="c0ffee",
            paths=(),
            files=(),
            complete=True,
            created_at=self.clock.now(),
        )

    def run(self, room: Room) -> Run:
        """Return a run."""
        return Run(room_id=room.id, turn_id=self.ids.uuid(), change_id=self.ids.uuid(), objective="mend it")

    def seed(self, repos: Repos, name: str = "agent") -> Seed:
        """Put one of each into the store."""
        agent = repos.agents.insert(self.agent(name))
        host = repos.hosts.insert(self.host(agent))
        session = repos.sessions.insert(self.session(host))
        workspace = repos.workspaces.insert(self.workspace(session))
        room = repos.rooms.insert(self.room(agent, f"room of {name}"))
        repos.bindings.insert(self.binding(room, session))
        return Seed(agent, host, session, workspace, room)


class OpenStore(Protocol):
    """Opens a store on a file whose schema is up to date; the same file and daemon give the daemon's next life."""

    def __call__(
        self, path: Path, *, daemon_id: UUID | None = None, busy_timeout_s: float = 5
    ) -> AbstractAsyncContextManager[Store]:
        """Open it."""


@pytest.fixture
def clock() -> HandClock:
    """A clock that the test sets."""
    return HandClock()


@pytest.fixture
def make(clock: HandClock) -> Make:
    """Records."""
    return Make(clock)


@pytest.fixture(scope="session")
def blank_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database without rows of interest: the schema is made once and copied."""
    path = tmp_path_factory.mktemp("blank") / "jam.db"

    async def prepare() -> None:
        async with open_store(path, files=Files(), clock=HandClock(), daemon_id=UUID(int=1)):
            pass

    anyio.run(prepare)
    return path


@pytest.fixture
def open_at(blank_database: Path, clock: HandClock) -> OpenStore:
    """Open stores."""

    def open_it(path: Path, *, daemon_id: UUID | None = None, busy_timeout_s: float = 5) -> AbstractAsyncContextManager[Store]:
        if not path.exists():
            shutil.copy(blank_database, path)
        daemon = daemon_id or UUID(int=1)
        return open_store(path, files=Files(), clock=clock, daemon_id=daemon, busy_timeout_s=busy_timeout_s)

    return open_it


@pytest.fixture
async def store(open_at: OpenStore, tmp_path: Path) -> AsyncIterator[Store]:
    """A store."""
    async with open_at(tmp_path / "jam.db") as opened:
        yield opened


@pytest.fixture
async def seeded(store: Store, make: Make) -> Seed:
    """What the store holds already."""
    return await store.transact(make.seed)
