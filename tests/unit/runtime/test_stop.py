"""The end of a daemon's hosts: one budget for everything, and the final checkpoint is inside it (START-4, START-5)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import anyio
import pytest

from jamcore.continuity.generations.publish import CheckpointFailedError
from jamcore.domain.continuity import Checkpoint, CheckpointReason
from jamcore.domain.limits import DEFAULTS, Limits
from jamcore.runtime.bringup import BringUp
from jamcore.runtime.gate import DaemonStoppingError, StopGate
from jamcore.runtime.leases import Leases
from jamcore.runtime.pool import BringUpTimeoutError, StartGivenUpError, WorkerPool, worker_pool
from jamcore.runtime.seat import Seat
from jamcore.runtime.turns import TurnRunner
from jamcore.runtime.worker import HostWorker

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

HANG_S = 20.0
"""Nothing here takes a second; what hangs fails by this."""
UNHURRIED = Limits(finalise_s=3.0)
ONE, TWO = UUID(int=1), UUID(int=2)


async def nothing(*_: object, **__: object) -> None:
    """Do nothing."""


@dataclass
class Host:
    """A host whose parts are scripted: what it does, in order, is in ``said``."""

    said: list[str] = field(default_factory=list)
    starting: Callable[[], Awaitable[None]] = nothing
    closing: Callable[[], Awaitable[None]] = nothing
    saving: Callable[[], Awaitable[None]] = nothing
    parking: Callable[[], Awaitable[None]] = nothing
    limits: Limits = UNHURRIED
    checkpoint: Checkpoint = field(default_factory=lambda: cast("Checkpoint", object()))
    begun: anyio.Event = field(default_factory=anyio.Event)

    async def start(self, _stack: AsyncExitStack, _first: object, proven: Callable[[], None]) -> object:
        """See :meth:`BringUp.start`."""
        proven()
        self.said.append("starting")
        self.begun.set()
        await self.starting()
        return object()

    async def open_runtime(self, _prepared: object) -> object:
        """See :meth:`BringUp.open_runtime`."""
        return self.runtime()

    @asynccontextmanager
    async def runtime(self) -> AsyncIterator[object]:
        """Be a provider that is asked nothing."""
        try:
            yield SimpleNamespace(closed=anyio.sleep_forever)
        finally:
            try:
                await self.closing()
                self.said.append("closed")
            except anyio.get_cancelled_exc_class():
                self.said.append("cut off")
                raise

    async def capture(self, reason: CheckpointReason, _identities: object, **_: object) -> Checkpoint:
        """See :meth:`HostContinuity.capture`."""
        self.said.append("saving")
        await self.saving()
        self.said.append(reason.value)
        return self.checkpoint

    async def park(self, _told: object, _pause: object = None) -> None:
        """See :meth:`BringUp.park`."""
        await self.parking()
        self.said.append("parked")

    async def unsaved(self, code: str, problem: str) -> None:
        """See :meth:`HostStanding.unsaved`."""
        self.said.append(f"unsaved: {code}: {problem}")

    async def rows(self, _seats: object, why: str, *, parked: bool) -> None:
        """See :meth:`HostStanding.down`."""
        self.said.append(f"rows: {why}" if parked else f"rows, not parked: {why}")

    def worker(self, host: UUID) -> HostWorker:
        """Return a worker of this host, whose last turn is not safe yet."""
        self_ = cast("Any", self)
        row = SimpleNamespace(id=host, agent_id=UUID(int=7), sandbox="jam-x")
        self_.continuity = SimpleNamespace(host=row, settle=nothing, capture=self.capture, melt=lambda: None)
        self_.standing = SimpleNamespace(live=nothing, down=self.rows, say=nothing, unsaved=self.unsaved)
        worker = HostWorker(bring_up=cast("BringUp", self), leases=Leases(), runner=cast("TurnRunner", None), limits=self.limits)
        worker._kept.changed()  # as after a turn whose checkpoint failed
        return worker


@dataclass
class Factory:
    """Makes what the hosts script; each has one session, with the host's own id."""

    hosts: dict[UUID, Host]

    async def make(self, host: UUID) -> HostWorker:
        """See :class:`WorkerFactory`."""
        return self.hosts[host].worker(host)

    async def seat(self, _host: UUID, session: UUID, *, live: int) -> Seat:
        """See :class:`WorkerFactory`."""
        record = SimpleNamespace(id=session, provider_identity=None)
        return Seat(session=cast("Any", record), workspace=cast("Any", None), room_id=UUID(int=8 + live))


def pool_of(hosts: dict[UUID, Host], limits: Limits = DEFAULTS) -> Any:  # noqa: ANN401 - a context manager of a pool
    """Return a pool over scripted hosts."""
    return worker_pool(Factory(hosts), leases=Leases(), gate=StopGate(), limits=limits)


async def refused(start: Callable[[], Awaitable[object]], into: list[str]) -> None:
    """Expect to be told that the daemon stops."""
    with pytest.raises(DaemonStoppingError) as error:
        await start()
    into.append(error.value.code)


@pytest.mark.guarantee("START-4")
async def test_a_bring_up_that_hangs_is_cancelled_by_a_stop() -> None:
    """Its sandbox is parked; whoever asked for it, and whoever waited for the same host, is told why; nothing is begun after it."""
    host, told = Host(starting=anyio.sleep_forever), list[str]()
    with anyio.fail_after(HANG_S):
        async with pool_of({ONE: host}) as pool:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(refused, lambda: pool.start(ONE, ONE), told)
                tasks.start_soon(refused, lambda: pool.start(ONE, ONE), told)
                await host.begun.wait()
                await pool.stop_all()
            await refused(lambda: pool.start(ONE, ONE), told)
    assert told == ["daemon.stopping"] * 3
    assert [word for word in host.said if word in ("starting", "parked")] == ["starting", "parked"]
    assert host.said[-1].startswith("rows")


async def test_a_host_that_is_not_even_made_keeps_no_stop_waiting() -> None:
    """What reads its records may hang too."""
    asked, told = anyio.Event(), list[str]()

    class Hanging(Factory):
        async def make(self, _host: UUID) -> HostWorker:
            asked.set()
            await anyio.sleep_forever()
            raise AssertionError

    with anyio.fail_after(HANG_S):
        async with worker_pool(Hanging({}), leases=Leases(), gate=StopGate()) as pool, anyio.create_task_group() as tasks:
            tasks.start_soon(refused, lambda: pool.start(ONE, ONE), told)
            await asked.wait()
            await pool.stop_all()
    assert told == ["daemon.stopping"]


async def test_a_room_that_is_coming_back_can_be_stopped() -> None:
    """Whoever asked for it is told that it was given up; the sandbox is parked; nobody waits for the bound of a bring-up."""
    host, told = Host(starting=anyio.sleep_forever), list[str]()

    async def asked(pool: Any) -> None:  # noqa: ANN401 - a pool
        with pytest.raises(StartGivenUpError) as error:
            await pool.start(ONE, ONE)
        told.append(error.value.code)

    with anyio.fail_after(HANG_S):
        async with pool_of({ONE: host}) as pool, anyio.create_task_group() as tasks:
            tasks.start_soon(asked, pool)
            await host.begun.wait()
            assert await pool.leave(ONE, ONE) is None
    assert told == ["runtime.start_given_up"]
    assert [word for word in host.said if word in ("starting", "parked")] == ["starting", "parked"]


@pytest.mark.guarantee("START-4")
async def test_live_hosts_are_finalised_at_once() -> None:
    """Each checkpoint waits for the other to have begun: one after the other would never end."""
    both = [anyio.Event(), anyio.Event()]

    def meeting(mine: int) -> Callable[[], Awaitable[None]]:
        async def meet() -> None:
            both[mine].set()
            await both[1 - mine].wait()

        return meet

    hosts = {ONE: Host(saving=meeting(0)), TWO: Host(saving=meeting(1))}
    with anyio.fail_after(HANG_S):
        async with pool_of(hosts) as pool:
            for host in hosts:
                await pool.start(host, host)
    for each in hosts.values():
        assert each.said == ["starting", "closed", "saving", "before-stop", "parked", "rows: stopped"]


async def whole_bound() -> None:
    """Take all the time that the caller gives, but for a moment."""
    await anyio.sleep_until(anyio.current_effective_deadline() - 0.2)


@pytest.mark.guarantee("START-4", "START-5")
async def test_a_checkpoint_that_takes_its_whole_bound_is_kept() -> None:
    """Also when the provider would not close: what comes before the checkpoint cannot take its time, nor can it take the park's."""
    host = Host(closing=anyio.sleep_forever, saving=whole_bound)
    with anyio.fail_after(HANG_S):
        async with pool_of({ONE: host}) as pool:
            await pool.start(ONE, ONE)
            assert await pool.stop(ONE) is host.checkpoint
    assert host.said == ["starting", "cut off", "saving", "before-stop", "parked", "rows: stopped"]


async def test_a_checkpoint_beyond_its_bound_does_not_keep_the_sandbox() -> None:
    """It is given up, the sandbox is parked all the same, and the room says so."""
    host = Host(saving=anyio.sleep_forever, limits=Limits(finalise_s=0.3))
    with anyio.fail_after(HANG_S):
        async with pool_of({ONE: host}) as pool:
            await pool.start(ONE, ONE)
            assert await pool.stop(ONE) is None
    assert host.said[-4:] == [
        *("saving", "parked", "unsaved: continuity.checkpoint_unfinished: it took longer than it may"),
        "rows: stopped; the final checkpoint failed: it took longer than it may",
    ]


async def full() -> None:
    """Fail as a disk does on which there is no room."""
    raise CheckpointFailedError(host="h", problem="no space left")


async def broken() -> None:
    """Fail as nobody foresaw."""
    raise ValueError("what?")


@pytest.mark.guarantee("CONT-8")
@pytest.mark.parametrize(("fails", "code"), [(full, "checkpoint_failed"), (broken, "checkpoint_unfinished")])
async def test_a_final_checkpoint_that_fails_leaves_the_host_unsaved(fails: Callable[[], Awaitable[None]], code: str) -> None:
    """Whatever it was; the sandbox is parked and the rows are written all the same. One that is made leaves nothing."""
    host = Host(saving=fails)
    with anyio.fail_after(HANG_S):
        async with pool_of({ONE: host}) as pool:
            await pool.start(ONE, ONE)
            await pool.stop(ONE)
    assert [word.partition(":")[0] for word in host.said[-3:]] == ["parked", "unsaved", "rows"]
    assert host.said[-2].startswith(f"unsaved: continuity.{code}")
    good = Host()
    async with pool_of({ONE: good}) as pool:
        await pool.start(ONE, ONE)
    assert not [word for word in good.said if word.startswith("unsaved")]


async def test_a_park_that_hangs_does_not_keep_the_rows() -> None:
    """The end is recorded although the engine does not answer; start-up and the next bring-up see to the sandbox."""
    host = Host(parking=anyio.sleep_forever, limits=Limits(finalise_s=0.3))
    with anyio.fail_after(HANG_S):
        async with pool_of({ONE: host}) as pool:
            await pool.start(ONE, ONE)
    assert host.said[-2:] == ["before-stop", "rows, not parked: stopped"]


@pytest.mark.guarantee("START-4")
async def test_a_bring_up_ends_with_its_own_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the preparation's bound and what surrounds it."""
    monkeypatch.setattr("jamcore.domain.limits.AROUND_PREPARATION_S", 0.1)
    host = Host(starting=anyio.sleep_forever)
    with anyio.fail_after(HANG_S):
        async with pool_of({ONE: host}, Limits(prepare_s=0.1)) as pool:
            with pytest.raises(BringUpTimeoutError) as error:
                await pool.start(ONE, ONE)
            assert error.value.limit_s == 0.2
            assert pool.sessions() == frozenset()
    assert "parked" in host.said


async def test_stopping_twice_is_fine() -> None:
    """The daemon's stop and the end of its context both ask."""
    host = Host()
    with anyio.fail_after(HANG_S):
        async with pool_of({ONE: host}) as pool:
            assert isinstance(pool, WorkerPool)
            await pool.start(ONE, ONE)
            await pool.stop_all()
            await pool.stop_all()
    assert host.said.count("before-stop") == 1
