"""All live hosts of one daemon: at most one worker for each, started on demand, stopped with the daemon."""

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
from jamcore.domain.limits import PREPARE_TIMEOUT_S
from jamcore.runtime.worker import HostWorker
from jamcore.system.tasks import owned_tasks

BRING_UP_S = PREPARE_TIMEOUT_S + 120.0
"""A whole bring-up: the preparation, the activation before it, and the provider's start and resume after it."""


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

    def __init__(self, make: WorkerFactory, tasks: TaskGroup) -> None:
        self._make = make
        self._tasks = tasks
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
            JamError: It could not be brought up; it is parked again.
        """
        async with self._starting.setdefault(host, anyio.Lock()):
            if worker := self.get(host):
                return worker
            if ending := self._workers.get(host):
                await ending.stop()
            worker = await self._make(host)
            self._workers[host] = worker
            try:
                with anyio.fail_after(BRING_UP_S):
                    await self._tasks.start(self._run, host, worker)
            except TimeoutError as error:
                raise BringUpTimeoutError(host=str(host), limit_s=BRING_UP_S) from error
            finally:
                if not worker.is_up and self._workers.get(host) is worker:
                    del self._workers[host]  # cancelled before its task ran at all
            return worker

    async def stop(self, host: UUID) -> Checkpoint | None:
        """Stop the host's worker and return its final checkpoint; a host that is not live is fine."""
        async with self._starting.setdefault(host, anyio.Lock()):
            worker = self._workers.get(host)
            return await worker.stop() if worker else None

    async def stop_all(self) -> None:
        """Stop every worker at once; each has its own bound."""
        async with anyio.create_task_group() as tasks:
            for host in tuple(self._workers):
                tasks.start_soon(self.stop, host)

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
async def worker_pool(make: WorkerFactory) -> AsyncIterator[WorkerPool]:
    """Yield a pool; on the way out every worker is stopped within its bound."""
    async with owned_tasks() as tasks:
        pool = WorkerPool(make, tasks)
        try:
            yield pool
        finally:
            with anyio.CancelScope(shield=True):
                await pool.stop_all()
