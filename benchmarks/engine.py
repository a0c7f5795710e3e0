"""What a sandbox and a program in it cost, beside what the same program costs without Jam: ``python -m benchmarks.engine``.

Each figure is the median of many runs in one process, so that all of them were measured under the same load.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

from jamcore.domain.sandboxes import ExecSpec, SandboxSpec
from jamcore.engines.bubblewrap import BubblewrapEnginePlugin
from jamcore.engines.bubblewrap.machine import look
from jamcore.engines.port import Engine, EngineContext
from jamcore.system.files import Files

ROUNDS = 50
CREATIONS = 15
STREAM_BYTES = 256 << 20
TRUE = "/usr/bin/true"


class Timer:
    """Collects milliseconds."""

    def __init__(self) -> None:
        self.values: list[float] = []

    @contextmanager
    def lap(self) -> Iterator[None]:
        """Measure a block."""
        began = time.perf_counter()
        yield
        self.values.append((time.perf_counter() - began) * 1000)

    @property
    def line(self) -> str:
        """Median, and the slowest tenth's border."""
        ordered = sorted(self.values)
        return f"{statistics.median(ordered):8.2f} ms   (90th percentile {ordered[int(len(ordered) * 0.9) - 1]:.2f}, {len(ordered)} runs)"


async def run_true(engine: Engine, name: str) -> None:
    """Run one program to its end, the way that callers do."""
    process = await engine.exec(name, ExecSpec(argv=(TRUE,), cwd="/"))
    try:
        status = await process.wait()
    finally:
        await process.aclose()
    if not status.ok:
        raise RuntimeError(f"{TRUE} ended with {status}")


async def repeated(rounds: int, action: Callable[[], Awaitable[None]]) -> Timer:
    """Run an action some times; one more, not counted, goes first."""
    timer = Timer()
    await action()
    for _ in range(rounds):
        with timer.lap():
            await action()
    return timer


def bare(argv: tuple[str, ...], rounds: int) -> Timer:
    """Time a program started by the standard library alone."""
    timer = Timer()
    for _ in range(rounds):
        with timer.lap():
            subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    return timer


def bare_bwrap() -> tuple[str, ...]:
    """Return the least command line that makes comparable namespaces."""
    machine = look()
    if machine is None:
        raise SystemExit("bwrap is not installed")
    namespaces = ("--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")
    return (str(machine.bwrap), *namespaces, TRUE)


async def creations(engine: Engine, root: Path, rounds: int) -> tuple[Timer, Timer]:
    """Time from ``create`` to the end of the first program, and a stop."""
    first, stop = Timer(), Timer()
    for number in range(rounds):
        name = f"bench-{number}"
        with first.lap():
            await engine.create(SandboxSpec(name=name, guest_disk=str(root / name)))
            await run_true(engine, name)
        with stop.lap():
            await engine.remove(name)
    return first, stop


async def stream(engine: Engine, name: str) -> float:
    """Return MiB/s of one program's output."""
    argv = ("/usr/bin/head", "-c", str(STREAM_BYTES), "/dev/zero")
    began = time.perf_counter()
    process = await engine.exec(name, ExecSpec(argv=argv, cwd="/"))
    got = 0
    try:
        async for chunk in process.stdout:
            got += len(chunk)
    finally:
        await process.aclose()
    if got != STREAM_BYTES:
        raise RuntimeError(f"{got} bytes of {STREAM_BYTES} arrived")
    return STREAM_BYTES / (1 << 20) / (time.perf_counter() - began)


async def measure(rounds: int) -> None:
    """Measure and print the table."""
    with tempfile.TemporaryDirectory() as directory:
        root = Files().make_private(Path(directory).resolve() / "engine")
        async with BubblewrapEnginePlugin().open(EngineContext(root=root, runtime=root)) as engine:
            first, stop = await creations(engine, Path(directory).resolve(), CREATIONS)
            await engine.create(SandboxSpec(name="bench", guest_disk=str(Path(directory).resolve() / "bench")))
            warm = await repeated(rounds, lambda: run_true(engine, "bench"))
            speed = await stream(engine, "bench")
    table = {
        f"bare subprocess, {TRUE}": bare((TRUE,), rounds).line,
        f"bare bwrap, {TRUE}": bare(bare_bwrap(), rounds).line,
        "warm exec: start, wait, close": warm.line,
        "create to the first program's end": first.line,
        "stop and remove": stop.line,
        "output of one program": f"{speed:8.0f} MiB/s",
    }
    for subject, figures in table.items():
        print(f"{subject:36} {figures}")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    anyio.run(measure, parser.parse_args().rounds)


if __name__ == "__main__":
    main()
