"""Jam's own programs in a host's sandbox: the helper that copies and restores databases (CONT-5)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import anyio

from jamcore.continuity.databases.guest_calls import GuestDatabases
from jamcore.continuity.resuming.databases import DatabaseActivator
from jamcore.domain.plan import GUEST_HOME, Plan
from jamcore.domain.sandboxes import ExecSpec, SandboxGoneError
from jamcore.engines.port import BringsPython
from jamcore.sandbox.ownership import Ownership
from jamcore.sandbox.places import GuestView
from jamcore.system.guest import GuestProcess

CLOSE_S = 5.0
"""For the helper's end: its tree is killed, which takes milliseconds."""
STOP_S = 5.0
"""For the stop of a sandbox that was started for the helper, once its caller's time is over: whoever ends a host parks it besides."""


@dataclass(slots=True)
class GuestPython:
    """Starts Python in one sandbox. Owned by one worker.

    ``may_wake``: once nothing of the sandbox runs any more and its host has no provider, it is started for the helper alone and stopped
    again: a final checkpoint needs the databases also where the sandbox's processes died.
    """

    ownership: Ownership
    plan: Plan
    may_wake: bool = False

    def databases(self, view: GuestView, host: str) -> GuestDatabases:
        """Return the way to the databases in this sandbox."""
        return GuestDatabases(self.run, view.path(GUEST_HOME), host)

    @asynccontextmanager
    async def run(self, arguments: tuple[str, ...]) -> AsyncIterator[GuestProcess]:
        """Run Python with these arguments, as a program that also runs while the guest stands still; end its tree at the end.

        Raises:
            SandboxGoneError: The sandbox does not run, and may not be started for this.
            ExecRefusedError: Python could not be started.
            OwnershipMismatchError, ProofLostError: What was started is not proven to be this plan's; it was stopped again.
        """
        async with AsyncExitStack() as stack:
            try:
                process = await self._exec(arguments)
            except SandboxGoneError:
                if not self.may_wake:
                    raise
                await self._wake(stack)
                process = await self._exec(arguments)
            stack.push_async_callback(_close, process)
            yield process

    async def _exec(self, arguments: tuple[str, ...]) -> GuestProcess:
        engine = self.ownership.engine
        program, variables = engine.python() if isinstance(engine, BringsPython) else ("python3", ())
        spec = ExecSpec(argv=(program, *arguments), cwd="/", environment=variables, while_frozen=True)
        return await engine.exec(self.plan.name, spec)

    async def _wake(self, stack: AsyncExitStack) -> None:
        calls, name = self.ownership.calls, self.plan.name
        marker, _ = self.ownership.verify_record(self.plan)
        stack.push_async_callback(self._park)
        await calls.start(name)
        await self.ownership.prove(name, marker.nonce)

    async def _park(self) -> None:
        """Stop it again. A caller that is cancelled meanwhile, or was before, waits for a part of its own time at most."""
        calls, name = self.ownership.calls, self.plan.name
        try:
            await calls.stop(name)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(STOP_S, shield=True):
                await calls.stop(name)
            raise


@dataclass(frozen=True, slots=True)
class HostDatabases:
    """What one host's continuity needs for databases: the way to them, and who puts them in place."""

    python: GuestPython
    guest: GuestDatabases
    activator: DatabaseActivator

    def let_wake(self) -> None:
        """Say that the host has no provider any more: its sandbox may be started for a copy."""
        self.python.may_wake = True


async def _close(process: GuestProcess) -> None:
    with anyio.move_on_after(CLOSE_S, shield=True):
        await process.aclose()
