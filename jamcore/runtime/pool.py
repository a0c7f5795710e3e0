"""All live hosts of one daemon: at most one worker for each, started on demand, ended with its last seat or with the daemon.

A stop of the daemon has one budget, the bound of a finalisation: nothing new is begun, what is coming up is cancelled, and every live host
is checkpointed and parked at the same time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import ClassVar, Protocol
from uuid import UUID

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus

from jamcore.domain.continuity import Checkpoint
from jamcore.domain.errors import FaultError, JamError, RefusalError
from jamcore.domain.limits import DEFAULTS, Limits
from jamcore.domain.safekeeping import CaptureTrouble
from jamcore.runtime.gate import StopGate
from jamcore.runtime.leases import Leases
from jamcore.runtime.seat import Seat
from jamcore.runtime.worker import HostWorker
from jamcore.system.tasks import owned_tasks


@dataclass(eq=False)
class BringUpTimeoutError(FaultError):
    """The host did not come up, or the session did not join it, within the bound; what was begun is undone."""

    code: ClassVar[str] = "runtime.bring_up_timeout"
    hint: ClassVar[str] = "Look at `jam daemon logs`, then resume the room again."

    host: str
    limit_s: float


@dataclass(eq=False)
class StartGivenUpError(RefusalError):
    """Somebody stopped the room while it was coming back; it is parked."""

    code: ClassVar[str] = "runtime.start_given_up"
    hint: ClassVar[str] = "Resume the room when you want it: nothing of it was lost."

    host: str


class WorkerFactory(Protocol):
    """Makes workers and seats from what is stored."""

    async def make(self, host: UUID) -> HostWorker:
        """Return the worker of a host, not started."""

    async def seat(self, host: UUID, session: UUID, *, live: int) -> Seat:
        """Return a seat for a session on a host that has ``live`` others.

        Raises:
            SharedHostFullError: The provider takes no more.
        """


class _WantedError(Exception):
    """Ends the attempts to park a host that is claimed again."""


@dataclass(slots=True, eq=False)
class _Parking:
    """A park that is tried again until it is done; owned by one task of the pool.

    A claim ends it between two attempts, never within one: an engine might carry out later what it was asked for.
    """

    worker: HostWorker
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    wanted: anyio.Event = field(default_factory=anyio.Event)
    over: anyio.Event = field(default_factory=anyio.Event)

    async def pause(self, seconds: float) -> None:
        """Wait between two attempts."""
        with anyio.move_on_after(seconds):
            await self.wanted.wait()
        if self.wanted.is_set():
            raise _WantedError

    async def taken_over(self) -> None:
        """End the attempts; when this returns, nobody stops the sandbox any more. Whoever is cancelled meanwhile lets them go on."""
        self.wanted.set()
        try:
            await self.over.wait()
        except BaseException:
            self.wanted = anyio.Event()
            raise


class WorkerPool:
    """The registry of live hosts. Its task group is the only place where workers run."""

    def __init__(
        self, factory: WorkerFactory, tasks: TaskGroup, *, leases: Leases, gate: StopGate, limits: Limits = DEFAULTS
    ) -> None:
        self._factory = factory
        self._tasks = tasks
        self._leases = leases
        self._limits = limits
        self._gate = gate
        self._coming_up: set[UUID] = set()
        self._workers: dict[UUID, HostWorker] = {}
        self._starting: dict[UUID, anyio.Lock] = {}
        self._seating: dict[UUID, anyio.Lock] = {}
        self._parking: dict[UUID, _Parking] = {}
        self._asked: dict[UUID, anyio.CancelScope] = {}
        self._log = structlog.get_logger("jam.pool")

    def get(self, host: UUID, session: UUID) -> HostWorker | None:
        """Return the worker that routes turns to a session; one that is still coming up or joining takes none (PREP-5)."""
        worker = self._workers.get(host)
        return worker if worker is not None and worker.seat(session) else None

    def sessions(self) -> frozenset[UUID]:
        """Return the sessions to which turns may be routed."""
        return frozenset(session for worker in self._workers.values() for session in worker.sessions())

    def busy_rooms(self) -> frozenset[UUID]:
        """Return the rooms in which a turn runs or waits to run."""
        return frozenset(room for worker in self._workers.values() for room in worker.busy_rooms())

    def is_up(self, host: UUID) -> bool:
        """Return whether the host has live rooms."""
        worker = self._workers.get(host)
        return worker is not None and worker.takes_seats

    async def start(self, host: UUID, session: UUID) -> HostWorker:
        """Return the worker on which the session has its seat, bringing the host up or joining it first where that is needed.

        Raises:
            DaemonStoppingError: The daemon is being stopped.
            JamError: It could not be brought back; nothing of it is live, and a host that nobody holds is parked.
        """
        async with self._seating.setdefault(session, anyio.Lock()):
            if worker := self.get(host, session):
                return worker
            with self._gate.until_stop("bring a room back"), self._until_left(host, session):
                return await self._start(host, session)

    async def leave(self, host: UUID, session: UUID) -> Checkpoint | None:
        """Give the session's seat back and return the checkpoint that was made; one that has no seat is fine.

        A session that is still coming back is given up: whoever asked for it is told so.
        """
        if asked := self._asked.get(session):
            asked.cancel()
        async with self._seating.setdefault(session, anyio.Lock()):
            worker = self._workers.get(host)
            return await worker.leave(session) if worker else None

    async def stop(self, host: UUID) -> Checkpoint | None:
        """End the whole host and return its final checkpoint; a host that is not live is fine."""
        async with self._starting.setdefault(host, anyio.Lock()):
            worker = self._workers.get(host)
            return await worker.stop() if worker else None

    @asynccontextmanager
    async def kept_down(self, host: UUID) -> AsyncIterator[None]:
        """Let nobody bring the host up until the block ends; whether it is up already is the caller's to ask, inside."""
        async with self._starting.setdefault(host, anyio.Lock()):
            yield

    @asynccontextmanager
    async def held_still(self, host: UUID, still: Callable[[], AbstractAsyncContextManager[None]]) -> AsyncIterator[None]:
        """Let nothing of a host move until the block ends: one that is up is held by ``still``, one that is down stays so."""
        if not self.is_up(host):
            async with self.kept_down(host):
                if not self.is_up(host):
                    yield
                    return
        async with still():
            yield

    async def make_safe(self, host: UUID) -> None:
        """Capture what is in no checkpoint of a live host; one that is not live is fine.

        Raises:
            JamError: It was not captured.
        """
        worker = self._workers.get(host)
        if worker is not None and worker.takes_seats:
            await worker.make_safe()

    async def ended(self, host: UUID) -> None:
        """Wait for a host that is ending. Inside :meth:`kept_down`, where nobody brings it up; one that goes on is left alone."""
        worker = self._workers.get(host)
        if worker is not None and not worker.takes_seats:
            await worker.stop()

    def capture_trouble(self, host: UUID) -> CaptureTrouble | None:
        """Return why turns of a live host are in no generation yet."""
        worker = self._workers.get(host)
        return worker.capture_trouble if worker is not None else None

    async def stop_all(self) -> None:
        """Begin nothing more, cancel what is coming up, and stop every live worker, all at once; each has its own bound. Idempotent."""
        self._gate.close()
        async with anyio.create_task_group() as tasks:
            for host in {*self._workers, *self._coming_up}:
                tasks.start_soon(self.stop, host)
        for parking in self._parking.values():
            parking.scope.cancel()  # the daemon's end: the engine's own, or the next life's fence, sees to the sandbox

    @contextmanager
    def _until_left(self, host: UUID, session: UUID) -> Iterator[None]:
        """Run the block unless somebody stops the room meanwhile; a stop cancels it, and its finalisers run as after any cancellation.

        Raises:
            StartGivenUpError: It was stopped.
        """
        with anyio.CancelScope() as scope:
            self._asked[session] = scope
            try:
                yield
            finally:
                del self._asked[session]
        if scope.cancelled_caught:
            raise StartGivenUpError(host=str(host))

    async def _start(self, host: UUID, session: UUID) -> HostWorker:
        limit_s = self._limits.bring_up_s
        try:
            with anyio.fail_after(limit_s):
                async with self._starting.setdefault(host, anyio.Lock()):
                    worker = self._workers.get(host)
                    if worker is None or not worker.takes_seats:
                        return await self._bring_up(host, session)
                    seat = await self._seat(worker, session)
                await worker.join(seat)
                return worker
        except TimeoutError as error:
            raise BringUpTimeoutError(host=str(host), limit_s=limit_s) from error

    async def _seat(self, worker: HostWorker, session: UUID) -> Seat:
        """Count the claim, which keeps the host from being parked from here on, and make the seat."""
        live = len(self._leases.holders(worker.key) - {session})
        self._leases.claim(worker.key, session)
        try:
            return await self._factory.seat(worker.key.host, session, live=live)
        except BaseException:
            worker.give_back(session)
            raise

    async def _bring_up(self, host: UUID, session: UUID) -> HostWorker:
        if ending := self._workers.get(host):
            await ending.stop()
        parking = self._parking.get(host)
        worker = None
        try:
            if parking is not None:
                await parking.taken_over()
            worker = await self._factory.make(host)
            seat = await self._factory.seat(host, session, live=0)
            self._workers[host] = worker
            self._coming_up.add(host)
            self._leases.claim(worker.key, session)
            await self._tasks.start(self._run, worker, seat)
        finally:
            self._coming_up.discard(host)
            if worker is not None and not worker.is_up:
                self._leases.release(worker.key, session)
                if self._workers.get(host) is worker:
                    del self._workers[host]  # cancelled before its task ran at all
            ended = parking is not None and parking.over.is_set() and parking.worker.left_running
            if parking is not None and ended and (worker is None or not worker.is_proven):
                self._go_on_parking(parking.worker)  # what should be parked still is not
        return worker

    async def _run(self, worker: HostWorker, first: Seat, *, task_status: TaskStatus[None]) -> None:
        host, up = worker.key.host, False

        def report_up() -> None:
            nonlocal up
            up = True
            task_status.started()

        try:
            await worker.run(first, report_up)
        except Exception as error:
            if not up:
                raise  # goes to whoever asked for the host
            # Named boundary (the top of a task): one host's end must not end its siblings.
            self._log.exception("worker ended by a fault", host=str(host), error=type(error).__name__)
        finally:
            if self._workers.get(host) is worker:
                del self._workers[host]
            if worker.left_running:
                self._go_on_parking(worker)

    def _go_on_parking(self, worker: HostWorker) -> None:
        """Known before its task runs: whoever waited for the worker's end finds it, and does not bring the host up beside it."""
        parking = self._parking[worker.key.host] = _Parking(worker)
        self._tasks.start_soon(self._park_on, parking)

    async def _park_on(self, parking: _Parking) -> None:
        """Try to park again each second until it is done, or somebody claims the host, or the daemon ends (START-5)."""
        worker = parking.worker
        try:
            with parking.scope, suppress(_WantedError):
                await worker.park_on(parking.pause)
        except (JamError, OSError) as error:
            # The sandbox is parked all the same; the row is mended at the next bring-up or start.
            self._log.error("the end of a park could not be recorded", host=str(worker.key.host), error=str(error))
        finally:
            if self._parking.get(worker.key.host) is parking:
                del self._parking[worker.key.host]
            parking.over.set()


@asynccontextmanager
async def worker_pool(
    factory: WorkerFactory, *, leases: Leases, gate: StopGate, limits: Limits = DEFAULTS
) -> AsyncIterator[WorkerPool]:
    """Yield a pool; on the way out every worker is stopped within its bound."""
    async with owned_tasks() as tasks:
        pool = WorkerPool(factory, tasks, leases=leases, gate=gate, limits=limits)
        try:
            yield pool
        finally:
            with anyio.CancelScope(shield=True):
                await pool.stop_all()
            tasks.cancel_scope.cancel()
