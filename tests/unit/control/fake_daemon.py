"""A daemon for tests: the real server over services that keep everything in memory and act out a turn by its text.

Turn texts: ``wait`` runs until it is interrupted, ``quiet`` too but says nothing, ``stubborn`` runs for ever, ``fail`` fails, ``evil``
answers with terminal control sequences, ``doubt`` and ``parked`` lose their agent (with and without a word about the turn), ``late``
answers when it is interrupted and keeps later turns waiting, ``ask`` asks for permission and goes on when it is answered, anything else
is echoed.

Run as a program it is a whole daemon: ``python fake_daemon.py --app-directory DIR``. DIR/refuse.txt makes it end at once with that text
as its error, DIR/mute makes it never listen, DIR/slow-end makes it take a while to end, and an installation takes as long as
DIR/hold-install is there.
"""

# ruff: noqa: D101, D102 - the methods are the ones of jamcore.daemon.services, documented there

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
from anyio.abc import TaskGroup

from jamcore.control.server import serving
from jamcore.daemon.services import Services
from jamcore.domain.approvals import (
    ANSWERED,
    Approval,
    ApprovalDecidedError,
    ApprovalRule,
    ApprovalState,
    DecidedBy,
    DecisionRequest,
    digest_of,
    rule_from,
)
from jamcore.domain.cells import (
    SHARED_CELL,
    Cell,
    Configuration,
    EngineLacksAbilityError,
    Placement,
    UnknownProviderError,
    WorkspaceSource,
)
from jamcore.domain.changes import ChangeDecision, ChangedPath, ChangeFlag, ChangeRequest, EvidenceFile, Verdict
from jamcore.domain.continuity import (
    Activation,
    ActivationDecision,
    ActivationEvidence,
    Checkpoint,
    CheckpointReason,
    CheckpointSession,
    ContinuityRefusedError,
    Observation,
    ObservationOutcome,
    ResumeSource,
)
from jamcore.domain.errors import ConflictError, JamError, NotFoundError
from jamcore.domain.events import (
    ApprovalDecided,
    ApprovalRequested,
    CommandFinished,
    CommandStarted,
    FileChanged,
    Message,
    RoomEvent,
    RoomPayload,
    SessionNotice,
    TextDelta,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    TurnStateChanged,
    UserSaid,
)
from jamcore.domain.limits import Limits
from jamcore.domain.ownership import Disposition, OverrideEvidence, ReconciledSandbox, Reconciliation
from jamcore.domain.providers import ToolchainMissingError
from jamcore.domain.requests import (
    AcceptRequest,
    CellRow,
    ChangeView,
    CredentialRow,
    DoctorReport,
    EngineView,
    FindingView,
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
from jamcore.domain.sessions import (
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
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds
from jamcore.system.lock import owning

EVIL = "\x1b[31mred\x1b]0;title\x07 \x9b2J \u202egpj.exe tail\x7f\r\n\tok"
IDS = SystemIds()
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LIMITS = Limits(finalise_s=2.0, forced_exit_s=12.0)
COMMAND = "touch \x1b[31mf"
CELL = Cell(configuration=Configuration.JAM_MANAGED, workspace=WorkspaceSource.MANAGED, placement=Placement.DEDICATED)


@dataclass
class Conversation:
    """One room of the fake."""

    request: RoomRequest
    room: Room
    session: RuntimeSession
    host: RuntimeHost
    workspace: SessionWorkspace
    live: bool = True
    turns: dict[UUID, Turn] = field(default_factory=dict)
    events: list[RoomEvent] = field(default_factory=list)
    changed: anyio.Event = field(default_factory=anyio.Event)
    interrupt: anyio.Event = field(default_factory=anyio.Event)

    def emit(self, turn: UUID | None, payload: RoomPayload) -> None:
        self.events.append(RoomEvent(room_id=self.room.id, seq=len(self.events) + 1, at=AT, turn_id=turn, payload=payload))
        self.changed.set()
        self.changed = anyio.Event()

    def move(self, turn: UUID, state: TurnState, detail: str = "") -> None:
        ended = AT if state is not TurnState.RUNNING else None
        self.turns[turn] = self.turns[turn].model_copy(update={"state": state, "detail": detail, "ended_at": ended})
        self.emit(turn, TurnStateChanged(state=state.value, detail=detail))

    def view(self) -> RoomView:
        turns = list(self.turns.values())
        return RoomView(
            room=self.room,
            session=self.session,
            host=self.host,
            workspace=self.workspace,
            isolation="none" if self.host.engine == "local" else "namespace",
            live=self.live,
            busy=any(turn.state in {TurnState.ACCEPTED, TurnState.RUNNING} for turn in turns),
            last_turn=turns[-1] if turns else None,
            last_seq=len(self.events),
        )


class FakeServices:
    """All services in one object; ``calls`` records what was asked, ``gate`` holds back room creation and installation."""

    def __init__(self, tasks: TaskGroup, directory: Path) -> None:
        self.tasks = tasks
        self.directory = directory
        self.calls: list[tuple[str, object]] = []
        self.gate = anyio.Event()
        self.gate.set()
        self.fail_with: Exception | None = None
        self.rooms: dict[UUID, Conversation] = {}
        self.approvals: dict[UUID, Approval] = {}
        self.approval_rules: dict[UUID, ApprovalRule] = {}
        self.news = anyio.Event()
        self.changes: dict[UUID, ChangeRequest] = {}
        self.decisions: dict[UUID, ChangeDecision] = {}
        self.runs: dict[UUID, RunRequest] = {}
        self.secrets: dict[str, str] = {}
        self.stopping = anyio.Event()
        self.progress = InstallProgress()
        self.readers = 0

    def services(self) -> Services:
        return Services(
            system=FakeSystem(self),
            providers=FakeProviders(self),
            credentials=FakeCredentials(self),
            rooms=FakeRooms(self),
            hosts=FakeHosts(self),
            inventory=FakeInventory(self),
            approvals=FakeApprovals(self),
            runs=FakeRuns(self),
            changes=FakeChanges(self),
            reviews=FakeReviews(self),
        )

    async def note(self, name: str, detail: object = None) -> None:
        self.calls.append((name, detail))
        await anyio.lowlevel.checkpoint()
        if self.fail_with is not None:
            raise self.fail_with

    def find(self, ref: str) -> Conversation:
        for each in self.rooms.values():
            if ref == each.room.name or (len(ref) >= 8 and str(each.room.id).startswith(ref)):
                return each
        raise NotFoundError(kind="room", ref=ref)

    def change_of(self, room: Conversation, identifier: UUID, objective: str) -> ChangeRequest:
        self.changes[identifier] = ChangeRequest(
            id=identifier,
            room_id=room.room.id,
            session_id=room.session.id,
            objective=objective,
            base="0" * 40,
            paths=(
                ChangedPath(path="src/app.py", change="modified"),
                ChangedPath(path=".github/workflows/ci.yml", change="added", flags=(ChangeFlag.CI_DEFINITION,)),
            ),
            files=(EvidenceFile(name="change.patch", bytes=120, sha256="a" * 64),),
            complete=True,
            created_at=AT,
        )
        return self.changes[identifier]


class Part:
    """One service of the fake."""

    def __init__(self, fake: FakeServices) -> None:
        self.fake = fake


class FakeSystem(Part):
    async def health(self) -> Health:
        await self.fake.note("health")
        return Health(
            daemon_id=UUID(int=7), version="0.1.0", pid=os.getpid(), started_at=AT, app_directory=str(self.fake.directory)
        )

    async def doctor(self) -> DoctorReport:
        await self.fake.note("doctor")
        return DoctorReport(
            healthy=False,
            findings=(
                FindingView(subject="engine bubblewrap", ok=True, detail="version 0.11", hint=""),
                FindingView(subject="credential openai", ok=False, detail="absent", hint="Run `jam credential set openai`."),
            ),
        )

    async def engines(self) -> tuple[EngineView, ...]:
        await self.fake.note("engines")
        return (
            EngineView(name="bubblewrap", isolation="namespace", usable=True, default=True, detail="version 0.11", hint=""),
            EngineView(name="local", isolation="none", usable=True, default=False, detail="no sandbox", hint=""),
        )

    def shutdown(self) -> None:
        self.fake.calls.append(("shutdown", None))
        self.fake.stopping.set()

    async def stopped(self) -> None:
        await self.fake.stopping.wait()


class FakeProviders(Part):
    async def cells(self) -> tuple[CellRow, ...]:
        await self.fake.note("cells")
        return (
            CellRow(provider="codex", cell=CELL, engines=("bubblewrap",)),
            CellRow(provider="codex", cell=SHARED_CELL, engines=()),
        )

    async def list(self) -> tuple[ProviderView, ...]:
        await self.fake.note("providers")
        return (
            ProviderView(
                name="codex",
                title="Codex",
                state="loaded",
                distribution="jam-codex",
                version="0.1.0",
                program_version="0.163.0",
                installed=True,
                problems=(),
            ),
            ProviderView(
                name="broken",
                title="",
                state="broken",
                distribution="jam-broken",
                version="1",
                program_version=None,
                installed=False,
                problems=("no module named x",),
            ),
        )

    async def install(self, provider: str) -> InstalledToolchain:
        await self.fake.note("install", provider)
        if provider == "absent":
            raise ToolchainMissingError(provider=provider, problem="not there")
        if provider != "codex":
            raise UnknownProviderError(provider=provider, known=("codex",))
        self.fake.progress = InstallProgress(step="downloading", bytes=3_000_000, total=12_000_000)
        await self.fake.gate.wait()
        while (self.fake.directory / "hold-install").exists():  # noqa: ASYNC110 - another process removes it
            await anyio.sleep(0.02)
        self.fake.calls.append(("installed", provider))
        return InstalledToolchain(provider=provider, version="0.163.0", digest="b" * 64, path="/x/codex", already=False)

    async def progress(self, provider: str) -> InstallProgress:
        await self.fake.note("progress", provider)
        return self.fake.progress


class FakeCredentials(Part):
    async def list(self) -> tuple[CredentialRow, ...]:
        await self.fake.note("credentials")
        return tuple(CredentialRow(name=name, present=True, source="kept") for name in self.fake.secrets)

    async def set(self, name: str, value: str) -> CredentialRow:
        await self.fake.note("set_credential", (name, value))
        self.fake.secrets[name] = value
        return CredentialRow(name=name, present=True, source="kept")

    async def forget(self, name: str) -> None:
        await self.fake.note("forget_credential", name)
        if self.fake.secrets.pop(name, None) is None:
            raise NotFoundError(kind="credential", ref=name)


class FakeApprovals(Part):
    async def ask(self, room: Conversation, turn: UUID) -> ApprovalState:
        """Act out a question in a turn, to its answer."""
        approval = Approval(
            id=IDS.uuid(),
            room_id=room.room.id,
            session_id=room.session.id,
            turn_id=turn,
            process_epoch=1,
            request="r",
            item="c1",
            subject="command",
            detail=COMMAND,
            preview="in /jam/work",
            digest=digest_of("command", COMMAND),
            state=ApprovalState.PENDING,
            decided_by=None,
            decision_id=None,
            rule_id=None,
            asked_at=AT,
            deadline_at=AT + timedelta(minutes=10),
            decided_at=None,
        )
        self.fake.approvals[approval.id] = approval
        asked = ApprovalRequested(item="c1", subject="command", detail=COMMAND, request=str(approval.id), preview="in /jam/work")
        room.emit(turn, asked)
        while self.fake.approvals[approval.id].state is ApprovalState.PENDING:
            await self.fake.news.wait()
        decided = self.fake.approvals[approval.id]
        room.emit(turn, ApprovalDecided(approval=decided.id, state=decided.state, decided_by=DecidedBy.PERSON))
        return decided.state

    async def list(self, *, room: str | None, state: ApprovalState | None) -> tuple[Approval, ...]:
        await self.fake.note("approvals", (room, state))
        wanted = None if room is None else self.fake.find(room).room.id
        return tuple(one for one in self.fake.approvals.values() if wanted in {None, one.room_id} and state in {None, one.state})

    async def get(self, ref: str) -> Approval:
        await self.fake.note("approval", ref)
        found = next((one for one in self.fake.approvals.values() if str(one.id).startswith(ref)), None)
        if found is None:
            raise NotFoundError(kind="approval", ref=ref)
        return found

    async def decide(self, ref: str, request: DecisionRequest) -> Approval:
        found = await self.get(ref)
        await self.fake.note("decide", request)
        if found.state is not ApprovalState.PENDING:
            raise ApprovalDecidedError(approval=str(found.id), state=found.state, decided_by="person")
        rule = rule_from(found, request, identifier=IDS.uuid(), agent=UUID(int=8), created_at=AT)
        if rule is not None:
            self.fake.approval_rules[rule.id] = rule
        decided = found.model_copy(
            update={
                "state": ANSWERED[request.decision],
                "decided_by": DecidedBy.PERSON,
                "decision_id": request.id,
                "decided_at": AT,
            }
        )
        self.fake.approvals[found.id] = decided
        self.fake.news.set()
        self.fake.news = anyio.Event()
        return decided

    async def rules(self) -> tuple[ApprovalRule, ...]:
        await self.fake.note("rules")
        return tuple(self.fake.approval_rules.values())

    async def remove_rule(self, ref: str) -> ApprovalRule:
        await self.fake.note("remove_rule", ref)
        found = next((one for one in self.fake.approval_rules.values() if str(one.id).startswith(ref)), None)
        if found is None:
            raise NotFoundError(kind="approval rule", ref=ref)
        return self.fake.approval_rules.pop(found.id)


class FakeRooms(Part):
    async def create(self, request: RoomRequest) -> RoomView:
        await self.fake.note("create", request)
        await self.fake.gate.wait()
        if request.provider != "codex":
            raise UnknownProviderError(provider=request.provider, known=("codex",))
        if request.engine == "weak":
            raise EngineLacksAbilityError(provider="codex", engine="weak", asked="x", missing=("clone",), nearest=(str(CELL),))
        if known := self.fake.rooms.get(request.id):
            if known.request != request:
                raise ConflictError(kind="room", ref=str(request.id), problem="another request has this id")
            return known.view()
        if request.name is not None and request.name in {each.room.name for each in self.fake.rooms.values()}:
            raise ConflictError(kind="room", ref=str(request.id), problem=f"the name {request.name} is taken")
        self.fake.rooms[request.id] = _conversation(request)
        self.fake.calls.append(("created", request.id))
        return self.fake.rooms[request.id].view()

    async def list(self) -> tuple[RoomView, ...]:
        await self.fake.note("rooms")
        return tuple(room.view() for room in reversed(self.fake.rooms.values()))

    async def get(self, ref: str) -> RoomView:
        await self.fake.note("room", ref)
        return self.fake.find(ref).view()

    async def say(self, ref: str, request: TurnRequest) -> Turn:
        await self.fake.note("say", request)
        room = self.fake.find(ref)
        if request.id in room.turns:
            return room.turns[request.id]
        room.turns[request.id] = _turn(room, request)
        room.emit(request.id, UserSaid(text=request.text))
        self.fake.tasks.start_soon(act, self.fake, room, request)
        return room.turns[request.id]

    async def turns(self, ref: str) -> tuple[Turn, ...]:
        await self.fake.note("turns", ref)
        return tuple(self.fake.find(ref).turns.values())

    async def interrupt(self, ref: str) -> RoomView:
        await self.fake.note("interrupt", ref)
        self.fake.find(ref).interrupt.set()
        return self.fake.find(ref).view()

    async def stop(self, ref: str) -> StopResult:
        await self.fake.note("stop", ref)
        room = self.fake.find(ref)
        outcome = "parked" if room.live else "already-parked"
        room.live = False
        return StopResult(
            room=room.view(), checkpoint=checkpoint(room), outcome="parked" if outcome == "parked" else "already-parked"
        )

    async def resume(self, ref: str) -> RoomView:
        await self.fake.note("resume", ref)
        room = self.fake.find(ref)
        if room.room.name == "lost":
            raise ContinuityRefusedError(session=str(room.session.id), failure="corrupt", detail="digest differs")
        if not room.live:
            room.live = True
            room.emit(None, SessionNotice(code="session.live", detail="jam-x"))
        return room.view()

    async def inspect(self, ref: str) -> SessionInspection:
        await self.fake.note("inspect", ref)
        room = self.fake.find(ref)
        evidence = ActivationEvidence(
            provider_identity="thread-1",
            checkpoint_id=UUID(int=5),
            generation_state="verified",
            session_captured=True,
            captured_identity="thread-1",
            version_compatible=True,
            captured_version="0.163.0",
            current_version="0.163.0",
        )
        observation = Observation(
            id=UUID(int=6),
            session_id=room.session.id,
            checkpoint_id=UUID(int=5),
            outcome=ObservationOutcome.SUCCEEDED,
            source=ResumeSource.GENERATION,
            expected_identity="thread-1",
            reported_identity="thread-1",
            detail="",
            observed_at=AT,
        )
        return SessionInspection(
            room=room.view(),
            decision=ActivationDecision(outcome=Activation.EXACT_RESUME, failure=None, evidence=evidence),
            checkpoints=(checkpoint(room),),
            observations=(observation,),
            turns=tuple(room.turns.values()),
        )

    def events(self, ref: str, *, after: int, follow: bool) -> AbstractAsyncContextManager[AsyncIterator[RoomEvent]]:
        return self._events(ref, after, follow)

    @asynccontextmanager
    async def _events(self, ref: str, after: int, follow: bool) -> AsyncIterator[AsyncIterator[RoomEvent]]:
        await self.fake.note("events", (ref, after, follow))
        room = self.fake.find(ref)
        self.fake.readers += 1
        try:
            yield _follow(room, after, follow)
        finally:
            self.fake.readers -= 1


class FakeHosts(Part):
    async def inspect_override(self, ref: str) -> OverrideView:
        await self.fake.note("inspect_override", ref)
        found = self.fake.find(ref)
        evidence = OverrideEvidence(
            sandbox=found.host.sandbox, presence="stopped", marker_digest="a" * 64, nonce="missing", engine_proof="not-kept"
        )
        return OverrideView(
            host_id=found.host.id,
            engine=found.host.engine,
            rooms=(found.room.name,),
            evidence=evidence,
            digest=evidence.content_digest(),
            needed=not found.live,
        )

    async def override(self, ref: str, request: OverrideRequest) -> OverrideResult:
        await self.fake.note("override", (ref, request))
        found = self.fake.find(ref)
        return OverrideResult(id=request.id, host_id=found.host.id, sandbox=found.host.sandbox, confirmed=request.confirmed)


class FakeRuns(Part):
    async def start(self, request: RunRequest) -> RunView:
        await self.fake.note("run", request)
        if request.id not in self.fake.runs:
            await FakeRooms(self.fake).create(request.room)
            await FakeRooms(self.fake).say(str(request.id), TurnRequest(id=request.turn_id, text=request.objective))
            self.fake.runs[request.id] = request
            self.fake.tasks.start_soon(self._finish, request)
        return await self.get(str(request.id))

    async def get(self, ref: str) -> RunView:
        await self.fake.note("run_get", ref)
        room = self.fake.find(ref)
        request = self.fake.runs[room.room.id]
        turn = room.turns[request.turn_id]
        return RunView(room=room.view(), turn=turn, change=self.fake.changes.get(request.change_id))

    async def _finish(self, request: RunRequest) -> None:
        room = self.fake.find(str(request.id))
        while room.turns[request.turn_id].state in {TurnState.ACCEPTED, TurnState.RUNNING, TurnState.COMPLETED}:
            await room.changed.wait()
        if request.objective == "fail":
            room.emit(request.turn_id, SessionNotice(code="run.no-change-request", detail="nothing to build from"))
            return
        self.fake.change_of(room, request.change_id, request.objective)
        room.emit(request.turn_id, SessionNotice(code="run.change-request", detail=str(request.change_id)))


class FakeChanges(Part):
    async def build(self, ref: str, identifier: UUID) -> ChangeRequest:
        await self.fake.note("build", (ref, identifier))
        return self.fake.change_of(self.fake.find(ref), identifier, "")

    async def list(self) -> tuple[ChangeRequest, ...]:
        await self.fake.note("changes")
        return tuple(reversed(self.fake.changes.values()))

    async def show(self, ref: str) -> ChangeView:
        await self.fake.note("show", ref)
        for identifier, change in self.fake.changes.items():
            if str(identifier).startswith(ref):
                return ChangeView(change=change, directory="/x", patch="--- a\n+++ b\n+\x1b[2Jnew\n", patch_truncated=False)
        raise NotFoundError(kind="change request", ref=ref)


class FakeInventory(Part):
    async def reconcile(self) -> Reconciliation:
        await self.fake.note("reconcile")
        rows = (
            ReconciledSandbox(
                sandbox="jam-1",
                engine="bubblewrap",
                host_id=None,
                disposition=Disposition.ORPHAN_OWNER_MARKER,
                presence="absent",
                detail="no\x1b[2J host",
            ),
        )
        return Reconciliation(at=AT, sandboxes=rows, foreign=2, unanswered=("docker",))


class FakeReviews(Part):
    async def decisions(self) -> tuple[ChangeDecision, ...]:
        await self.fake.note("decisions")
        return tuple(self.fake.decisions.values())

    async def accept(self, ref: str, request: AcceptRequest) -> ChangeDecision:
        await self.fake.note("accept", (ref, request))
        return self.decide(
            ref, request.id, Verdict.ACCEPTED, request.patch_sha256, branch=request.branch or "jam/x", commit="c" * 40
        )

    async def reject(self, ref: str, request: RejectRequest) -> ChangeDecision:
        await self.fake.note("reject", (ref, request))
        return self.decide(ref, request.id, Verdict.REJECTED, request.patch_sha256, reason=request.reason, turn_id=request.turn_id)

    def decide(self, ref: str, identifier: UUID, verdict: Verdict, digest: str, **more: Any) -> ChangeDecision:
        change = next((each for each in self.fake.changes if str(each).startswith(ref)), None)
        if change is None:
            raise NotFoundError(kind="change request", ref=ref)
        decision = ChangeDecision(id=identifier, change_id=change, verdict=verdict, patch_sha256=digest, decided_at=AT, **more)
        return self.fake.decisions.setdefault(change, decision)


async def act(fake: FakeServices, room: Conversation, request: TurnRequest) -> None:
    """Act out one turn."""
    turn = request.id
    while any(each.state is TurnState.RUNNING for each in room.turns.values() if each.text == "late"):
        await room.changed.wait()
    room.interrupt = anyio.Event()
    room.move(turn, TurnState.RUNNING)
    room.emit(turn, TurnStarted(provider_turn="t1"))
    text = EVIL if request.text == "evil" else f"echo: {request.text}"
    half = len(text) // 2
    for piece in (text[:half], text[half:]) if request.text not in {"quiet", "late"} else ():
        room.emit(turn, TextDelta(item="m1", text=piece))
    if request.text in {"doubt", "parked"}:
        _lose(room, turn, said=request.text == "doubt")
        return
    if request.text == "killed":
        room.emit(turn, CommandFinished(item="c1", command="sleep", output="", exit_code=-1))
    if request.text == "ask":
        await FakeApprovals(fake).ask(room, turn)
    if request.text == "stubborn":
        await anyio.sleep_forever()
    if request.text in {"wait", "quiet", "late"}:
        await room.interrupt.wait()
        if request.text == "late":
            room.emit(turn, Message(item="m0", text=text))
        room.emit(turn, TurnEnded(outcome=TurnOutcome.INTERRUPTED))
        room.move(turn, TurnState.INTERRUPTED)
        return
    if request.text == "fail":
        room.emit(turn, TurnEnded(outcome=TurnOutcome.FAILED, code="usage_limit", detail="limit reached"))
        room.move(turn, TurnState.FAILED, "limit reached")
        return
    room.emit(turn, CommandStarted(item="c1", command="ls -l", cwd="/jam/work"))
    room.emit(turn, CommandFinished(item="c1", command="ls -l", output="\n".join(f"line {n}" for n in range(40)), exit_code=1))
    room.emit(turn, FileChanged(item="f1", path="src/app.py", change="update", diff="-a\n+b"))
    room.emit(turn, Message(item="m1", text=text))
    room.emit(turn, TurnEnded(outcome=TurnOutcome.COMPLETED))
    room.move(turn, TurnState.COMPLETED)
    room.move(turn, TurnState.CAPTURED)


def _lose(room: Conversation, turn: UUID, *, said: bool) -> None:
    if said:
        room.emit(turn, TurnStateChanged(state="in-doubt", detail="provider.gone: exit status 137"))
    room.live = False
    room.emit(None, SessionNotice(code="provider.gone", detail="exit status 137"))
    room.emit(None, SessionNotice(code="session.parked", detail="the provider ended: exit status 137"))


async def _follow(room: Conversation, after: int, follow: bool) -> AsyncIterator[RoomEvent]:
    seen = after
    while True:
        changed = room.changed
        for event in room.events[seen:]:
            seen = event.seq
            yield event
        if not follow:
            return
        if seen >= len(room.events):
            await changed.wait()


def checkpoint(room: Conversation) -> Checkpoint:
    """Return some checkpoint of the room."""
    return Checkpoint(
        id=UUID(int=5),
        host_id=room.host.id,
        agent_id=room.host.agent_id,
        provider="codex",
        provider_version="0.163.0",
        reason=CheckpointReason.BEFORE_STOP,
        root_digest="c" * 64,
        sessions=(CheckpointSession(session_id=room.session.id, provider_identity="thread-1", last_turn_id=None),),
        files=3,
        bytes_total=4096,
        bytes_written=1024,
        generation=2,
        created_at=AT,
    )


def _turn(room: Conversation, request: TurnRequest) -> Turn:
    return Turn(
        id=request.id,
        room_id=room.room.id,
        session_id=room.session.id,
        text=request.text,
        state=TurnState.ACCEPTED,
        provider_turn=None,
        detail="",
        checkpoint_id=None,
        workspace_digest=None,
        process_epoch=1,
        accepted_at=AT,
        ended_at=None,
    )


def _conversation(request: RoomRequest) -> Conversation:
    agent, host, session = IDS.uuid(), IDS.uuid(), IDS.uuid()
    cell = Cell(configuration=request.configuration, workspace=request.workspace, placement=request.placement)
    return Conversation(
        request=request,
        room=Room(id=request.id, name=request.name or f"room-{str(request.id)[-4:]}", agent_id=agent, created_at=AT),
        session=RuntimeSession(
            id=session,
            host_id=host,
            agent_id=agent,
            state=SessionState.LIVE,
            provider_identity="thread-1",
            model=request.model,
            approvals=request.approvals,
            created_at=AT,
        ),
        host=RuntimeHost(
            id=host,
            agent_id=agent,
            provider=request.provider,
            engine=request.engine or "bubblewrap",
            cell=cell,
            sandbox="jam-x",
            plan_json=request.resources.canonical_json().decode(),  # all of a plan that its tests look at
            state=HostState.ACTIVE,
            daemon_id=UUID(int=7),
            fence_epoch=1,
            created_at=AT,
        ),
        workspace=SessionWorkspace(
            id=IDS.uuid(),
            session_id=session,
            host_id=host,
            source=request.workspace,
            path=request.path,
            commit=None,
            guest_path="/jam/work/x",
            state=WorkspaceState.READY,
            created_at=AT,
        ),
    )


@asynccontextmanager
async def running(directory: Path, runtime: Path | None) -> AsyncIterator[tuple[FakeServices, Path]]:
    """Serve the fake in this process; yields it and its socket."""
    async with anyio.create_task_group() as tasks:
        fake = FakeServices(tasks, directory)
        async with serving(fake.services(), app_directory=directory, files=Files(), runtime=runtime, limits=LIMITS) as path:
            yield fake, path
        tasks.cancel_scope.cancel()


async def _main(directory: Path) -> int:
    if (directory / "refuse.txt").exists():
        print((directory / "refuse.txt").read_text(), file=sys.stderr)
        return 3
    with owning(directory / "lock", pid=os.getpid(), started_at=AT), anyio.open_signal_receiver(signal.SIGTERM) as signals:
        if (directory / "mute").exists():
            await anext(signals)
            return 0
        async with running(directory, directory / "run") as (fake, _), anyio.create_task_group() as tasks:
            tasks.start_soon(_stop_on, signals, fake.stopping)
            await fake.stopping.wait()
            tasks.cancel_scope.cancel()
        if (directory / "slow-end").exists():
            await anyio.sleep(0.5)
    return 0


async def _stop_on(signals: AsyncIterator[signal.Signals], stopping: anyio.Event) -> None:
    async for _ in signals:
        stopping.set()


def main() -> None:
    """Be a daemon; one that cannot start says why like the real one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--app-directory", type=Path, required=True)
    try:
        sys.exit(anyio.run(_main, parser.parse_args().app_directory))
    except JamError as error:
        sys.exit(f"jamd: {error}")


if __name__ == "__main__":
    main()
