"""Calls of an engine, each within its bound: what a person set, or the default (START-4).

Nothing is tried again (START-5). A question that is not answered in time is unknown, never "absent"; a change that takes too long failed.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass

import anyio

from jamcore.domain.limits import Limits
from jamcore.domain.sandboxes import CloneSource, EngineFailedError, EngineUnknownError, ExecSpec, Presence, SandboxSpec
from jamcore.engines.port import Clones, Engine, Proves
from jamcore.sandbox.commands import OUTPUT_BYTES, CommandResult, run_command


@dataclass(frozen=True, slots=True)
class EngineCalls:
    """One engine and the bounds of its calls. Its other abilities are asked of ``engine`` itself."""

    engine: Engine
    limits: Limits

    async def presence(self, sandbox: str) -> Presence:
        """Say whether it is there.

        Raises:
            EngineUnknownError: It cannot be said, or not in time.
        """
        with anyio.move_on_after(self.limits.read_s):
            return await self.engine.presence(sandbox)
        raise self._unknown("presence")

    async def proof(self, proves: Proves, sandbox: str) -> str:
        """Return the proof that the engine itself keeps.

        Raises:
            SandboxGoneError: No such sandbox.
            EngineUnknownError: It cannot be said, or not in time.
        """
        with anyio.move_on_after(self.limits.read_s):
            return await proves.proof(sandbox)
        raise self._unknown("proof")

    async def clone(self, clones: Clones, sandbox: str) -> CloneSource:
        """Return what the sandbox's clone was made from, and where its guest sees it.

        Raises:
            SandboxGoneError: No such sandbox, or it has no clone.
            EngineUnknownError: It cannot be said, or not in time.
        """
        with anyio.move_on_after(self.limits.read_s):
            return await clones.inspect_clone(sandbox)
        raise self._unknown("inspect-clone")

    async def create(self, spec: SandboxSpec) -> None:
        """Make and start a sandbox.

        Raises:
            EngineUnavailableError, EngineFailedError: As the port says, or it took too long.
        """
        await self._change("create", self.engine.create(spec), self.limits.create_s)

    async def start(self, sandbox: str) -> None:
        """Start a stopped sandbox.

        Raises:
            SandboxGoneError, EngineFailedError: As the port says, or it took too long.
        """
        await self._change("start", self.engine.start(sandbox), self.limits.lifecycle_s)

    async def stop(self, sandbox: str) -> None:
        """Stop a sandbox, once; :func:`jamcore.sandbox.teardown.park` goes on until it is done.

        Raises:
            EngineFailedError: It took too long.
        """
        await self._change("stop", self.engine.stop(sandbox), self.limits.lifecycle_s)

    async def remove(self, sandbox: str) -> None:
        """Remove a sandbox.

        Raises:
            EngineFailedError: It took too long.
        """
        await self._change("remove", self.engine.remove(sandbox), self.limits.lifecycle_s)

    async def command(self, sandbox: str, argv: tuple[str, ...], *, stdin: bytes = b"", limit: int = OUTPUT_BYTES) -> CommandResult:
        """Run one of Jam's own short commands in a guest; it is a read-only call of the engine.

        Raises:
            SandboxGoneError, ExecRefusedError: See :func:`jamcore.sandbox.commands.run_command`.
        """
        spec = ExecSpec(argv=argv, cwd="/", timeout_s=self.limits.read_s)
        return await run_command(
            self.engine,
            sandbox,
            spec,
            timeout_s=self.limits.read_s,
            close_within_s=self.limits.child_shutdown_s,
            stdin=stdin,
            limit=limit,
        )

    async def _change(self, operation: str, call: Awaitable[None], limit_s: float) -> None:
        with anyio.move_on_after(limit_s):
            await call
            return
        detail = f"it took longer than {limit_s:g} s"
        raise EngineFailedError(engine=self.engine.name, operation=operation, detail=detail)

    def _unknown(self, operation: str) -> EngineUnknownError:
        detail = f"it took longer than {self.limits.read_s:g} s"
        return EngineUnknownError(engine=self.engine.name, operation=operation, detail=detail)
