"""Short commands in a guest: bounded in time and output, and nothing of them left running."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import anyio
from anyio.abc import ByteReceiveStream

from jamcore.domain.limits import CHILD_SHUTDOWN_S
from jamcore.domain.sandboxes import ExecSpec
from jamcore.engines.port import Engine
from jamcore.system.guest import GuestProcess
from jamcore.system.tasks import owned_tasks

OUTPUT_BYTES = 65_536
_DRAIN_S = 1.0
"""How long output may outlive its command: something that it started may hold the pipe."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended: ``code`` is ``None`` when a signal or the time limit ended it. ``output`` is its standard output."""

    code: int | None
    output: bytes
    timed_out: bool = False


async def run_command(
    engine: Engine,
    sandbox: str,
    spec: ExecSpec,
    *,
    timeout_s: float,
    close_within_s: float = CHILD_SHUTDOWN_S,
    stdin: bytes = b"",
    limit: int = OUTPUT_BYTES,
) -> CommandResult:
    """Run a command to its end. Output beyond ``limit`` bytes is read and dropped; the process tree is gone when this returns.

    Raises:
        SandboxGoneError: The sandbox is not running, or ended meanwhile.
        ExecRefusedError: The program could not be started.
    """
    process = await engine.exec(sandbox, spec)
    output, code, ended = bytearray(), None, False
    try:
        with anyio.move_on_after(timeout_s):
            async with owned_tasks() as tasks:
                tasks.start_soon(_feed, process, stdin)
                tasks.start_soon(_drain, process.stdout, output, limit)
                tasks.start_soon(_drain, process.stderr, bytearray(), 0)
                code = (await process.wait()).code
                ended = True
                tasks.cancel_scope.deadline = anyio.current_time() + _DRAIN_S
    finally:
        with anyio.move_on_after(close_within_s, shield=True):
            await process.aclose()
    return CommandResult(code=code, output=bytes(output), timed_out=not ended)


async def _feed(process: GuestProcess, data: bytes) -> None:
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        if data:
            await process.stdin.send(data)
        await process.stdin.aclose()


async def _drain(stream: ByteReceiveStream, kept: bytearray, limit: int) -> None:
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        while True:
            chunk = await stream.receive()
            kept += chunk[: max(0, limit - len(kept))]
