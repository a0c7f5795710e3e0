"""The same program without Jam, whatever its protocol: a plain child of this process that the provider's own plugin speaks to.

There is no daemon, no sandbox, no relay and no store. The plugin is Jam's too, so what it takes is told apart: beside the time until it has
the end of a turn stands the time at the program's pipes, from the first byte that was written to the last that was read.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

from benchmarks.room import TURN_S, said
from jamcore.domain.events import ProviderEvent, TurnEnded, TurnOutcome
from jamcore.domain.ids import ProviderIdentity, provider_identity
from jamcore.domain.providers import ThreadRequest
from jamcore.plugins.provider import ProviderHooks
from jamcore.plugins.runtime import ProviderRuntime
from jamcore.system.guest import GuestProcess
from jamcore.system.pipes import CHUNK_BYTES
from jamcore.testing.guards import adopting_orphans, descendants, kill, settle
from jamcore.testing.local_guest import LocalGuest, LocalProcess
from jamcore.testing.providers.opening import opened


@dataclass(slots=True)
class Pipes:
    """When the first byte was written to a program since the last reset, and the last one read, by the performance counter."""

    written: float | None = None
    read: float | None = None

    def reset(self) -> None:
        """Begin anew."""
        self.written = self.read = None


@dataclass(frozen=True, slots=True)
class Times:
    """Of one turn: when it was asked for, when the plugin had the event that was waited for, and the same at the program's pipes."""

    asked: float
    told: float
    written: float
    read: float


class PlainProgram:
    """A provider's program with one thread, started, killed and started again by the provider's plugin.

    All of it happens in one task: what :meth:`start` opens stays open until :meth:`kill` or :meth:`close`.
    """

    def __init__(self, hooks: ProviderHooks, guest: _Guest, tools: Path, relay_url: str, model: str | None) -> None:
        self._hooks = hooks
        self._guest = guest
        self._tools = tools
        self._relay_url = relay_url
        self._request = ThreadRequest(cwd=str(guest.work), model=model)
        self._stack = AsyncExitStack()
        self._runtime: ProviderRuntime | None = None
        self._identity: ProviderIdentity | None = None

    async def start(self) -> None:
        """Start the program with its thread: a new one, or the one that it had."""
        toolchain = self._hooks.description.toolchain
        version = toolchain.version if toolchain else None
        runtime = await self._stack.enter_async_context(opened(self._hooks, self._guest, self._relay_url, self._tools, version))
        if self._identity is None:
            self._identity = provider_identity((await runtime.open_thread(self._request)).identity)
        else:
            await runtime.resume_thread(self._identity, self._request)
        self._runtime = runtime

    async def turn(self, number: int, until: type[ProviderEvent] = TurnEnded) -> Times:
        """Say something and return when the first event of the kind ``until`` was there; reads to the end of the turn.

        Raises:
            RuntimeError: The turn ended in another way.
            TimeoutError: It did not end within :data:`~benchmarks.room.TURN_S`.
            JamError: As the runtime raises it.
        """
        if self._runtime is None or self._identity is None:
            raise RuntimeError("the program was not started")
        pipes = self._guest.pipes
        pipes.reset()
        times: Times | None = None
        ended: TurnEnded | None = None
        began = time.perf_counter()
        with anyio.fail_after(TURN_S):
            async with self._runtime.turn(self._identity, said(number)) as events:
                async for event in events:
                    if isinstance(event, until) and times is None and pipes.written and pipes.read:
                        times = Times(began, time.perf_counter(), pipes.written, pipes.read)
                    if isinstance(event, TurnEnded):
                        ended = event
        if times is None or ended is None or ended.outcome is not TurnOutcome.COMPLETED:
            raise RuntimeError(f"the turn ended as {ended}")
        return times

    async def kill(self) -> None:
        """SIGKILL the program with everything that it started, reap, and leave the runtime that has lost it."""
        for process in self._guest.processes:
            await process.kill_tree()
        await self.close()

    async def close(self) -> None:
        """End the program, if it runs."""
        self._runtime = None
        await self._stack.aclose()
        for process in self._guest.processes:
            await process.aclose()
        self._guest.processes.clear()


@asynccontextmanager
async def plain_program(
    hooks: ProviderHooks, tools: Path, root: Path, relay_url: str, model: str | None
) -> AsyncIterator[PlainProgram]:
    """Yield a program in directories of its own, not started; what it started has ended when the block is left."""
    program = PlainProgram(hooks, _Guest(root), tools, relay_url, model)
    try:
        yield program
    finally:
        await program.close()  # which each of its parts does to its end, also when this task is cancelled


@contextmanager
def nothing_left() -> Iterator[None]:
    """End every process that was begun in the block and still runs at its end, also what left its session."""
    with adopting_orphans():
        before = descendants()
        try:
            yield
        finally:
            kill(settle(descendants() - before))


# ------------------------------------------------------------------------------------------------------------- the guest


class _Guest(LocalGuest):
    """Tells when bytes go to and fro, and asks a program for its version once: who drives it directly does not ask at all."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, {})
        self.pipes = Pipes()
        self._answers: dict[tuple[str, ...], tuple[int | None, bytes]] = {}

    async def start(self, argv: tuple[str, ...], *, cwd: str, environment: tuple[tuple[str, str], ...] = ()) -> GuestProcess:
        """See :class:`jamcore.api.GuestLauncher`."""
        await super().start(argv, cwd=cwd, environment=environment)
        return _Process(self.processes[-1], self.pipes)

    async def run(
        self,
        argv: tuple[str, ...],
        *,
        cwd: str,
        timeout_s: float,
        limit: int = 65_536,
        environment: tuple[tuple[str, str], ...] = (),
    ) -> tuple[int | None, bytes]:
        """See :class:`jamcore.api.GuestLauncher`."""
        if argv[-1] != "--version":
            return await super().run(argv, cwd=cwd, timeout_s=timeout_s, limit=limit, environment=environment)
        if argv not in self._answers:
            self._answers[argv] = await super().run(argv, cwd=cwd, timeout_s=timeout_s, limit=limit, environment=environment)
        return self._answers[argv]


class _Process(LocalProcess):
    def __init__(self, process: LocalProcess, pipes: Pipes) -> None:
        super().__init__(process._child, *process._streams)
        self._pipes = pipes

    @property
    def stdin(self) -> ByteSendStream:
        return _Written(super().stdin, self._pipes)

    @property
    def stdout(self) -> ByteReceiveStream:
        return _Read(super().stdout, self._pipes)


class _Written(ByteSendStream):
    def __init__(self, stream: ByteSendStream, pipes: Pipes) -> None:
        self._stream = stream
        self._pipes = pipes

    async def send(self, item: bytes) -> None:
        if self._pipes.written is None:
            self._pipes.written = time.perf_counter()
        await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Read(ByteReceiveStream):
    def __init__(self, stream: ByteReceiveStream, pipes: Pipes) -> None:
        self._stream = stream
        self._pipes = pipes

    async def receive(self, max_bytes: int = CHUNK_BYTES) -> bytes:
        chunk = await self._stream.receive(max_bytes)
        self._pipes.read = time.perf_counter()
        return chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
