"""What a client may ask of the daemon, and what it is told. The control interface, its client and the services share these."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from jamcore.domain.activity import Activity
from jamcore.domain.approvals import ApprovalPolicy
from jamcore.domain.cells import Cell, Configuration, Placement, WorkspaceSource
from jamcore.domain.changes import ChangeDecision, ChangeRequest
from jamcore.domain.clone_work import CloneWork
from jamcore.domain.continuity import ActivationDecision, Checkpoint, CheckpointEntry, Observation
from jamcore.domain.ownership import OverrideEvidence
from jamcore.domain.records import Record
from jamcore.domain.resets import FreshStart
from jamcore.domain.safekeeping import Safety, UnsavedHost
from jamcore.domain.sandboxes import Resources
from jamcore.domain.sessions import Room, RuntimeHost, RuntimeSession, SessionWorkspace, Turn


class EndpointChoice(Record):
    """A model endpoint instead of the provider's own. ``credential`` names a secret of the daemon; none is sent otherwise.

    The provider's own credential is never sent to another origin unless it is named here.
    """

    origin: str
    credential: str | None = None


class RoomRequest(Record):
    """A new room: the id is the client's, so that a retry is exact (WS-11).

    ``agent`` names whose host it is: rooms of one agent may share a host, and the provider's own agent is meant when it is absent.
    ``approvals`` absent: the agent asks where nothing isolates it, if it can ask. ``environment_files`` are absolute paths in the order in
    which the engine merges them, for that configuration alone.
    """

    id: UUID
    name: str | None = None
    provider: str
    agent: str | None = None
    engine: str | None = None
    configuration: Configuration = Configuration.JAM_MANAGED
    workspace: WorkspaceSource = WorkspaceSource.MANAGED
    placement: Placement = Placement.DEDICATED
    path: str | None = None
    environment_files: tuple[str, ...] = ()
    allow_dirty: bool = False
    model: str | None = None
    approvals: ApprovalPolicy | None = None
    endpoint: EndpointChoice | None = None
    resources: Resources = Resources()

    @model_serializer(mode="wrap")
    def _as_it_was_stored(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Leave out what came after the first requests were stored, where it is not used: a retry has the same digest for ever."""
        data: dict[str, object] = handler(self)
        if not self.environment_files:
            del data["environment_files"]
        return data


class TurnRequest(Record):
    """A message for a room. The id is the client's."""

    id: UUID
    text: str


class RunRequest(Record):
    """An objective: a room, one turn and a change request at its end (RUN-1). The id becomes the room's id."""

    id: UUID
    turn_id: UUID
    change_id: UUID
    room: RoomRequest
    objective: str


class ChangeBuildRequest(Record):
    """Build a change request from a room's work tree as it is now."""

    id: UUID


class AcceptRequest(Record):
    """Put a change request on a branch. The id is the client's, so that a retry is exact.

    ``patch_sha256`` is of the patch that was reviewed: other bytes are refused. ``branch`` absent: a new one is named after the change
    request. ``repository`` absent: the one that the session's workspace came from. ``author`` as ``Name <address>``; absent: whom the
    repository names. ``allow_moved`` accepts a branch that has gone on since the session began, if the patch fits it as it is.
    """

    id: UUID
    patch_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    branch: str | None = Field(None, min_length=1, max_length=200)
    repository: str | None = Field(None, max_length=4095)
    author: str | None = Field(None, max_length=200)
    allow_moved: bool = False


class RejectRequest(Record):
    """Refuse a change request. With ``turn_id`` the reason becomes the room's next turn, so that the agent can do better."""

    id: UUID
    patch_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    reason: str = Field(min_length=1, max_length=10_000)
    turn_id: UUID | None = None


class SecretValue(Record):
    """A credential on its way into the daemon. Never logged, never echoed."""

    value: str


class Health(Record):
    """Who answers."""

    daemon_id: UUID
    version: str
    pid: int
    started_at: datetime
    app_directory: str
    activity: Activity | None = None
    """Absent: the daemon is of a release that cannot say."""


class FindingView(Record):
    """One line of the doctor's report."""

    subject: str
    ok: bool
    detail: str
    hint: str


class EngineView(Record):
    """One engine: what stands between its guests and the host, whether it works here, and whether a request without an engine gets it."""

    name: str
    isolation: str
    usable: bool
    default: bool
    detail: str
    hint: str


class DoctorReport(Record):
    """What this machine can do, and what to do about each gap; every engine, strongest first."""

    healthy: bool
    findings: tuple[FindingView, ...]
    engines: tuple[EngineView, ...] = ()


class CellRow(Record):
    """One legal cell of one provider, and which engines can run it here."""

    provider: str
    cell: Cell
    engines: tuple[str, ...]


class ProviderView(Record):
    """One provider plugin as it was loaded."""

    name: str
    title: str
    state: str
    distribution: str
    version: str
    program_version: str | None
    installed: bool
    problems: tuple[str, ...]


class InstallProgress(Record):
    """How far the installation of a provider's program is. ``step`` is empty when none runs; ``total`` is 0 where it is not known."""

    step: Literal["", "waiting", "downloading", "verifying", "unpacking"] = ""
    bytes: int = 0
    total: int = 0


class InstalledToolchain(Record):
    """A pinned program under the app directory."""

    provider: str
    version: str
    digest: str
    path: str
    already: bool


class RoomView(Record):
    """A room with its live session, host and workspace, and its last turn.

    ``isolation`` is its engine's class, "none" for host processes. ``not_parked`` says what keeps its host's sandbox from being parked,
    while that fails and is tried again (START-5). ``safety`` says how far its conversation is in a generation. ``fresh_starts`` are those
    that the conversation came from, newest first.
    """

    room: Room
    session: RuntimeSession
    host: RuntimeHost
    workspace: SessionWorkspace
    isolation: str = "unknown"
    live: bool
    busy: bool
    last_turn: Turn | None
    last_seq: int
    not_parked: str = ""
    safety: Safety = Safety()
    fresh_starts: tuple[FreshStart, ...] = ()


class SessionInspection(Record):
    """All the evidence about a session's continuity (CONT-7)."""

    room: RoomView
    decision: ActivationDecision | None
    checkpoints: tuple[Checkpoint, ...]
    observations: tuple[Observation, ...]
    turns: tuple[Turn, ...]


class RunView(Record):
    """A run's room and, when it has ended, its change request."""

    room: RoomView
    turn: Turn
    change: ChangeRequest | None


class ChangeView(Record):
    """A change request with its patch, escaped for a terminal, and where its files are."""

    change: ChangeRequest
    directory: str
    patch: str
    patch_truncated: bool
    decision: ChangeDecision | None = None


class OverrideView(Record):
    """A host whose sandbox may have lost its proof: the evidence to look at, and its digest, which confirms it (OWN-8)."""

    host_id: UUID
    engine: str
    rooms: tuple[str, ...]
    evidence: OverrideEvidence
    digest: str
    needed: bool
    stays: CloneWork | None = None
    """What a private clone holds that stays where it is: no part of the evidence."""


class OverrideRequest(Record):
    """Remove a sandbox without its proof. The id is the client's; ``confirmed`` is the digest of the evidence that was shown.

    ``discard_work``: what the evidence says of a private clone that goes with the sandbox may be lost (OWN-9).
    """

    id: UUID
    confirmed: str = Field(pattern=r"^[0-9a-f]{64}$")
    discard_work: bool = False


class OverrideResult(Record):
    """The sandbox is gone, its marker too; the files stay."""

    id: UUID
    host_id: UUID
    sandbox: str
    confirmed: str


class CheckpointView(Record):
    """A generation with what it holds: the first entries by path, and how many there are; nothing once its payload was removed."""

    checkpoint: Checkpoint
    entries: tuple[CheckpointEntry, ...]
    entries_total: int
    removed_at: datetime | None = None


class CheckpointVerdict(Record):
    """Whether every byte of a generation is there and has its digest. One whose payload was removed is neither sound nor damaged.

    ``note``: it is sound because others hold what is damaged in its own pack; says what, and which packs hold it.
    """

    checkpoint: Checkpoint
    sound: bool
    problem: str = ""
    note: str = ""
    removed_at: datetime | None = None


class CheckpointDiff(Record):
    """What lies between two generations of one host: the first entries of each kind, and how many differ in all."""

    older: Checkpoint
    newer: Checkpoint
    added: tuple[CheckpointEntry, ...]
    changed: tuple[CheckpointEntry, ...]
    removed: tuple[CheckpointEntry, ...]
    total: int


class StopResult(Record):
    """How a room was parked: with which final checkpoint, if one was needed.

    ``left``: it gave its seat back, and the shared host goes on for other rooms. ``settled``: the final checkpoint had failed before, and
    this is how that ended.
    """

    room: RoomView
    checkpoint: Checkpoint | None
    outcome: Literal["parked", "left", "already-parked"]
    settled: UnsavedHost | None = None


class CredentialRow(Record):
    """One credential by name and where it comes from; never its text."""

    name: str
    present: bool
    source: str
