"""All live hosts of one daemon: at most one worker for each, started on demand, stopped with the daemon.

A stop of the daemon has one budget, the bound of a finalisation: nothing new is begun, what is coming up is cancelled, and every live host
is checkpointed and parked at the same time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus

from jamcore.domain.continuity import Checkpoint
from jamcore.domain.errors import FaultError
from jamcore.domain.limits import DEFAULTS, Limits
from jamcore.runtime.gate import StopGate
from jamcore.runtime.worker import HostWorker
from jamcore.system.tasks import owned_tasks


@dataclass(eq=False)
class BringUpTimeoutError(FaultError):
    """The host did not come up within its bound; it is parked again."""

    code: ClassVar[str] = "runtime.bring_up_timeout"
    hint: ClassVar[str] = "Look at `jam daemon logs`, then resume the room again."

    host: str
    limit_s: float


WorkerFactory = Callable[[UUID], Awaitable[HostWorker]]
"""Makes the worker of a host, not started."""


class WorkerPool:
    """The registry of live hosts. Its task group is the only place where workers run."""

    def __init__(self, make: WorkerFactory, tasks: TaskGroup, *, gate: StopGate, limits: Limits = DEFAULTS) -> None:
        self._make = make
        self._tasks = tasks
        self._limits = limits
        self._gate = gate
        self._coming_up: set[UUID] = set()
        self._workers: dict[UUID, HostWorker] = {}
        self._starting: dict[UUID, anyio.Lock] = {}
        self._log = structlog.get_logger("jam.pool")

    def get(self, host: UUID) -> HostWorker | None:
        """Return the worker of a live host; one that is still coming up is not live, and takes no turns (PREP-5)."""
        worker = self._workers.get(host)
        return worker if worker is not None and worker.takes_turns else None

    def hosts(self) -> frozenset[UUID]:
        """Return the live hosts."""
        return frozenset(host for host, worker in self._workers.items() if worker.takes_turns)

    async def start(self, host: UUID) -> HostWorker:
        """Return the host's live worker, bringing it up first when there is none.

        Raises:
            DaemonStoppingError: The daemon is being stopped.
            JamError: It could not be brought up; it is parked again.
        """
        async with self._starting.setdefault(host, anyio.Lock()):
            if worker := self.get(host):
                return worker
            with self._gate.until_stop("bring a host up"):
                self._coming_up.add(host)
                try:
                    worker = await self._bring_up(host)
                finally:
                    self._coming_up.discard(host)
            return worker

    async def stop(self, host: UUID) -> Checkpoint | None:
        """Stop the host's worker and return its final checkpoint; a host that is not live is fine."""
        async with self._starting.setdefault(host, anyio.Lock()):
            worker = self._workers.get(host)
            return await worker.stop() if worker else None

    async def stop_all(self) -> None:
        """Begin nothing more, cancel what is coming up, and stop every live worker, all at once; each has its own bound. Idempotent."""
        self._gate.close()
        async with anyio.create_task_group() as tasks:
            for host in {*self._workers, *self._coming_up}:
                tasks.start_soon(self.stop, host)

    async def _bring_up(self, host: UUID) -> HostWorker:
        if ending := self._workers.get(host):
            await ending.stop()
        worker = await self._make(host)
        self._workers[host] = worker
        limit_s = self._limits.bring_up_s
        try:
            with anyio.fail_after(limit_s):
                await self._tasks.start(self._run, host, worker)
        except TimeoutError as error:
            raise BringUpTimeoutError(host=str(host), limit_s=limit_s) from error
        finally:
            if not worker.is_up and self._workers.get(host) is worker:
                del self._workers[host]  # cancelled before its task ran at all
        return worker

    async def _run(self, host: UUID, worker: HostWorker, *, task_status: TaskStatus[None]) -> None:
        up = False

        def report_up() -> None:
            nonlocal up
            up = True
            task_status.started()

        try:
            await worker.run(report_up)
        except Exception as error:
            if not up:
                raise  # goes to whoever asked for the host
            # Named boundary (the top of a task): one host's end must not end its siblings.
            self._log.exception("worker ended by a fault", host=str(host), error=type(error).__name__)
        finally:
            if self._workers.get(host) is worker:
                del self._workers[host]


@asynccontextmanager
async def worker_pool(make: WorkerFactory, *, gate: StopGate, limits: Limits = DEFAULTS) -> AsyncIterator[WorkerPool]:
    """Yield a pool; on the way out every worker is stopped within its bound."""
    async with owned_tasks() as tasks:
        pool = WorkerPool(make, tasks, gate=gate, limits=limits)
        try:
            yield pool
        finally:
            with anyio.CancelScope(shield=True):
                await pool.stop_all()
