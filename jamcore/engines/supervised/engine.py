"""What engines of supervised sandboxes have in common: each sandbox a record on disk and, while it runs, a task that owns it.

An engine says how a sandbox is opened, where its own directories lie, and what a daemon that died may have left of it. Everything that
must never differ between two engines is here: one change of a sandbox at a time, a record before anything runs, nothing left when a
creation fails, and an end that is waited for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import anyio
import structlog
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus

from jamcore.domain.cells import Ability
from jamcore.domain.sandboxes import (
    CloneSource,
    EngineFailedError,
    ExecSpec,
    InventoryItem,
    Isolation,
    Presence,
    SandboxGoneError,
    SandboxSpec,
)
from jamcore.engines.port import FreezeReport
from jamcore.engines.supervised.clone import ensure_clone
from jamcore.engines.supervised.directories import require_real_directories
from jamcore.engines.supervised.records import SandboxRecord, SandboxRecords
from jamcore.engines.supervised.sandbox import RunningSandbox
from jamcore.system.files import Files
from jamcore.system.guest import GuestProcess

S = TypeVar("S", bound=RunningSandbox)


@dataclass(frozen=True, slots=True)
class OwnDirectories:
    """What the engine makes of a sandbox's disk before it first runs: its home, and the private clone when there is one."""

    home: Path
    clone: Path | None


class SupervisedEngine(ABC, Generic[S]):
    """See :class:`~jamcore.engines.port.Engine`, and the ability Protocols beside it."""

    name: str
    isolation: Isolation
    abilities: frozenset[Ability]

    def __init__(self, records: SandboxRecords, tasks: TaskGroup, *, files: Files) -> None:
        self._records = records
        self._tasks = tasks
        self._files = files
        self._running: dict[str, S] = {}
        self._ended: dict[str, anyio.Event] = {}
        self._locks: dict[str, anyio.Lock] = {}

    # -------------------------------------------------------------------------------------------- what each engine decides

    @abstractmethod
    def _require_possible(self, spec: SandboxSpec) -> None:
        """Accept a specification; EngineFailedError, or what a limit raises, says what this engine cannot do. Changes nothing."""

    @abstractmethod
    def _directories(self, spec: SandboxSpec) -> OwnDirectories:
        """Return where the sandbox's own directories lie on the host."""

    @abstractmethod
    def _new_record(self, spec: SandboxSpec) -> SandboxRecord:
        """Return the record of a new sandbox."""

    @abstractmethod
    async def _make_ready(self, spec: SandboxSpec) -> None:
        """Do what each start needs, once nothing is left of the last one and the directories are what they should be."""

    @abstractmethod
    def _opened(self, record: SandboxRecord) -> AbstractAsyncContextManager[S]:
        """Return the running sandbox; when the context is left, nothing of it runs."""

    @abstractmethod
    async def _end_left(self, record: SandboxRecord) -> None:
        """End what a dead daemon left of a sandbox that does not run here.

        Raises:
            EngineUnknownError: It does not end.
        """

    @abstractmethod
    async def _presence_of_left(self, record: SandboxRecord) -> Presence:
        """Say whether something is left of a sandbox that does not run here."""

    async def _note_running(self, record: SandboxRecord, sandbox: S) -> None:
        """Keep what is known of a sandbox once it runs; nothing, unless an engine needs it to find what outlives a daemon."""

    # ------------------------------------------------------------------------------------------------------------- the port

    async def create(self, spec: SandboxSpec) -> None:
        """See the port."""
        async with self._lock(spec.name):
            if self._records.read(spec.name) is not None:
                raise EngineFailedError(engine=self.name, operation="create", detail=f"{spec.name} exists")
            self._require_possible(spec)
            own = self._directories(spec)
            self._files.make_private(own.home)
            if spec.clone is not None and own.clone is not None:
                await ensure_clone(spec.clone, own.clone, engine=self.name, files=self._files)
            record = self._new_record(spec)
            await to_thread.run_sync(self._records.write, record)
            try:
                await self._start(record)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await self._halt(spec.name)
                    await to_thread.run_sync(self._records.remove, spec.name)
                raise

    async def start(self, name: str) -> None:
        """See the port."""
        async with self._lock(name):
            if await self._settled(name) is None:
                await self._start(self._need(name))

    async def stop(self, name: str) -> None:
        """See the port. Ends what a dead daemon left, too (SHARE-4)."""
        async with self._lock(name):
            await self._halt(name)
            record = self._records.read(name)
            if record is not None:
                await self._end_left(record)

    async def remove(self, name: str) -> None:
        """See the port."""
        await self.stop(name)
        async with self._lock(name):
            await to_thread.run_sync(self._records.remove, name)

    async def presence(self, name: str) -> Presence:
        """See the port."""
        if await self._settled(name) is not None:
            return Presence.RUNNING
        record = self._records.read(name)
        return Presence.ABSENT if record is None else await self._presence_of_left(record)

    async def inventory(self) -> tuple[InventoryItem, ...]:
        """See the port."""
        return tuple([InventoryItem(name, await self.presence(name)) for name in self._records.names()])

    async def exec(self, name: str, spec: ExecSpec) -> GuestProcess:
        """See the port."""
        return await self._need_running(name).exec(spec)

    def frozen(self, name: str) -> AbstractAsyncContextManager[FreezeReport]:
        """See the port."""
        return self._need_running(name).frozen()

    async def proof(self, name: str) -> str:
        """See the port."""
        return self._need(name).spec.proof

    async def inspect_clone(self, name: str) -> CloneSource:
        """See the port."""
        clone = self._need(name).spec.clone
        if clone is None:
            raise SandboxGoneError(sandbox=name)
        return clone

    async def stop_all(self) -> None:
        """End every sandbox; run when the engine is closed."""
        async with anyio.create_task_group() as tasks:
            for name in tuple(self._running):
                tasks.start_soon(self.stop, name)

    # ------------------------------------------------------------------------------------------------------ one running one

    async def _start(self, record: SandboxRecord) -> None:
        await self._end_left(record)
        require_real_directories(record.spec, engine=self.name)
        await to_thread.run_sync(self._require_own, self._directories(record.spec))
        await self._make_ready(record.spec)
        await self._tasks.start(self._run, record)

    def _require_own(self, own: OwnDirectories) -> None:
        """Make a home that is gone anew: it is then as one that its guest emptied. A clone that is gone held work, and nothing replaces it.

        Raises:
            EngineFailedError: The clone is gone.
        """
        if own.clone is not None and not own.clone.is_dir():
            detail = f"the private clone {own.clone} is gone, with what was in it"
            raise EngineFailedError(engine=self.name, operation="start", detail=detail)
        if not own.home.exists():
            self._files.make_private(own.home)

    async def _run(self, record: SandboxRecord, *, task_status: TaskStatus[None]) -> None:
        """Own one running sandbox from its start to its end."""
        name, started = record.spec.name, False
        ended = self._ended[name] = anyio.Event()
        try:
            async with self._opened(record) as sandbox:
                # Running first: whoever asks while something is noted must not take it for a dead daemon's.
                self._running[name] = sandbox
                await self._note_running(record, sandbox)
                task_status.started()
                started = True
                await sandbox.gone.wait()
        except Exception:
            if not started:
                raise
            # Boundary: one sandbox that does not end as it should must not take all others with it.
            structlog.get_logger("jam.engine").exception("a sandbox did not end cleanly", engine=self.name, sandbox=name)
        finally:
            self._running.pop(name, None)
            del self._ended[name]
            ended.set()

    async def _settled(self, name: str) -> S | None:
        """Return the running sandbox. One whose process 1 has ended is no longer: it is waited for until nothing of it is left."""
        sandbox, ended = self._running.get(name), self._ended.get(name)
        if sandbox is None or not sandbox.gone.is_set():
            return sandbox
        if ended is not None:
            await ended.wait()
        return None

    async def _halt(self, name: str) -> None:
        sandbox, ended = self._running.get(name), self._ended.get(name)
        if sandbox is not None and ended is not None:
            with anyio.CancelScope(shield=True):
                await sandbox.stop()
                await ended.wait()

    def _need(self, name: str) -> SandboxRecord:
        record = self._records.read(name)
        if record is None:
            raise SandboxGoneError(sandbox=name)
        return record

    def _need_running(self, name: str) -> S:
        if name not in self._running:
            raise SandboxGoneError(sandbox=name)
        return self._running[name]

    def _lock(self, name: str) -> anyio.Lock:
        return self._locks.setdefault(name, anyio.Lock())
