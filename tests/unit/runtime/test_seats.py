"""Seats on a live host: taken and given back one by one; with the last one the host is parked (SHARE-2, PREP-5)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import anyio
import pytest

from jamcore.continuity.coordinator import HostBusyError, HostCoordinator
from jamcore.domain.approvals import ApprovalPolicy
from jamcore.domain.continuity import Checkpoint, CheckpointReason, ResumeFailedError
from jamcore.domain.limits import Limits
from jamcore.domain.providers import ProviderRefusedError, ProviderTimeoutError
from jamcore.domain.sandboxes import EngineFailedError
from jamcore.domain.sessions import Turn, TurnState
from jamcore.domain.shared_hosts import SharedHostFullError
from jamcore.runtime.gate import StopGate
from jamcore.runtime.leases import LeaseKey, Leases
from jamcore.runtime.pool import WorkerPool, worker_pool
from jamcore.runtime.roster import LEFT, HostWentDownError
from jamcore.runtime.safekeeping import Safekeeping
from jamcore.runtime.seat import Seat
from jamcore.runtime.worker import HostWorker
from jamcore.sandbox.teardown import NotParked, Sleep, park

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

HANG_S = 20.0
"""Nothing here takes a second; what hangs fails by this."""
HOST = UUID(int=100)
A, B, C = UUID(int=1), UUID(int=2), UUID(int=3)
KEY = LeaseKey(UUID(int=7), HOST, "jam-x")
NAMES = {A: "A", B: "B", C: "C"}
BUSY = EngineFailedError(engine="scripted", operation="stop", detail="busy")
NO_THREAD = ProviderRefusedError(provider="scripted", request="resume", detail="no such thread")


async def nothing(*_: object, **__: object) -> None:
    """Do nothing."""


@dataclass
class Program:
    """A provider's process: it lives until it is ended."""

    end: anyio.Event = field(default_factory=anyio.Event)

    async def closed(self) -> str:
        """See :class:`ProviderRuntime`."""
        await self.end.wait()
        return "it ended"

    interrupted: anyio.Event = field(default_factory=anyio.Event)

    async def interrupt(self, _identity: str) -> None:
        """See :class:`ProviderRuntime`."""
        self.interrupted.set()

    async def open_thread(self, _request: object) -> object:
        """See :class:`ProviderRuntime`."""
        return SimpleNamespace(identity="thread-1")

    loaded: set[str] = field(default_factory=set)
    releasing: Callable[[], Awaitable[None]] = nothing

    async def resume_thread(self, identity: str, _request: object) -> object:
        """See :class:`ProviderRuntime`."""
        if identity in self.loaded:
            raise ProviderRefusedError(provider="scripted", request="resume", detail="it is loaded already")
        self.loaded.add(identity)
        return SimpleNamespace(identity=identity, turns=())

    async def release_thread(self, identity: str) -> None:
        """See :class:`ReleasesThreads`."""
        await self.releasing()
        self.loaded.discard(identity)


@dataclass
class Host:
    """One host whose parts are scripted. ``said`` is what was done, in order."""

    said: list[str] = field(default_factory=list)
    admitting: dict[UUID, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    stopping: list[BaseException] = field(default_factory=list)
    saving: Callable[[], Awaitable[None]] = nothing
    making: Callable[[], Awaitable[None]] = nothing
    own: frozenset[UUID] = frozenset()
    bound: dict[UUID, str] = field(default_factory=dict)
    proving: Callable[[], Awaitable[None]] = nothing
    coordinator: HostCoordinator = field(default_factory=lambda: HostCoordinator(HOST))
    full: bool = False
    programs: list[Program] = field(default_factory=list)
    leases: Leases = field(default_factory=Leases)
    working: anyio.Event = field(default_factory=anyio.Event)
    limits: Limits = field(default_factory=lambda: Limits(finalise_s=3.0))
    worker: HostWorker | None = None
    continuity: Any = None
    standing: Any = None

    # ------------------------------------------------------------------------------------------------- as BringUp

    async def start(self, _stack: AsyncExitStack, first: Seat, proven: Callable[[], None]) -> object:
        """See :meth:`BringUp.start`."""
        self.said.append(f"up for {NAMES[first.session.id]}")
        proven()
        return object()

    async def admit(self, seat: Seat) -> None:
        """See :meth:`BringUp.admit`."""
        await self.admitting.get(seat.session.id, nothing)()

    async def open_runtime(self, _prepared: object) -> AbstractAsyncContextManager[object]:
        """See :meth:`BringUp.open_runtime`."""
        return self._program()

    @asynccontextmanager
    async def _program(self) -> AsyncIterator[Program]:
        program = Program()
        self.programs.append(program)
        yield program
        program.end.set()

    async def observe(self, _seat: Seat, **_: object) -> None:
        """See :meth:`HostContinuity.observe`."""
        await self.proving()

    def resuming(self, session: UUID, *, said_as: str) -> AbstractAsyncContextManager[None]:
        """See :meth:`TurnRunner.resuming`."""
        return self.coordinator.turn_permit(session, said_as=said_as)

    async def between(self, *_: object) -> str:
        """See :meth:`BringUp.between`."""
        return ""

    async def files_of(self, _seat: Seat) -> None:
        """See :meth:`BringUp.files_of`."""

    async def park(self, told: NotParked, pause: Sleep = anyio.sleep) -> None:
        """See :meth:`BringUp.park`."""
        await park(cast("Any", self), "jam-x", told=told, sleep=pause)

    async def stop(self, _sandbox: str) -> None:
        """See :meth:`Engine.stop`."""
        await anyio.lowlevel.checkpoint()
        if self.stopping:
            self.said.append("not stopped")
            raise self.stopping.pop(0)
        self.said.append("stopped")

    # ----------------------------------------------------------------------------- as continuity, standing and runner

    async def capture(self, reason: CheckpointReason, _identities: Mapping[UUID, str], **_: object) -> Checkpoint:
        """See :meth:`HostContinuity.capture`."""
        await self.saving()
        self.said.append(reason.value)
        return cast("Checkpoint", object())

    async def settle(self, what: object, *how: object) -> bool:
        """See :meth:`HostContinuity.settle` and :meth:`TurnRunner.settle`."""
        await anyio.lowlevel.checkpoint()
        if how and isinstance(how[0], TurnState):
            self.said.append(f"{cast('Turn', what).text} {how[0].value}")
        return False

    async def live(self, seats: tuple[Seat, ...]) -> None:
        """See :meth:`HostStanding.live`."""
        await anyio.lowlevel.checkpoint()
        self.said.extend(f"live {NAMES[seat.session.id]}" for seat in seats)

    async def down(self, seats: tuple[Seat, ...], why: str, *, parked: bool) -> None:
        """See :meth:`HostStanding.down`."""
        await anyio.lowlevel.checkpoint()
        self.said.extend(f"down {NAMES[seat.session.id]}: {why}" for seat in seats)
        if parked:
            self.said.append("host parked")

    async def run(self, turn: Turn, runtime: Program, _identity: str, *, started: Callable[[], None], **_: object) -> TurnState:
        """See :meth:`TurnRunner.run`: a turn that goes on until it is interrupted."""
        started()
        self.said.append(f"{turn.text} begun")
        self.working.set()
        await runtime.interrupted.wait()
        return TurnState.INTERRUPTED

    # --------------------------------------------------------------------------------------------------- as the factory

    async def make(self, _host: UUID) -> HostWorker:
        """See :class:`WorkerFactory`."""
        await self.making()
        row = SimpleNamespace(id=HOST, agent_id=KEY.agent, sandbox=KEY.sandbox)
        self.continuity = SimpleNamespace(
            host=row,
            settle=self.settle,
            capture=self.capture,
            melt=lambda: None,
            note_files=nothing,
            observe=self.observe,
            compare_files=nothing,
            needs_new_generation=lambda _seat: False,
        )
        self.standing = SimpleNamespace(live=self.live, down=self.down, say=nothing, unsaved=nothing)
        self.worker = HostWorker(bring_up=cast("Any", self), leases=self.leases, runner=cast("Any", self), limits=self.limits)
        return self.worker

    async def seat(self, _host: UUID, session: UUID, *, live: int) -> Seat:
        """See :class:`WorkerFactory`."""
        await anyio.lowlevel.checkpoint()
        if self.full and live:
            raise SharedHostFullError(host="jam-x", seats=live, reason="full")
        record = SimpleNamespace(id=session, provider_identity=self.bound.get(session), model=None, approvals=ApprovalPolicy.NEVER)
        workspace = SimpleNamespace(guest_path=f"/jam/work/{session}")
        return Seat(session=cast("Any", record), workspace=cast("Any", workspace), room_id=session, own_process=session in self.own)

    def pool(self) -> AbstractAsyncContextManager[WorkerPool]:
        """Return a pool over this host."""
        return worker_pool(self, leases=self.leases, gate=StopGate(), limits=self.limits)

    @property
    def holders(self) -> frozenset[UUID]:
        """Who holds the host."""
        return self.leases.holders(KEY)


@pytest.fixture
def host() -> Host:
    """A host."""
    return Host()


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second between two attempts to park is short here, and no test hangs."""
    monkeypatch.setattr("jamcore.sandbox.teardown.PARK_RETRY_S", 0.01)


# ------------------------------------------------------------------------------------------------------------- one by one


@pytest.mark.guarantee("SHARE-2")
async def test_a_seat_is_taken_and_given_back_without_touching_the_others(host: Host) -> None:
    """One bring-up, one program; the sandbox stops once, after the last seat was given back."""
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            for session in (A, B, C):
                await pool.start(HOST, session)
            assert pool.sessions() == host.holders == {A, B, C}
            await pool.leave(HOST, A)
            await pool.leave(HOST, B)
            assert pool.sessions() == host.holders == {C}
            assert pool.is_up(HOST)
            assert "stopped" not in host.said
            await pool.leave(HOST, C)
            assert not pool.is_up(HOST)
    assert host.holders == frozenset()
    assert host.said == [
        *("up for A", "live A", "live B", "live C"),
        *(f"down A: {LEFT}", f"down B: {LEFT}"),
        *("stopped", "down C: stopped", "host parked"),
    ]
    assert len(host.programs) == 1


async def test_a_session_takes_one_seat(host: Host) -> None:
    """Asked for many times at once."""
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            async with anyio.create_task_group() as tasks:
                for session in (A, A, B, B, B):
                    tasks.start_soon(pool.start, HOST, session)
            assert sorted(host.said)[:2] == ["live A", "live B"]
            assert len(host.said) == 3


@pytest.mark.guarantee("SHARE-2")
async def test_a_leaving_session_comes_back_to_the_same_host(host: Host) -> None:
    """The host goes on, so nothing is brought up again; a new seat is taken."""
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            await pool.start(HOST, A)
            await pool.start(HOST, B)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(pool.leave, HOST, A)
                await anyio.lowlevel.checkpoint()
                tasks.start_soon(pool.start, HOST, A)
            assert pool.sessions() == {A, B}
            assert host.said.count("up for A") == 1
            assert host.said[-2:] == [f"down A: {LEFT}", "live A"]


@pytest.mark.guarantee("SHARE-2")
@pytest.mark.parametrize("never_there", [B, C])
async def test_leaving_without_a_seat_touches_nobody(host: Host, never_there: UUID) -> None:
    """A room that is parked already is stopped again, or one that never came: its siblings' host goes on."""
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            await pool.start(HOST, A)
            await pool.start(HOST, B)
            await pool.leave(HOST, B)
            assert await pool.leave(HOST, never_there) is None
            assert pool.sessions() == host.holders == {A}
            assert "stopped" not in host.said


@pytest.mark.guarantee("SHARE-2")
@pytest.mark.parametrize("others", [(), (B,)])
async def test_what_waits_on_a_seat_that_is_given_back_does_not_begin(host: Host, others: tuple[UUID, ...]) -> None:
    """The running turn is interrupted and the waiting ones are settled, whether the host goes on or not."""
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            for session in (A, *others):
                await pool.start(HOST, session)
            worker = pool.get(HOST, A)
            assert worker is not None
            for text in ("one", "two", "three"):
                worker.submit(cast("Turn", SimpleNamespace(session_id=A, text=text)))
            await host.working.wait()
            await pool.leave(HOST, A)
            assert [word for word in host.said if word.split()[0] in ("one", "two", "three")] == [
                *("one begun", "two interrupted", "three interrupted")
            ]
            with pytest.raises(anyio.ClosedResourceError):
                worker.submit(cast("Turn", SimpleNamespace(session_id=A, text="four")))


# ------------------------------------------------------------------------------------------------------------------ races


@pytest.mark.guarantee("SHARE-2")
@pytest.mark.parametrize("pauses", range(40))
async def test_a_host_is_never_parked_under_a_new_claim(host: Host, pauses: int) -> None:
    """The last one leaves while another one comes, at every moment of it: whoever is told that it is live has a sandbox that runs."""
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            await pool.start(HOST, A)

            async def come() -> None:
                for _ in range(pauses):
                    await anyio.lowlevel.checkpoint()
                await pool.start(HOST, B)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(come)
                await pool.leave(HOST, A)
            assert pool.sessions() == host.holders == {B}
            since = host.said[host.said.index("live B") :]
            assert "stopped" not in since
            last_up = max(place for place, word in enumerate(host.said) if word.startswith("up for"))
            stops = [place for place, word in enumerate(host.said) if word == "stopped"]
            assert all(place < last_up for place in stops)


@pytest.mark.guarantee("SHARE-2")
@pytest.mark.parametrize("pauses", range(0, 40, 3))
async def test_all_leave_at_once_and_the_host_is_parked_once(host: Host, pauses: int) -> None:
    """Whoever sees that nobody is left parks; exactly one does."""
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            for session in (A, B, C):
                await pool.start(HOST, session)

            async def go(session: UUID, after: int) -> None:
                for _ in range(after):
                    await anyio.lowlevel.checkpoint()
                await pool.leave(HOST, session)

            async with anyio.create_task_group() as tasks:
                for place, session in enumerate((A, B, C)):
                    tasks.start_soon(go, session, place * pauses)
            assert not pool.is_up(HOST)
    assert host.said.count("stopped") == host.said.count("host parked") == 1
    assert host.holders == frozenset()


# --------------------------------------------------------------------------------------------------------------- failures


async def refuse() -> None:
    """Fail as a session that cannot be brought back."""
    raise NO_THREAD


@pytest.mark.guarantee("PREP-5", "SHARE-2")
async def test_a_session_that_cannot_join_gives_back_its_own_claim_alone(host: Host) -> None:
    """It is told why, and is dormant; the other goes on."""
    host.admitting[B] = refuse
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            await pool.start(HOST, A)
            with pytest.raises(ProviderRefusedError):
                await pool.start(HOST, B)
            assert pool.sessions() == host.holders == {A}
            assert host.said[-1].startswith("down B: it did not come back")
            del host.admitting[B]
            await pool.start(HOST, B)
            assert pool.sessions() == {A, B}


@pytest.mark.guarantee("CONT-7", "SHARE-2")
@pytest.mark.parametrize("how", ["not proven", "given up"])
async def test_a_thread_that_came_back_and_is_not_taken_is_let_go_of(host: Host, how: str) -> None:
    """The program that the others share has it no longer, so that it can be resumed again while they go on."""
    host.bound[B] = "thread-B"
    begun = anyio.Event()

    async def prove() -> None:
        begun.set()
        if how == "given up":
            await anyio.sleep_forever()
        raise ResumeFailedError(session="B", expected="thread-B", reported="thread-B")

    host.proving = prove
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            await pool.start(HOST, A)
            async with anyio.create_task_group() as tasks:

                async def join() -> None:
                    with suppress(ResumeFailedError):
                        await pool.start(HOST, B)

                tasks.start_soon(join)
                await begun.wait()
                if how == "given up":
                    assert host.programs[0].loaded == {"thread-B"}
                    tasks.cancel_scope.cancel()
            assert host.programs[0].loaded == set()
            assert pool.sessions() == {A}
            host.proving = nothing
            await pool.start(HOST, B)
            assert pool.sessions() == {A, B}
            assert host.programs[0].loaded == {"thread-B"}


@pytest.mark.guarantee("CONT-2", "CONT-7")
async def test_no_generation_is_made_before_it_is_known_what_came_back(host: Host) -> None:
    """A sibling's would hold what the program has written down until then, and nobody would know that it is not to be kept."""
    host.bound[B] = "thread-B"

    async def capture() -> None:
        async with host.coordinator.exclusive("checkpoint", 0):
            host.said.append("captured")

    async def prove() -> None:
        with pytest.raises(HostBusyError, match="the resume of room"):
            await capture()

    host.proving = prove
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            await pool.start(HOST, A)
            await pool.start(HOST, B)
            await capture()
            assert "captured" in host.said


@pytest.mark.guarantee("PREP-5", "PLUG-1")
async def test_a_plugin_that_fails_to_let_go_of_a_thread_ends_nobody_elses_host(host: Host) -> None:
    """Whatever it raises: who asked is told why the session did not come back, and the others go on."""
    host.bound[B] = "thread-B"

    async def lost() -> None:
        raise ResumeFailedError(session="B", expected="thread-B", reported="thread-B")

    async def fail() -> None:
        raise KeyError("thread-B")

    host.proving = lost
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            await pool.start(HOST, A)
            host.programs[0].releasing = fail
            with pytest.raises(ResumeFailedError):
                await pool.start(HOST, B)
            assert pool.sessions() == host.holders == {A}


@pytest.mark.guarantee("PREP-5", "SHARE-2")
async def test_the_host_is_parked_when_the_others_left_a_join_that_fails(host: Host) -> None:
    """Its claim kept the host up; with it the last one is gone."""
    begun, go_on = anyio.Event(), anyio.Event()

    async def late() -> None:
        begun.set()
        await go_on.wait()
        raise NO_THREAD

    host.admitting[B] = late
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            await pool.start(HOST, A)

            async def join() -> None:
                with pytest.raises(ProviderRefusedError):
                    await pool.start(HOST, B)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(join)
                await begun.wait()
                await pool.leave(HOST, A)
                assert "stopped" not in host.said
                go_on.set()
            await pool.stop(HOST)
            assert "host parked" in host.said
            assert host.holders == frozenset()


@pytest.mark.guarantee("SHARE-2")
async def test_whoever_goes_away_while_joining_leaves_no_claim(host: Host) -> None:
    """A client that disconnects; the host goes on for the other, and the session can join later."""
    begun = anyio.Event()

    async def hang() -> None:
        begun.set()
        await anyio.sleep_forever()

    host.admitting[B] = hang
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            await pool.start(HOST, A)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(pool.start, HOST, B)
                await begun.wait()
                tasks.cancel_scope.cancel()
            assert pool.sessions() == host.holders == {A}
            del host.admitting[B]
            await pool.start(HOST, B)
            assert pool.sessions() == {A, B}


async def test_a_host_that_goes_down_under_a_join_says_so(host: Host) -> None:
    """The provider dies: nobody waits for ever, and every seat is given back."""
    begun = anyio.Event()

    async def hang() -> None:
        begun.set()
        await anyio.sleep_forever()

    host.admitting[B] = hang
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            await pool.start(HOST, A)

            async def join() -> None:
                with pytest.raises(HostWentDownError):
                    await pool.start(HOST, B)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(join)
                await begun.wait()
                host.programs[0].end.set()
            await pool.stop(HOST)
            assert host.holders == frozenset()


@pytest.mark.guarantee("SHARE-5")
async def test_a_full_host_takes_no_claim(host: Host) -> None:
    """The provider's refusal leaves nothing behind."""
    host.full = True
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            await pool.start(HOST, A)
            with pytest.raises(SharedHostFullError):
                await pool.start(HOST, B)
            assert pool.sessions() == host.holders == {A}


@pytest.mark.guarantee("SHARE-5")
async def test_processes_of_their_own_end_alone(host: Host) -> None:
    """A provider that runs one process for each session: the death of one ends its seat, and the last one's the host."""
    host.own = frozenset({A, B})
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            await pool.start(HOST, A)
            await pool.start(HOST, B)
            assert len(host.programs) == 2
            host.programs[0].end.set()
            while A in host.holders:  # noqa: ASYNC110 - what is waited for is the registry's word
                await anyio.sleep(0.001)
            assert pool.sessions() == {B}
            assert not host.programs[1].end.is_set()
            host.programs[1].end.set()
            while pool.is_up(HOST):  # noqa: ASYNC110
                await anyio.sleep(0.001)
            await pool.stop(HOST)
    assert host.said[-1] == "host parked"


async def test_a_provider_that_fails_in_a_turn_is_why_the_rooms_are_parked(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody stopped them: each room is told what went wrong in the program that they share."""

    async def failing(*_: object, **__: object) -> TurnState:
        raise ProviderTimeoutError(provider="scripted", request="turn/start", limit_s=10.0)

    monkeypatch.setattr(host, "run", failing)
    monkeypatch.setattr(host, "doubt", nothing, raising=False)
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            worker = await pool.start(HOST, A)
            await pool.start(HOST, B)
            worker.submit(cast("Any", SimpleNamespace(text="turn", session_id=A)))
            while pool.is_up(HOST) or host.holders:  # noqa: ASYNC110
                await anyio.sleep(0.001)
    told = [line for line in host.said if line.startswith("down ")]
    assert [line.startswith(f"down {name}: provider.timeout") for line, name in zip(told, "AB", strict=True)] == [True, True], told


# ------------------------------------------------------------------------------------------------------------ failed parks


@pytest.mark.guarantee("SHARE-2", "START-5")
async def test_a_failed_park_is_tried_again_until_it_is_done(host: Host) -> None:
    """Beyond the finaliser's bound too; while it fails it is known, and the host is not said to be parked."""
    host.stopping = [BUSY] * 60
    host.limits = Limits(finalise_s=0.1)
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            await pool.start(HOST, A)
            await pool.leave(HOST, A)
            trouble = host.leases.trouble_of(HOST)
            assert trouble is not None
            assert "busy" in str(trouble)
            assert host.said[-1] == "down A: stopped"
            assert host.leases.troubles() == (trouble,)
            while host.leases.troubles():  # noqa: ASYNC110
                await anyio.sleep(0.001)
    assert host.said.count("not stopped") == 60
    assert host.said[-2:] == ["stopped", "host parked"]


@pytest.mark.guarantee("SHARE-2", "START-5")
async def test_a_claim_ends_the_attempts_to_park(host: Host) -> None:
    """Between two of them: when the session is live, nobody stops its sandbox any more."""
    host.stopping = [BUSY] * 10_000
    host.limits = Limits(finalise_s=0.1)
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            await pool.start(HOST, A)
            await pool.leave(HOST, A)
            await pool.start(HOST, B)
            tried = host.said.count("not stopped")
            assert host.leases.troubles() == ()
            await anyio.sleep(0.1)
            assert host.said.count("not stopped") == tried
            host.stopping.clear()
    assert host.said[-3:] == ["stopped", "down B: stopped", "host parked"]


@pytest.mark.guarantee("SHARE-2", "START-5")
@pytest.mark.parametrize("pauses", [0, 1, 2, 5, 20])
async def test_a_claim_while_the_host_ends_is_not_parked_afterwards(host: Host, pauses: int) -> None:
    """It waits for the end, which could not park the sandbox: nobody goes on with that under the new claim."""
    host.stopping = [BUSY] * 10_000
    host.limits = Limits(finalise_s=0.1)
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            await pool.start(HOST, A)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(pool.leave, HOST, A)
                for _ in range(pauses):
                    await anyio.lowlevel.checkpoint()
                await pool.start(HOST, B)
                tried = host.said.count("not stopped")
                assert host.leases.troubles() == ()
                await anyio.sleep(0.1)
                assert host.said.count("not stopped") == tried
                host.stopping.clear()
    assert host.said[-3:] == ["stopped", "down B: stopped", "host parked"]


@pytest.mark.guarantee("START-5")
@pytest.mark.parametrize("pauses", range(8))
async def test_a_claim_that_is_given_up_lets_the_attempts_go_on(host: Host, pauses: int) -> None:
    """Whoever asked for the host went away, perhaps in the middle of an attempt: the sandbox is parked all the same."""
    host.stopping = [BUSY] * 30
    host.limits = Limits(finalise_s=0.1)
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            await pool.start(HOST, A)
            await pool.leave(HOST, A)
            host.making = anyio.sleep_forever
            async with anyio.create_task_group() as asking:
                asking.start_soon(pool.start, HOST, B)
                for _ in range(pauses):
                    await anyio.lowlevel.checkpoint()
                asking.cancel_scope.cancel()
            while host.leases.troubles():  # noqa: ASYNC110
                await anyio.sleep(0.001)
    assert host.said[-2:] == ["stopped", "host parked"]


@pytest.mark.guarantee("OWN-8")
async def test_nobody_comes_up_while_a_host_is_kept_down(host: Host) -> None:
    """A removal without proof forgets records by name: they must not become those of a sandbox that was made meanwhile."""
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool, anyio.create_task_group() as tasks:
            async with pool.kept_down(HOST):
                tasks.start_soon(pool.start, HOST, A)
                await anyio.wait_all_tasks_blocked()
                assert host.said == []
            await pool.start(HOST, A)
            assert host.said == ["up for A", "live A"]


async def test_a_park_that_goes_on_does_not_keep_a_stop(host: Host) -> None:
    """The end of the daemon ends the attempts: what runs then is the next life's to fence."""
    host.stopping = [BUSY] * 10_000
    host.limits = Limits(finalise_s=0.1)
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            await pool.start(HOST, A)
            await pool.leave(HOST, A)
    assert "host parked" not in host.said


# ------------------------------------------------------------------------------------------------------------- checkpoints


@pytest.mark.guarantee("CONT-2")
async def test_a_capture_makes_safe_what_had_happened_when_it_was_asked_for(host: Host) -> None:
    """A sibling's turn that ends meanwhile is not taken to be in it."""
    await host.make(HOST)
    kept = Safekeeping(host.continuity)
    kept.changed()

    async def sibling() -> None:
        kept.changed()

    host.saving = sibling
    await kept.capture(CheckpointReason.AFTER_TURN)
    assert kept.dirty
    host.saving = nothing
    await kept.capture(CheckpointReason.AFTER_TURN)
    assert not kept.dirty


@pytest.mark.guarantee("CONT-7")
async def test_every_generation_names_the_threads_that_were_opened(host: Host) -> None:
    """Also one that a sibling asks for before the store knows the thread: the newest generation decides what can be resumed."""
    await host.make(HOST)
    named: list[dict[UUID, str]] = []

    async def capture(_reason: CheckpointReason, identities: Mapping[UUID, str], **_: object) -> None:
        named.append(dict(identities))

    host.continuity.capture = capture
    kept = Safekeeping(host.continuity)
    kept.opened(A, "thread-a")
    await kept.capture(CheckpointReason.FIRST_TURN)
    kept.opened(B, "thread-b")
    await kept.capture(CheckpointReason.FIRST_TURN)
    assert named == [{A: "thread-a"}, {A: "thread-a", B: "thread-b"}]


@pytest.mark.guarantee("SHARE-2", "CONT-2")
async def test_a_leave_does_not_wait_for_the_others_turns_for_ever(host: Host) -> None:
    """A capture would; the room leaves within a finalisation's bound, and the next checkpoint of the host holds its state."""
    host.limits = Limits(finalise_s=0.2)
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            await pool.start(HOST, A)
            await pool.start(HOST, B)
            assert host.worker is not None
            host.worker._kept.changed()
            host.saving = anyio.sleep_forever
            assert await pool.leave(HOST, A) is None
            assert any(word.startswith(f"down A: {LEFT}; they are in the middle") for word in host.said)
            assert pool.sessions() == {B}
            assert host.worker._kept.dirty
            host.saving = nothing


@pytest.mark.guarantee("SHARE-2")
async def test_a_leave_whose_checkpoint_fails_leaves_all_the_same(host: Host) -> None:
    """The room says so, and the host's last checkpoint holds what this one did not."""

    async def fail() -> None:
        raise NO_THREAD

    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            await pool.start(HOST, A)
            await pool.start(HOST, B)
            assert host.worker is not None
            host.worker._kept.changed()
            host.saving = fail
            assert await pool.leave(HOST, A) is None
            assert any(word.startswith(f"down A: {LEFT}; its checkpoint failed") for word in host.said)
            host.saving = nothing
            assert await pool.leave(HOST, B) is not None
    assert "before-stop" in host.said
