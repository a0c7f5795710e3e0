"""A sandbox under test: short ways to run programs in it and to see what became of them."""

from __future__ import annotations

import base64
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from jamcore.domain.sandboxes import ExecSpec, ExitStatus, SandboxSpec, TerminalSize
from jamcore.engines.port import Engine, EngineContext, EnginePlugin
from jamcore.system.guest import GuestProcess

TEST_LIMIT_S = 60.0
"""No single thing that a test waits for takes this long on a working engine."""
WORK = "/jam/work"


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program in the sandbox ended, and all that it wrote."""

    status: ExitStatus
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        """Standard output as text without surrounding space."""
        return self.out.decode(errors="surrogateescape").strip()


@dataclass(frozen=True, slots=True)
class Python:
    """The guest's Python of 3.8 or newer, which the tests are written in: how it is called, and what it needs to start."""

    argv: tuple[str, ...] = ("python3",)
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Box:
    """A created sandbox whose first mount is read-write: ``work`` on the host, :attr:`guest_work` inside.

    ``token`` tells this sandbox's programs from those of every other test: an engine without namespaces shows them all.
    """

    engine: Engine
    spec: SandboxSpec
    work: Path
    python: Python = field(default_factory=Python)
    token: str = field(default_factory=lambda: secrets.token_hex(6))

    @property
    def name(self) -> str:
        """The sandbox's name."""
        return self.spec.name

    @property
    def guest_work(self) -> str:
        """Where the guest sees ``work``."""
        return self.spec.mounts[0].guest_path

    def mark(self, text: str) -> str:
        """Return a word for a command line that no other test uses."""
        return f"mark-{text}-{self.token}"

    @asynccontextmanager
    async def sleeper(self, text: str) -> AsyncIterator[str]:
        """Start a program that does nothing for ten minutes, and yield its mark."""
        mark = self.mark(text)
        async with self.started(*self.sleep_argv(mark), environment=self.python.environment):
            await self.until_marked(mark, 1)
            yield mark

    def sleep_argv(self, mark: str) -> tuple[str, ...]:
        """Return a program that sleeps and carries a mark."""
        return (*self.python.argv, "-I", "-S", "-c", "import time; time.sleep(600)", mark)

    async def start(
        self,
        *argv: str,
        cwd: str = "/",
        environment: tuple[tuple[str, str], ...] = (),
        terminal: TerminalSize | None = None,
        timeout_s: float | None = None,
    ) -> GuestProcess:
        """Start a program; the caller closes it."""
        spec = ExecSpec(argv=argv, cwd=cwd, environment=environment, terminal=terminal, timeout_s=timeout_s)
        return await self.engine.exec(self.name, spec)

    @asynccontextmanager
    async def started(
        self,
        *argv: str,
        cwd: str = "/",
        environment: tuple[tuple[str, str], ...] = (),
        terminal: TerminalSize | None = None,
        timeout_s: float | None = None,
    ) -> AsyncIterator[GuestProcess]:
        """Start a program that is closed with the block."""
        process = await self.start(*argv, cwd=cwd, environment=environment, terminal=terminal, timeout_s=timeout_s)
        try:
            yield process
        finally:
            await process.aclose()

    @asynccontextmanager
    async def script(self, code: str, *arguments: str, terminal: TerminalSize | None = None) -> AsyncIterator[GuestProcess]:
        """Start Python code that is closed with the block."""
        argv = (*self.python.argv, "-I", "-S", "-u", "-c", code, *arguments)
        async with self.started(*argv, environment=self.python.environment, terminal=terminal) as process:
            yield process

    async def run(
        self,
        *argv: str,
        stdin: bytes = b"",
        cwd: str = "/",
        environment: tuple[tuple[str, str], ...] = (),
        timeout_s: float | None = None,
    ) -> Ran:
        """Run a program to its end."""
        with anyio.fail_after(TEST_LIMIT_S):
            async with self.started(*argv, cwd=cwd, environment=environment, timeout_s=timeout_s) as process:
                return await finish(process, stdin)

    async def code(self, code: str, *arguments: str, stdin: bytes = b"", timeout_s: float | None = None) -> Ran:
        """Run Python code to its end."""
        argv = (*self.python.argv, "-I", "-S", "-u", "-c", code, *arguments)
        return await self.run(*argv, stdin=stdin, environment=self.python.environment, timeout_s=timeout_s)

    async def pids_of(self, mark: str) -> tuple[int, ...]:
        """Return the guest's pids of living processes whose command line holds ``mark``.

        Asked encoded, so that the process that looks does not see itself.
        """
        ran = await self.code(FIND_MARK, base64.b64encode(mark.encode()).decode())
        assert ran.status.ok, ran.err
        return tuple(int(word) for word in ran.out.split())

    async def until_marked(self, mark: str, count: int) -> tuple[int, ...]:
        """Wait until exactly ``count`` processes carry the mark."""
        with anyio.fail_after(TEST_LIMIT_S):
            while len(found := await self.pids_of(mark)) != count:  # noqa: ASYNC110 - no event of ours says it
                await anyio.sleep(0.005)
        return found


FIND_MARK = """
import base64, os, sys
mark = base64.b64decode(sys.argv[1])
for name in os.listdir("/proc"):
    if name.isdigit():
        try:
            with open(f"/proc/{name}/cmdline", "rb") as stream:
                line = stream.read()
            with open(f"/proc/{name}/stat", "rb") as stream:
                state = stream.read().rpartition(b") ")[2][:1]
        except OSError:
            continue
        if mark in line and state not in b"ZX":
            print(name)
"""


async def finish(process: GuestProcess, stdin: bytes = b"") -> Ran:
    """Feed a process, read both outputs to their ends, and wait."""
    out, err = bytearray(), bytearray()

    async def feed() -> None:
        with suppress(anyio.BrokenResourceError):
            await process.stdin.send(stdin)
        await process.stdin.aclose()

    async def read_errors() -> None:
        async for chunk in process.stderr:
            err.extend(chunk)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(feed)
        tasks.start_soon(read_errors)
        async for chunk in process.stdout:
            out += chunk
    return Ran(await process.wait(), bytes(out), bytes(err))


async def read_until(process: GuestProcess, wanted: bytes) -> bytes:
    """Read standard output until ``wanted`` has appeared, and return what was read."""
    seen = bytearray()
    with anyio.fail_after(TEST_LIMIT_S):
        while wanted not in seen:
            seen += await process.stdout.receive()
    return bytes(seen)


@asynccontextmanager
async def opened(plugin: type[EnginePlugin], root: Path) -> AsyncIterator[Engine]:
    """Open an engine over ``root`` as a daemon would; its runtime directory is new each time."""
    private = root / "engine"
    runtime = root / "run"
    for directory in (private, runtime):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with plugin().open(EngineContext(root=private, runtime=runtime)) as engine:
        yield engine


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait for something that another process does."""
    with anyio.fail_after(TEST_LIMIT_S):
        while not condition():  # noqa: ASYNC110 - no event of ours says it
            await anyio.sleep(0.002)
