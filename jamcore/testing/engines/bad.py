"""Engines that break one rule each, made from any good one: what the suite must find, and find alone.

A suite that passes on a bad engine proves nothing. Each :class:`Fault` names the check that has to fail; all others have to pass.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from anyio.abc import ByteReceiveStream

from jamcore.domain.sandboxes import EngineUnknownError, ExecRefusedError, ExecSpec, ExitStatus, Presence, Resources, SandboxSpec
from jamcore.engines.port import Engine, EngineContext, EnginePlugin
from jamcore.system.guest import GuestProcess

AFTER_BYTES = 2 << 20
"""Small outputs stay whole: the fault is one of large streams."""


class _Proxy:
    """Everything of the good one but what a subclass replaces; the good one's own Protocols are still there."""

    def __init__(self, good: Any) -> None:  # noqa: ANN401 - an engine or a process, and whatever abilities it has
        self.good = good

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self.good, name)


class _BadProcess(_Proxy):
    """A process with one of the faults of processes."""

    good: GuestProcess


class _LosesNul(_BadProcess):
    """Its error output has no NUL bytes: somebody took it for text."""

    @property
    def stderr(self) -> ByteReceiveStream:
        return _Altered(self.good.stderr, lambda _, data: data.replace(b"\0", b""))


class _LosesOne(_BadProcess):
    """Far into its output one byte is missing."""

    def __init__(self, good: GuestProcess) -> None:
        super().__init__(good)
        self.stdout = _Altered(good.stdout, lambda before, data: data[1:] if before <= AFTER_BYTES < before + len(data) else data)


class _SwallowsAnExit(_BadProcess):
    """It takes "not found" for a success."""

    async def wait(self) -> ExitStatus:
        status = await self.good.wait()
        return replace(status, code=0) if status.code == 127 else status


class _LeavesChildren(_BadProcess):
    """Closing one that has ended closes its streams, and whatever it left lives on."""

    ended = False

    async def wait(self) -> ExitStatus:
        status = await self.good.wait()
        self.ended = True
        return status

    async def aclose(self) -> None:
        if not self.ended:
            await self.good.aclose()
        else:
            for stream in (self.good.stdin, self.good.stdout, self.good.stderr):
                await stream.aclose()


class _Altered(ByteReceiveStream):
    """A stream whose chunks are changed on the way; the change is told how many bytes came before."""

    def __init__(self, good: ByteReceiveStream, change: Callable[[int, bytes], bytes]) -> None:
        self._good = good
        self._change = change
        self._before = 0

    async def receive(self, max_bytes: int = 65536) -> bytes:
        while True:
            data = await self._good.receive(max_bytes)
            changed = self._change(self._before, data)
            self._before += len(data)
            if changed:
                return changed

    async def aclose(self) -> None:
        await self._good.aclose()


class _BadEngine(_Proxy):
    """An engine with one of the faults of engines."""

    good: Engine
    process: type[_BadProcess] | None = None

    async def exec(self, name: str, spec: ExecSpec) -> GuestProcess:
        made = await self.good.exec(name, spec)
        return made if self.process is None else self.process(made)


class _CallsUnknownAbsent(_BadEngine):
    """An engine that cannot be asked has no sandboxes."""

    async def presence(self, name: str) -> Presence:
        try:
            return await self.good.presence(name)
        except EngineUnknownError:
            return Presence.ABSENT


class _RunsElsewhere(_BadEngine):
    """Where the directory is gone the program runs in the root."""

    async def exec(self, name: str, spec: ExecSpec) -> GuestProcess:
        try:
            return await self.good.exec(name, spec)
        except ExecRefusedError:
            return await self.good.exec(name, spec.model_copy(update={"cwd": "/"}))


class _LeaksTheHost(_BadEngine):
    """The daemon's own environment is the guest's."""

    async def exec(self, name: str, spec: ExecSpec) -> GuestProcess:
        ambient = tuple((key, value) for key, value in os.environ.items() if key.startswith("JAM_"))
        return await self.good.exec(name, spec.model_copy(update={"environment": (*ambient, *spec.environment)}))


class _TakesWhatIsThere(_BadEngine):
    """It takes "already exists" for a success."""

    async def create(self, spec: SandboxSpec) -> None:
        if await self.good.presence(spec.name) is Presence.ABSENT:
            await self.good.create(spec)


class _ForgetsALimit(_BadEngine):
    """It says that it bounds processes, and does not."""

    async def create(self, spec: SandboxSpec) -> None:
        unlimited = Resources.model_validate({**spec.resources.model_dump(), "processes": None})
        await self.good.create(spec.model_copy(update={"resources": unlimited}))


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to be bad, and the name of the one check that finds it."""

    engine: type[_BadEngine]
    found_by: str


def _of_processes(process: type[_BadProcess]) -> type[_BadEngine]:
    return type(f"Engine{process.__name__}", (_BadEngine,), {"process": process})


FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        "takes output for text": Fault(_of_processes(_LosesNul), "bytes-go-in-and-out-exactly"),
        "loses a byte": Fault(_of_processes(_LosesOne), "a-large-stream-is-whole-and-a-slow-reader-holds-the-guest"),
        "swallows an exit code": Fault(_of_processes(_SwallowsAnExit), "an-exit-code-arrives"),
        "leaves children": Fault(_of_processes(_LeavesChildren), "closing-ends-what-a-finished-program-left"),
        "runs elsewhere": Fault(_RunsElsewhere, "what-cannot-start-is-refused-with-the-reason"),
        "leaks the host's environment": Fault(_LeaksTheHost, "directory-and-environment-are-what-was-asked"),
        "calls unknown absent": Fault(_CallsUnknownAbsent, "unknown-is-not-absent"),
        "takes what is there": Fault(_TakesWhatIsThere, "a-name-exists-once"),
        "forgets a limit": Fault(_ForgetsALimit, "a-fork-bomb-stops-at-the-limit-and-can-be-ended"),
    }
)
"""Every fault by name."""


def with_fault(plugin: type[EnginePlugin], fault: Fault) -> type[EnginePlugin]:
    """Return the plugin of an engine that is as good as ``plugin``'s but for one fault."""

    class BadPlugin(plugin):  # type: ignore[valid-type,misc] # a class that is known when this runs
        """The good plugin, whose engine is wrapped."""

        def open(self, context: EngineContext) -> AbstractAsyncContextManager[Engine]:
            return _opened(plugin(), fault, context)

    return BadPlugin


@asynccontextmanager
async def _opened(good: EnginePlugin, fault: Fault, context: EngineContext) -> AsyncIterator[Any]:
    async with good.open(context) as engine:
        yield fault.engine(engine)
