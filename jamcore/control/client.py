"""The typed client: one method per operation, the records of the domain in and out, and the daemon's own typed errors."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from functools import partial
from types import MappingProxyType
from typing import TypeVar
from uuid import UUID

import anyio
from pydantic import ValidationError

from jamcore.control.approvals import quoted
from jamcore.control.failures import (
    ConnectionDroppedError,
    DaemonOtherVersionError,
    DaemonStoppedError,
    NoAnswerError,
    RemoteFaultError,
    RemoteRefusalError,
    StreamCutError,
)
from jamcore.control.parts import ClientParts
from jamcore.control.reach import Reach
from jamcore.control.repeating import until_answered
from jamcore.control.schemas import (
    Accepted,
    CellList,
    ChangeList,
    CheckpointList,
    CredentialList,
    EngineList,
    ErrorBody,
    ProviderList,
    RoomList,
    StreamEnd,
    TurnList,
)
from jamcore.control.sse import ServerEvent, read_events
from jamcore.control.versions import API_HEADER, API_VERSION, jam_version
from jamcore.control.wire import Answer, Request, exchange
from jamcore.domain.changes import ChangeDecision, ChangeRequest
from jamcore.domain.continuity import Checkpoint
from jamcore.domain.errors import InvalidInputError, JamError
from jamcore.domain.events import RoomEvent
from jamcore.domain.operation_views import OperationLine
from jamcore.domain.ownership import Reconciliation
from jamcore.domain.records import Record
from jamcore.domain.requests import (
    AcceptRequest,
    CellRow,
    ChangeBuildRequest,
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
    SecretValue,
    SessionInspection,
    StopResult,
    TurnRequest,
)
from jamcore.domain.resets import ContinuityView, StartFreshRequest, StartFreshResult
from jamcore.domain.sessions import Turn

R = TypeVar("R", bound=Record)
E = TypeVar("E", RoomEvent, OperationLine)

QUESTION_S = 60.0
"""A question is answered within this; the slowest, the doctor's, makes several engine calls of 12 s. A change has no deadline (CTRL-4)."""
SILENCE_S = 60.0
"""A stream on which nothing comes for so long, though the daemon sends a heartbeat each 15 s, comes from one that is stuck."""
RECONNECTS = 3
"""A stream is taken up again at most this often without a new event; with one, the count begins anew."""
RECONNECT_PAUSE_S = 0.2
REFUSALS = range(400, 500)
_ERROR_FRAMES = MappingProxyType({"refusal": 422, "fault": 500})


class JamClient(ClientParts):
    """Speaks with the daemon that ``reach`` finds. Holds no connection between calls, so it needs no closing."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        super().__init__(self._ask, self._change, self._follow)

    # ---------------------------------------------------------------------------------------------------- the daemon itself

    async def health(self) -> Health:
        """Ask who answers."""
        return await self._ask(Health, "/v1/health")

    async def doctor(self) -> DoctorReport:
        """Ask what this machine can do."""
        return await self._ask(DoctorReport, "/v1/doctor")

    async def engines(self) -> tuple[EngineView, ...]:
        """List engines, strongest first, and which one a room that names none gets."""
        return (await self._ask(EngineList, "/v1/engines")).items

    async def shutdown(self, *, if_idle: bool = False) -> None:
        """Begin an orderly shutdown; returns when it has begun. With ``if_idle`` a daemon that works refuses (``daemon.busy``)."""
        await self._once(Accepted, Request("POST", "/v1/shutdown" + ("?if_idle=1" if if_idle else ""), _headers()))

    # --------------------------------------------------------------------------------------------- providers and credentials

    async def providers(self) -> tuple[ProviderView, ...]:
        """List provider plugins."""
        return (await self._ask(ProviderList, "/v1/providers")).items

    async def cells(self) -> tuple[CellRow, ...]:
        """Return the capability table (CAP-5)."""
        return (await self._ask(CellList, "/v1/providers/cells")).items

    async def install(self, provider: str) -> InstalledToolchain:
        """Install a provider's pinned program. Idempotent."""
        return await self._change(InstalledToolchain, "POST", f"/v1/providers/{quoted(provider)}/install")

    async def install_progress(self, provider: str) -> InstallProgress:
        """Ask how far an installation is."""
        return await self._ask(InstallProgress, f"/v1/providers/{quoted(provider)}/install")

    async def credentials(self) -> tuple[CredentialRow, ...]:
        """List credentials by name."""
        return (await self._ask(CredentialList, "/v1/credentials")).items

    async def set_credential(self, name: str, value: str) -> CredentialRow:
        """Keep a credential in the daemon."""
        return await self._change(CredentialRow, "PUT", f"/v1/credentials/{quoted(name)}", SecretValue(value=value))

    async def forget_credential(self, name: str) -> None:
        """Forget a credential."""
        await self._change(Accepted, "DELETE", f"/v1/credentials/{quoted(name)}")

    # ----------------------------------------------------------------------------------------------------------------- rooms

    async def create_room(self, request: RoomRequest) -> RoomView:
        """Make a room. The id makes a retry exact."""
        return await self._change(RoomView, "POST", "/v1/rooms", request)

    async def rooms(self) -> tuple[RoomView, ...]:
        """List rooms, newest first."""
        return (await self._ask(RoomList, "/v1/rooms")).items

    async def room(self, ref: str) -> RoomView:
        """Return one room."""
        return await self._ask(RoomView, _room(ref))

    async def say(self, ref: str, request: TurnRequest) -> Turn:
        """Hand in a turn; it runs whatever becomes of this process."""
        return await self._change(Turn, "POST", _room(ref, "turns"), request)

    async def turns(self, ref: str) -> tuple[Turn, ...]:
        """List turns, oldest first."""
        return (await self._ask(TurnList, _room(ref, "turns"))).items

    async def interrupt(self, ref: str) -> RoomView:
        """Interrupt the running turn."""
        return await self._change(RoomView, "POST", _room(ref, "interrupt"))

    async def stop(self, ref: str, *, accept_unsaved: bool = False) -> StopResult:
        """Checkpoint and park. A final checkpoint that failed is made again, or, with ``accept_unsaved``, given up."""
        return await self._change(StopResult, "POST", _room(ref, "stop") + ("?accept_unsaved=1" if accept_unsaved else ""))

    async def resume(self, ref: str) -> RoomView:
        """Bring the exact session back, or be refused."""
        return await self._change(RoomView, "POST", _room(ref, "resume"))

    async def inspect(self, ref: str) -> SessionInspection:
        """Return the evidence about continuity."""
        return await self._ask(SessionInspection, _room(ref, "inspect"))

    def events(self, ref: str, *, after: int = 0, follow: bool = True) -> AsyncGenerator[RoomEvent, None]:
        """Yield the room's events after a number, in order and each once; with ``follow`` until the caller stops.

        A stream that is cut (the daemon died, or this reader was too slow) is taken up again after the last event, which starts the
        daemon if the client may. Close the iterator (``contextlib.aclosing``) to stop.

        Raises:
            DaemonStoppedError: It was stopped on purpose, so it is not started again for this stream.
            StreamCutError: It was cut again and again without a new event.
            NoAnswerError: The daemon is there and stuck.
        """
        return self._follow(RoomEvent, _room(ref, "events"), after=after, follow=follow)

    async def _follow(self, kind: type[E], target: str, *, after: int, follow: bool) -> AsyncGenerator[E, None]:
        failures = 0
        while True:
            try:
                async with aclosing(self._stream(kind, target, after, follow=follow)) as events:
                    async for event in events:
                        after, failures = event.seq, 0
                        yield event
            except ConnectionDroppedError:
                failures += 1
            else:
                return
            if failures > RECONNECTS:
                raise StreamCutError(last_seq=after)
            await anyio.sleep(RECONNECT_PAUSE_S)

    # ----------------------------------------------------------------------------------------------------------------- hosts

    async def checkpoints(self, ref: str) -> tuple[Checkpoint, ...]:
        """List the generations of a room's host, newest first."""
        return (await self._ask(CheckpointList, _room(ref, "checkpoints"))).items

    async def checkpoint(self, ref: str) -> CheckpointView:
        """Return one generation with what it holds."""
        return await self._ask(CheckpointView, f"/v1/checkpoints/{quoted(ref)}")

    async def verify_checkpoint(self, ref: str) -> CheckpointVerdict:
        """Read one generation whole and say whether it is sound."""
        return await self._ask(CheckpointVerdict, f"/v1/checkpoints/{quoted(ref)}/verify")

    async def diff_checkpoints(self, older: str, newer: str) -> CheckpointDiff:
        """Return what lies between two generations of one host."""
        return await self._ask(CheckpointDiff, f"/v1/checkpoints/{quoted(older)}/diff/{quoted(newer)}")

    async def reconcile(self) -> Reconciliation:
        """Look at all sandboxes and markers now."""
        return await self._ask(Reconciliation, "/v1/hosts")

    async def inspect_override(self, ref: str) -> OverrideView:
        """Return the evidence about a host whose sandbox may have lost its proof."""
        return await self._ask(OverrideView, f"/v1/hosts/{quoted(ref)}/override")

    async def override(self, ref: str, request: OverrideRequest) -> OverrideResult:
        """Remove that sandbox; the request confirms the evidence by its digest."""
        return await self._change(OverrideResult, "POST", f"/v1/hosts/{quoted(ref)}/override", request, operation=request.id)

    async def inspect_continuity(self, ref: str) -> ContinuityView:
        """Return the evidence about a room's host: can its conversations be brought back?"""
        return await self._ask(ContinuityView, _room(ref, "continuity"))

    async def start_fresh(self, ref: str, request: StartFreshRequest) -> StartFreshResult:
        """Begin new conversations where the old ones cannot be brought back; the request confirms the evidence by its checksum."""
        return await self._change(StartFreshResult, "POST", _room(ref, "continuity"), request, operation=request.id)

    # -------------------------------------------------------------------------------------------------- runs and change requests

    async def start_run(self, request: RunRequest) -> RunView:
        """Begin a run and return."""
        return await self._change(RunView, "POST", "/v1/runs", request)

    async def run(self, ref: str) -> RunView:
        """Return a run."""
        return await self._ask(RunView, f"/v1/runs/{quoted(ref)}")

    async def build_change(self, ref: str, identifier: UUID) -> ChangeRequest:
        """Build a change request from the work tree as it is now."""
        return await self._change(
            ChangeRequest, "POST", _room(ref, "changes"), ChangeBuildRequest(id=identifier), operation=identifier
        )

    async def changes(self) -> tuple[ChangeRequest, ...]:
        """List change requests, newest first."""
        return (await self.judged_changes()).items

    async def judged_changes(self) -> ChangeList:
        """List change requests, newest first, with what became of them."""
        return await self._ask(ChangeList, "/v1/changes")

    async def change(self, ref: str) -> ChangeView:
        """Return one change request with its patch."""
        return await self._ask(ChangeView, f"/v1/changes/{quoted(ref)}")

    async def accept_change(self, ref: str, request: AcceptRequest) -> ChangeDecision:
        """Put the reviewed bytes on a branch."""
        return await self._change(ChangeDecision, "POST", f"/v1/changes/{quoted(ref)}/accept", request, operation=request.id)

    async def reject_change(self, ref: str, request: RejectRequest) -> ChangeDecision:
        """Refuse a change request, and tell the agent why if the request says so."""
        return await self._change(ChangeDecision, "POST", f"/v1/changes/{quoted(ref)}/reject", request)

    # -------------------------------------------------------------------------------------------------------------- the exchange

    async def _ask(self, kind: type[R], target: str) -> R:
        request = Request("GET", target, _headers())
        with self._bounded(request, QUESTION_S):
            return await until_answered(partial(self._once, kind, request), operation=None)

    async def _change(
        self, kind: type[R], method: str, target: str, body: Record | None = None, *, operation: UUID | None = None
    ) -> R:
        request = Request(method, target, _headers(), _encoded(body))
        return await until_answered(partial(self._once, kind, request), operation=operation)

    async def _once(self, kind: type[R], request: Request) -> R:
        async with self._answer(request) as answer:
            text = await answer.read()
        try:
            return kind.model_validate_json(text)
        except ValidationError as error:
            raise DaemonOtherVersionError(
                daemon=f"its answer to {request.line} is of another form", client=jam_version()
            ) from error

    @asynccontextmanager
    async def _answer(self, request: Request) -> AsyncIterator[Answer]:
        stream = await self._reach.open()
        async with exchange(stream, request) as answer:
            if answer.status >= REFUSALS.start:
                raise _remote(answer.status, await answer.read())
            yield answer

    async def _stream(self, kind: type[E], target: str, after: int, *, follow: bool) -> AsyncGenerator[E, None]:
        """Yield the events of one connection; ConnectionDroppedError when it ends without its end mark."""
        request = Request("GET", f"{target}?after={after}&follow={int(follow)}", _headers())
        async with AsyncExitStack() as stack:
            with self._bounded(request, QUESTION_S):
                answer = await stack.enter_async_context(self._answer(request))
            chunks = await stack.enter_async_context(aclosing(self._heard(request, answer)))
            frames = await stack.enter_async_context(aclosing(read_events(chunks)))
            async for frame in frames:
                if frame.kind == "end":
                    if StreamEnd.model_validate_json(frame.data).reason == "shutdown":
                        raise DaemonStoppedError(last_seq=after)
                    return
                event = _event(kind, frame)
                after = event.seq
                yield event
        raise ConnectionDroppedError(request=request.line, reason="no end mark")

    async def _heard(self, request: Request, answer: Answer) -> AsyncGenerator[bytes, None]:
        """Yield what arrives of a stream, heartbeats too, while something does."""
        async with aclosing(answer.chunks()) as chunks:
            while True:
                with self._bounded(request, SILENCE_S):
                    chunk = await anext(chunks, None)
                if chunk is None:
                    return
                yield chunk

    @contextmanager
    def _bounded(self, request: Request, limit_s: float) -> Iterator[None]:
        """Give a question to the daemon its time.

        Raises:
            NoAnswerError: It ran out.
        """
        with anyio.move_on_after(limit_s) as scope:
            yield
        if scope.cancelled_caught:
            raise NoAnswerError(request=request.line, waited_s=limit_s, pid=self._reach.pid())


def _event(kind: type[E], frame: ServerEvent) -> E:
    try:
        if frame.kind in _ERROR_FRAMES:
            raise _remote(_ERROR_FRAMES[frame.kind], frame.data.encode())
        return kind.model_validate_json(frame.data)
    except ValidationError as error:
        raise DaemonOtherVersionError(daemon="it sends events of another form", client=jam_version()) from error


def _remote(status: int, text: bytes) -> JamError:
    """Rebuild the daemon's typed error."""
    try:
        body = ErrorBody.model_validate_json(text)
    except ValidationError:
        body = ErrorBody(
            code="fault.in_daemon", message="The daemon answered without a typed error", context={"status": str(status)}, hint=""
        )
    return RemoteRefusalError(answer=body) if status in REFUSALS else RemoteFaultError(answer=body)


def _headers() -> dict[str, str]:
    return {API_HEADER: str(API_VERSION), "Content-Type": "application/json"}


def _encoded(body: Record | None) -> bytes:
    try:
        return b"" if body is None else body.model_dump_json().encode()
    except ValueError as error:
        raise InvalidInputError(field="body", problem="holds characters that are no valid Unicode") from error


def _room(ref: str, part: str = "") -> str:
    return f"/v1/rooms/{quoted(ref)}" + (f"/{part}" if part else "")
