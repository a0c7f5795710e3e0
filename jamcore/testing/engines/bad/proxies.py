"""What bad engines are made of: a good engine and its processes, with everything as it was but for what a subclass replaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, ClassVar

from anyio.abc import ByteReceiveStream, ByteSendStream, TaskGroup

from jamcore.domain.sandboxes import ExecSpec, SandboxSpec
from jamcore.system.guest import GuestProcess


class Proxy:
    """Everything of the good one but what a subclass replaces; the good one's own Protocols are still there."""

    def __init__(self, good: Any) -> None:  # noqa: ANN401 - an engine or a process, and whatever abilities it has
        self.good = good

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self.good, name)


class BadProcess(Proxy):
    """A process with one of the faults of processes; it knows what was asked for and the engine that made it."""

    def __init__(self, good: GuestProcess, name: str, spec: ExecSpec, engine: BadEngine) -> None:
        super().__init__(good)
        self.sandbox = name
        self.spec = spec
        self.engine = engine


class BadEngine(Proxy):
    """An engine with one of the faults of engines. ``specs`` are those that it was asked to make itself; ``tasks`` ends with it.

    ``siblings`` are all engines that are open of the same plugin, this one among them.
    """

    process: ClassVar[type[BadProcess] | None] = None
    tasks: TaskGroup
    siblings: list[BadEngine]

    def __init__(self, good: Any) -> None:  # noqa: ANN401
        super().__init__(good)
        self.specs: dict[str, SandboxSpec] = {}

    def sandbox(self, spec: SandboxSpec) -> SandboxSpec:
        """Return what the good engine is asked to make instead."""
        return spec

    def program(self, name: str, spec: ExecSpec) -> ExecSpec:
        """Return what the good engine is asked to start instead in the sandbox of that name."""
        del name
        return spec

    async def create(self, spec: SandboxSpec) -> None:
        """See the port."""
        self.specs[spec.name] = spec
        await self.good.create(self.sandbox(spec))

    async def exec(self, name: str, spec: ExecSpec) -> GuestProcess:
        """See the port."""
        made: GuestProcess = await self.good.exec(name, self.program(name, spec))
        return made if self.process is None else self.process(made, name, spec, self)

    async def run(self, name: str, *argv: str) -> None:
        """Run a program of the engine's own to its end, also in a frozen sandbox."""
        made: GuestProcess = await self.good.exec(name, ExecSpec(argv=argv, cwd="/", while_frozen=True))
        try:
            await made.wait()
        finally:
            await made.aclose()

    async def closing(self) -> None:
        """Do what there is to do before the good engine is closed."""


class Altered(ByteReceiveStream):
    """A stream whose chunks are changed on the way; the change is told how many bytes came before."""

    def __init__(self, good: ByteReceiveStream, change: Callable[[int, bytes], bytes]) -> None:
        self._good = good
        self._change = change
        self._before = 0

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """See the stream."""
        while True:
            data = await self._good.receive(max_bytes)
            changed = self._change(self._before, data)
            self._before += len(data)
            if changed:
                return changed

    async def aclose(self) -> None:
        """See the stream."""
        await self._good.aclose()


class Input(ByteSendStream):
    """The input of a process, as good as it was; a subclass says what is not."""

    def __init__(self, good: ByteSendStream) -> None:
        self.good = good

    async def send(self, item: bytes) -> None:
        """See the stream."""
        await self.good.send(item)

    async def aclose(self) -> None:
        """See the stream."""
        await self.good.aclose()


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to be bad, and the name of the one check that finds it."""

    engine: type[BadEngine]
    found_by: str


def of_processes(process: type[BadProcess]) -> type[BadEngine]:
    """Return the engine whose processes have a fault, and nothing else."""
    return type(f"Engine{process.__name__}", (BadEngine,), {"process": process})


def in_a_shell(spec: ExecSpec, first: str) -> ExecSpec:
    """Return the program that does ``first`` in a shell before it becomes what was asked for.

    Only for shells and Pythons, which are there: what cannot be started stays a refusal.
    """
    if not PurePosixPath(spec.argv[0]).name.startswith(("sh", "python")):
        return spec
    return spec.model_copy(update={"argv": ("sh", "-c", f'{first}; exec "$0" "$@"', *spec.argv)})
