"""A clock that tests set, and records that differ in nothing but their ids."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from jamcore.domain.approvals import Approval, ApprovalState
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
from jamcore.domain.host_cleanups import CleanupStage, HostCleanup
from jamcore.domain.host_native import HostNativeWorkspace
from jamcore.domain.kept_exports import ExportMaker, ExportState, KeptExport
from jamcore.domain.operations import About, Operation, OperationState
from jamcore.domain.retention import DeletionStage, PayloadDeletion
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
from jamcore.store import Repos
from jamcore.system.ids import SystemIds

BEGINNING = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


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


class Records:
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

    def approval(self, turn: Turn) -> Approval:
        """Return a request that waits."""
        return Approval(
            id=self.ids.uuid(),
            room_id=turn.room_id,
            session_id=turn.session_id,
            turn_id=turn.id,
            process_epoch=1,
            request="r",
            item="i",
            subject="command",
            detail="ls",
            preview="",
            digest="0" * 64,
            state=ApprovalState.PENDING,
            decided_by=None,
            decision_id=None,
            rule_id=None,
            asked_at=self.clock.now(),
            deadline_at=self.clock.now(),
            decided_at=None,
        )

    def payload_deletion(self, checkpoint: Checkpoint, *, planned_bytes: int = 1) -> PayloadDeletion:
        """Return a removal that is prepared, of a removal of its own."""
        return PayloadDeletion(
            id=self.ids.uuid(),
            checkpoint_id=checkpoint.id,
            host_id=checkpoint.host_id,
            removal_id=self.ids.uuid(),
            stage=DeletionStage.PREPARED,
            planned_bytes=planned_bytes,
            freed_bytes=None,
            prepared_at=self.clock.now(),
            removed_at=None,
            ended_at=None,
        )

    def export(self, workspace: SessionWorkspace, *, state: ExportState = ExportState.QUARANTINED) -> KeptExport:
        """Return the record of an export of a workspace."""
        return KeptExport(
            id=self.ids.uuid(),
            maker=ExportMaker.HERE,
            state=state,
            agent_id=None,
            host_id=workspace.host_id,
            session_id=workspace.session_id,
            workspace_id=workspace.id,
            room_id=None,
            checkpoint_id=None,
            manifest_sha256="0" * 64,
            files=1,
            bytes_total=1,
            created_at=self.clock.now(),
            verified_at=None,
        )

    def host_cleanup(self, host: RuntimeHost) -> HostCleanup:
        """Return the clean-up of a host that is prepared."""
        return HostCleanup(
            id=self.ids.uuid(),
            host_id=host.id,
            stage=CleanupStage.PREPARED,
            confirmed="0" * 64,
            sandbox_absent=False,
            planned_bytes=1,
            removed_bytes=None,
            retained_bytes=0,
            prepared_at=self.clock.now(),
            ended_at=None,
        )

    def host_native(self, session: RuntimeSession, account: UUID) -> HostNativeWorkspace:
        """Return the work directory of a session without a sandbox."""
        return HostNativeWorkspace(
            id=self.ids.uuid(),
            account_id=account,
            agent_id=session.agent_id,
            session_id=session.id,
            state=WorkspaceState.PLANNED,
            created_at=self.clock.now(),
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
