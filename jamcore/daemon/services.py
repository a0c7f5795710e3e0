"""What the daemon does for its clients: one frozen object, built by the composition root and handed to the control interface."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from jamcore.daemon.operation_service import OperationService
from jamcore.daemon.workspace_service import WorkspaceService
from jamcore.domain.approvals import Approval, ApprovalRule, ApprovalState, DecisionRequest
from jamcore.domain.capacity import CapacityReport
from jamcore.domain.changes import ChangeDecision, ChangeRequest
from jamcore.domain.cleanup_plans import CleanupPlan, CleanupQuestion, CleanupRequest, CleanupResult
from jamcore.domain.continuity import Checkpoint
from jamcore.domain.events import RoomEvent
from jamcore.domain.export_deletions import ExportDeletionPlan, ExportDeletionRequest, ExportDeletionResult
from jamcore.domain.imports import AdoptRequest, ConfirmRequest, ImportRequest, ImportView
from jamcore.domain.keeping import (
    ArchivePlan,
    ArchiveQuestion,
    ArchiveRequest,
    ArchiveResult,
    ExportRow,
    ExportVerdict,
    ExportView,
    RestoreRequest,
    RestoreResult,
    RoomExportRequest,
)
from jamcore.domain.ownership import Reconciliation
from jamcore.domain.plugins import PluginView
from jamcore.domain.requests import (
    AcceptRequest,
    CellRow,
    ChangeView,
    CheckpointDiff,
    CheckpointVerdict,
    CheckpointView,
    CredentialRow,
    DoctorReport,
    EngineView,
    Health,
    InstalledToolchain,
    InstallProgress,
    OverrideRequest,
    OverrideResult,
    OverrideView,
    ProviderView,
    RejectRequest,
    RoomRequest,
    RoomView,
    RunRequest,
    RunView,
    SessionInspection,
    StopResult,
    TurnRequest,
)
from jamcore.domain.resets import ContinuityView, StartFreshRequest, StartFreshResult
from jamcore.domain.retention import CheckpointStanding, RemovalPlan, RemovalQuestion, RemovalRequest, RemovalResult
from jamcore.domain.sessions import Turn


class ContinuityService(Protocol):
    """Conversations that cannot be brought back (CONT-9)."""

    async def inspect(self, ref: str) -> ContinuityView:
        """Return the evidence about the host of a room: can its conversations be brought back, and if not, why. Read-only."""

    async def start_fresh(self, ref: str, request: StartFreshRequest) -> StartFreshResult:
        """Give those conversations up on the confirmed evidence, and go on with new ones. Nothing is deleted."""


class SystemService(Protocol):
    """The daemon itself."""

    async def health(self) -> Health:
        """Say who answers."""

    async def doctor(self) -> DoctorReport:
        """Look at engines, plugins, programs, credentials and limits. Read-only."""

    async def engines(self) -> tuple[EngineView, ...]:
        """Return every engine, strongest first, and which one a request without an engine gets (ENG-4). Read-only."""

    def shutdown(self) -> None:
        """Begin an orderly shutdown; returns at once."""

    async def shutdown_if_idle(self) -> None:
        """Begin an orderly shutdown if nothing would be interrupted; otherwise refuse and say what is under way."""

    async def stopped(self) -> None:
        """Wait until a shutdown was asked for."""


class ProviderService(Protocol):
    """Provider plugins and their programs."""

    async def cells(self) -> tuple[CellRow, ...]:
        """Return the one capability table (CAP-5)."""

    async def list(self) -> tuple[ProviderView, ...]:
        """Return every plugin, also the ones that were not loaded."""

    async def install(self, provider: str) -> InstalledToolchain:
        """Get the provider's pinned program, verify and unpack it under the app directory. Idempotent."""

    async def progress(self, provider: str) -> InstallProgress:
        """Say how far an installation of it is, if one runs."""


class PluginService(Protocol):
    """Plugins themselves: where each comes from, what became of it, and whether a person wants it."""

    async def list(self) -> tuple[PluginView, ...]:
        """Return every provider, engine, policy and family plugin, also those not loaded, each with all that is wrong with it."""

    async def block(self, name: str, why: str) -> tuple[PluginView, ...]:
        """Never import what has this name from the next start on. Returns all that have it. An exact retry changes nothing."""

    async def unblock(self, name: str) -> tuple[PluginView, ...]:
        """Import what has this name again from the next start on. Returns all that have it. An exact retry changes nothing."""


class CredentialService(Protocol):
    """Secrets that only the daemon holds."""

    async def list(self) -> tuple[CredentialRow, ...]:
        """Return the names that are known and where each comes from."""

    async def set(self, name: str, value: str) -> CredentialRow:
        """Keep a secret for the relay."""

    async def forget(self, name: str) -> None:
        """Forget a kept secret."""


class RoomService(Protocol):
    """Rooms: ``ref`` is a UUID, a unique prefix of one (8 or more characters) or a room's name."""

    async def create(self, request: RoomRequest) -> RoomView:
        """Allocate host, session and workspace and start them. An exact retry returns the same room."""

    async def list(self) -> tuple[RoomView, ...]:
        """Return all rooms, newest first."""

    async def get(self, ref: str) -> RoomView:
        """Return one room."""

    async def say(self, ref: str, request: TurnRequest) -> Turn:
        """Accept a turn and return; it runs in the daemon whatever becomes of the client."""

    async def turns(self, ref: str) -> tuple[Turn, ...]:
        """Return the turns of a room, oldest first."""

    async def interrupt(self, ref: str) -> RoomView:
        """Interrupt the running turn and its background commands; idle: does nothing."""

    async def stop(self, ref: str, *, accept_unsaved: bool = False) -> StopResult:
        """Checkpoint and park the room's host. Its files stay. A final checkpoint that failed is made again, or given up (CONT-8)."""

    async def resume(self, ref: str) -> RoomView:
        """Bring the room's session back exactly, or refuse (CONT-1)."""

    async def inspect(self, ref: str) -> SessionInspection:
        """Return the evidence about the session's continuity."""

    def events(self, ref: str, *, after: int, follow: bool) -> AbstractAsyncContextManager[AsyncIterator[RoomEvent]]:
        """Stream the room's events with ``seq`` greater than ``after``; with ``follow`` wait for more. Resumable by number."""


class ApprovalService(Protocol):
    """What agents asked to do, and what people allowed for good."""

    async def list(self, *, room: str | None, state: ApprovalState | None) -> tuple[Approval, ...]:
        """Return approvals, newest first, of one room or of all."""

    async def get(self, ref: str) -> Approval:
        """Return one by its id or a part of it."""

    async def decide(self, ref: str, request: DecisionRequest) -> Approval:
        """Answer one: the first answer counts, an exact retry is the same answer, another is a typed conflict."""

    async def rules(self) -> tuple[ApprovalRule, ...]:
        """Return all rules, newest first."""

    async def remove_rule(self, ref: str) -> ApprovalRule:
        """Remove a rule and return what it was."""


class HostService(Protocol):
    """Hosts: ``ref`` is a sandbox's name, a host's UUID, or a room on it as :class:`RoomService` takes it."""

    async def inspect_override(self, ref: str) -> OverrideView:
        """Return the evidence about a sandbox whose proof may be gone. Read-only."""

    async def override(self, ref: str, request: OverrideRequest) -> OverrideResult:
        """Remove that sandbox on a person's word, if the evidence is what was confirmed. An exact retry returns the same (OWN-8)."""


class RunService(Protocol):
    """Objectives that end in a change request."""

    async def start(self, request: RunRequest) -> RunView:
        """Create the room, accept the turn and return; the daemon builds the change request when the turn has ended."""

    async def get(self, ref: str) -> RunView:
        """Return a run by its room."""


class ChangeService(Protocol):
    """Change requests."""

    async def build(self, ref: str, identifier: UUID) -> ChangeRequest:
        """Build one from a room's work tree as it is now. An exact retry returns the same."""

    async def list(self) -> tuple[ChangeRequest, ...]:
        """Return all, newest first."""

    async def show(self, ref: str) -> ChangeView:
        """Return one with its patch, control characters escaped (SEC-3)."""


class ReviewService(Protocol):
    """What a reviewer says of change requests."""

    async def decisions(self) -> tuple[ChangeDecision, ...]:
        """Return what became of those that were judged."""

    async def accept(self, ref: str, request: AcceptRequest) -> ChangeDecision:
        """Put exactly the reviewed bytes on a branch of the person's repository. An exact retry returns the same."""

    async def reject(self, ref: str, request: RejectRequest) -> ChangeDecision:
        """Refuse one; the reason becomes the room's next turn when the request names one. An exact retry returns the same."""


class CheckpointService(Protocol):
    """Generations of a conversation's state. Read-only."""

    async def list(self, room: str) -> tuple[Checkpoint, ...]:
        """Return the generations that a room's host has, newest first."""

    async def show(self, ref: str) -> CheckpointView:
        """Return one with what it holds."""

    async def verify(self, ref: str) -> CheckpointVerdict:
        """Read one whole and say whether it is sound."""

    async def diff(self, older: str, newer: str) -> CheckpointDiff:
        """Return what lies between two generations of one host."""


class RemovalService(Protocol):
    """Removing the payload of checkpoints, on a person's word."""

    async def standings(self, room: str) -> tuple[CheckpointStanding, ...]:
        """Return the generations of a room's host, newest first, with what keeps each."""

    async def plan(self, question: RemovalQuestion) -> RemovalPlan:
        """Return what a removal would free and what stands against it. Changes nothing."""

    async def remove(self, request: RemovalRequest) -> RemovalResult:
        """Remove what was confirmed by the plan's digest. An exact retry returns the same."""


class ExportService(Protocol):
    """Exports of workspaces: plain directories that can be checked and read without Jam (WS-5)."""

    async def new(self, ref: str, request: RoomExportRequest) -> ExportView:
        """Export a room's workspace with its latest checkpoint. An exact retry verifies the export and returns the same."""

    async def list(self, room: str | None) -> tuple[ExportRow, ...]:
        """Return exports, newest first, of one room or of all."""

    async def show(self, ref: str) -> ExportView:
        """Return one with what its manifest says."""

    async def verify(self, ref: str) -> ExportVerdict:
        """Read one whole and say whether it is sound; when that was is kept."""


class ArchiveService(Protocol):
    """Archives of workspaces, on a person's word (WS-4, WS-16)."""

    async def plan(self, ref: str, question: ArchiveQuestion) -> ArchivePlan:
        """Return what an archive of a room's workspace would take away, and what stands against it. Changes nothing."""

    async def archive(self, ref: str, request: ArchiveRequest) -> ArchiveResult:
        """Export the workspace, then remove its directory, if all is what was confirmed. An exact retry returns the same."""


class RestoreService(Protocol):
    """Bringing archived workspaces back (WS-6)."""

    async def restore(self, ref: str, request: RestoreRequest) -> RestoreResult:
        """Bring a room's workspace back from an export of it. An exact retry returns the same."""


class CleanupService(Protocol):
    """Clean-ups of whole hosts, on a person's word; ``ref`` is as for :class:`HostService` (WS-8)."""

    async def plan(self, ref: str, question: CleanupQuestion) -> CleanupPlan:
        """Return what a clean-up would take away, and everything that stands against it. Changes nothing."""

    async def clean_up(self, ref: str, request: CleanupRequest) -> CleanupResult:
        """Remove the sandbox, then the host's directory, if all is what was confirmed. An exact retry returns the same."""


class ExportDeletionService(Protocol):
    """Deletions of exports, on a person's word (WS-7)."""

    async def plan(self, ref: str) -> ExportDeletionPlan:
        """Return what a deletion would take away, and what stands against it. Changes nothing."""

    async def delete(self, ref: str, request: ExportDeletionRequest) -> ExportDeletionResult:
        """Delete the payload, if all is what was confirmed. An exact retry returns the same."""


class ImportService(Protocol):
    """Exports that were made elsewhere: nothing of one is used before a person confirms it (WS-6)."""

    async def take(self, request: ImportRequest) -> ImportView:
        """Take one in, quarantined. An exact retry returns the same."""

    async def inspect(self, ref: str) -> ImportView:
        """Read one whole and return what there is to confirm. Changes nothing."""

    async def confirm(self, ref: str, request: ConfirmRequest) -> ImportView:
        """Let one be restored, if all is what was confirmed."""


class AdoptionService(Protocol):
    """Rooms of exports that were made elsewhere (WS-6, CONT-1)."""

    async def restore(self, ref: str, request: AdoptRequest) -> RoomView:
        """Make a new, parked room of a confirmed export. An exact retry returns the same."""


class CapacityService(Protocol):
    """What takes room on the disk."""

    async def report(self) -> CapacityReport:
        """Look at it now, within bounds. Read-only: what it advises is nobody's authority to remove anything (REAP-3)."""


class InventoryService(Protocol):
    """All sandboxes and markers of this app directory."""

    async def reconcile(self) -> Reconciliation:
        """Look at them now. Read-only: no classification authorises a change (OWN-6)."""


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that a transport may call."""

    system: SystemService
    providers: ProviderService
    plugins: PluginService
    credentials: CredentialService
    rooms: RoomService
    hosts: HostService
    continuity: ContinuityService
    inventory: InventoryService
    checkpoints: CheckpointService
    removals: RemovalService
    cleanups: CleanupService
    export_deletions: ExportDeletionService
    capacity: CapacityService
    exports: ExportService
    imports: ImportService
    adoptions: AdoptionService
    archives: ArchiveService
    restores: RestoreService
    operations: OperationService
    workspaces: WorkspaceService
    approvals: ApprovalService
    runs: RunService
    changes: ChangeService
    reviews: ReviewService
