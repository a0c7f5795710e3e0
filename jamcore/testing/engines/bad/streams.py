"""Faults of bytes in and out, of arguments, and of terminals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

from jamcore.domain.sandboxes import EngineFailedError, ExecSpec, TerminalSize
from jamcore.system.guest import GuestProcess
from jamcore.testing.engines.bad.proxies import Altered, BadEngine, BadProcess, Fault, Input, in_a_shell, of_processes

AFTER_BYTES = 2 << 20
"""Small outputs stay whole: the fault is one of large streams."""
PATIENCE_S = 2.0
"""How long an engine that ends the output with the input waits for the first of it: a filter on a busy machine has begun by then."""
FEW_PROGRAMS = 12
TERMINAL_BYTES = 1024
"""Less than a terminal holds for a program that does not read."""


class _LosesNul(BadProcess):
    """Its error output has no NUL bytes: somebody took it for text."""

    @property
    def stderr(self) -> ByteReceiveStream:
        return Altered(self.good.stderr, lambda _, data: data.replace(b"\0", b""))


class _LosesOne(BadProcess):
    """Far into its output one byte is missing."""

    def __init__(self, good: GuestProcess, name: str, spec: ExecSpec, engine: BadEngine) -> None:
        super().__init__(good, name, spec, engine)
        self.stdout = Altered(good.stdout, lambda before, data: data[1:] if before <= AFTER_BYTES < before + len(data) else data)


class _EndsTheOutputWithTheInput(BadProcess):
    """Whoever was sent something and has not begun to answer when that ends is not heard any more."""

    def __init__(self, good: GuestProcess, name: str, spec: ExecSpec, engine: BadEngine) -> None:
        super().__init__(good, name, spec, engine)
        self.begun = anyio.Event()
        self.deaf = False
        self.stdout = Altered(good.stdout, self._hear)
        self.stdin = _EndsBoth(good.stdin, self)

    def _hear(self, _: int, data: bytes) -> bytes:
        self.begun.set()
        return b"" if self.deaf else data


class _EndsBoth(Input):
    def __init__(self, good: ByteSendStream, process: _EndsTheOutputWithTheInput) -> None:
        super().__init__(good)
        self._process = process
        self._sent = False

    async def send(self, item: bytes) -> None:
        self._sent = self._sent or bool(item)
        await self.good.send(item)

    async def aclose(self) -> None:
        if self._sent:
            with anyio.move_on_after(PATIENCE_S):
                await self._process.begun.wait()
            self._process.deaf = not self._process.begun.is_set()
        await self.good.aclose()


class _OneInputIsAll(BadProcess):
    """Its input ends with the first thing that is sent."""

    def __init__(self, good: GuestProcess, name: str, spec: ExecSpec, engine: BadEngine) -> None:
        super().__init__(good, name, spec, engine)
        self.stdin = good.stdin if spec.terminal else _Once(good.stdin)


class _Once(Input):
    ended = False

    async def send(self, item: bytes) -> None:
        if item and self.ended:
            raise anyio.BrokenResourceError
        if item:
            await self.good.send(item)
            self.ended = True
            await self.good.aclose()


class _BuffersInput(BadProcess):
    """What is not read stays with the engine, however much it is."""

    def __init__(self, good: GuestProcess, name: str, spec: ExecSpec, engine: BadEngine) -> None:
        super().__init__(good, name, spec, engine)
        self.stdin = good.stdin if spec.terminal else _Buffered(good.stdin, engine)


class _Buffered(Input):
    def __init__(self, good: ByteSendStream, engine: BadEngine) -> None:
        super().__init__(good)
        self._engine = engine
        self._order = anyio.Lock()

    async def send(self, item: bytes) -> None:
        if not self._order.locked():  # what can be known at once is: whether anybody is there at all
            await self.good.send(item[:1])
            item = item[1:]

        async def write() -> None:
            async with self._order:
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await self.good.send(item)

        self._engine.tasks.start_soon(write)
        await anyio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        async def close() -> None:
            async with self._order:
                await self.good.aclose()

        self._engine.tasks.start_soon(close)
        await anyio.lowlevel.checkpoint()


class _KeepsABrokenInput(BadProcess):
    """Writing to a program that does not read any more is fine."""

    def __init__(self, good: GuestProcess, name: str, spec: ExecSpec, engine: BadEngine) -> None:
        super().__init__(good, name, spec, engine)
        self.stdin = _Swallowing(good.stdin)


class _Swallowing(Input):
    async def send(self, item: bytes) -> None:
        with suppress(anyio.BrokenResourceError):
            await self.good.send(item)


class _ExpandsVariables(BadEngine):
    """An argument that is the name of a variable becomes its value, as in a shell."""

    def program(self, name: str, spec: ExecSpec) -> ExecSpec:
        del name
        return spec.model_copy(update={"argv": tuple(re.sub(r"^\$[A-Z]+$", "", part) for part in spec.argv)})


class _TakesArgumentsForText(BadEngine):
    """A byte of an argument that is no text is a question mark."""

    def program(self, name: str, spec: ExecSpec) -> ExecSpec:
        del name
        return spec.model_copy(update={"argv": tuple(part.encode(errors="replace").decode() for part in spec.argv)})


class _CutsAtNul(BadEngine):
    """An argument ends where a string of C does."""

    def program(self, name: str, spec: ExecSpec) -> ExecSpec:
        del name
        return spec.model_copy(update={"argv": tuple(part.partition("\0")[0] for part in spec.argv)})


class _HasFewChannels(BadEngine):
    """It has channels for a dozen programs, and refuses the next."""

    def __init__(self, good: object) -> None:
        super().__init__(good)
        self.open = 0

    async def exec(self, name: str, spec: ExecSpec) -> GuestProcess:
        if self.open >= FEW_PROGRAMS:
            raise EngineFailedError(engine=self.name, operation="exec", detail="no channel is free")
        self.open += 1
        try:
            return _Channel(await self.good.exec(name, spec), name, spec, self)
        except BaseException:
            self.open -= 1
            raise


class _Channel(BadProcess):
    closed = False
    engine: _HasFewChannels

    async def aclose(self) -> None:
        self.engine.open -= not self.closed
        self.closed = True
        await self.good.aclose()


class _HasNoTerminalToResize(BadProcess):
    """Resizing what is no terminal is an error."""

    async def resize(self, size: TerminalSize) -> None:
        if self.spec.terminal is None:
            raise EngineFailedError(engine=self.engine.name, operation="resize", detail="not a terminal")
        await self.good.resize(size)


class _LosesErrorsOfATerminal(BadEngine):
    """Its terminals are input and output alone."""

    def program(self, name: str, spec: ExecSpec) -> ExecSpec:
        del name
        return in_a_shell(spec, "exec 2>/dev/null") if spec.terminal else spec


class _DropsWhatATerminalDoesNotTake(BadProcess):
    """What a full terminal does not take at once is gone."""

    def __init__(self, good: GuestProcess, name: str, spec: ExecSpec, engine: BadEngine) -> None:
        super().__init__(good, name, spec, engine)
        self.stdin = _Dropping(good.stdin) if spec.terminal else good.stdin


class _Dropping(Input):
    async def send(self, item: bytes) -> None:
        await self.good.send(item[:TERMINAL_BYTES])


FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        "takes output for text": Fault(of_processes(_LosesNul), "bytes-go-in-and-out-exactly"),
        "ends the output with the input": Fault(
            of_processes(_EndsTheOutputWithTheInput), "a-closed-input-is-an-end-and-the-answer-still-comes"
        ),
        "takes one input for all": Fault(of_processes(_OneInputIsAll), "input-stays-open-until-it-is-closed"),
        "loses a byte": Fault(of_processes(_LosesOne), "a-large-stream-is-whole-and-a-slow-reader-holds-the-guest"),
        "buffers input without bound": Fault(of_processes(_BuffersInput), "a-guest-that-does-not-read-holds-the-writer"),
        "takes a broken input for a good one": Fault(
            of_processes(_KeepsABrokenInput), "a-guest-that-stops-reading-ends-the-writer"
        ),
        "expands variables": Fault(_ExpandsVariables, "a-program-is-found-on-the-path-without-a-shell"),
        "takes arguments for text": Fault(_TakesArgumentsForText, "long-arguments-and-environments-pass"),
        "cuts an argument at a NUL": Fault(_CutsAtNul, "too-long-and-impossible-arguments-are-refused"),
        "has few channels": Fault(_HasFewChannels, "sixteen-at-once"),
        "resizes terminals alone": Fault(of_processes(_HasNoTerminalToResize), "a-program-on-pipes-has-no-terminal"),
        "loses the errors of a terminal": Fault(_LosesErrorsOfATerminal, "a-terminal-is-the-controlling-one"),
        "drops what a terminal does not take": Fault(
            of_processes(_DropsWhatATerminalDoesNotTake), "a-terminal-that-nobody-reads-holds-its-writer-and-can-be-ended"
        ),
    }
)
"""The faults by name."""
