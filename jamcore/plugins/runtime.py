"""What a provider plugin returns when its runtime is opened, and what it is given to start processes with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from jamcore.domain.approvals import ApprovalAnswer
from jamcore.domain.events import ProviderEvent
from jamcore.domain.ids import ProviderIdentity
from jamcore.domain.providers import ThreadRequest, ThreadState
from jamcore.system.guest import GuestProcess


class GuestLauncher(Protocol):
    """Starts processes in exactly one prepared sandbox (the core's PreparedExec behind it)."""

    async def start(self, argv: tuple[str, ...], *, cwd: str, environment: tuple[tuple[str, str], ...] = ()) -> GuestProcess:
        """Start a long-lived process. The caller owns and closes it.

        Raises:
            SandboxGoneError: The sandbox is not running.
            ExecRefusedError: The program could not be started.
        """

    async def run(
        self,
        argv: tuple[str, ...],
        *,
        cwd: str,
        timeout_s: float,
        limit: int = 65_536,
        environment: tuple[tuple[str, str], ...] = (),
    ) -> tuple[int | None, bytes]:
        """Run a short command to its end, with nothing to read.

        Returns:
            Its code (``None``: a signal or the time limit ended it), and the first ``limit`` bytes of its standard output. Its error output
            is not returned.

        Raises:
            SandboxGoneError: The sandbox is not running.
            ExecRefusedError: The program could not be started.
        """


class ProviderRuntime(Protocol):
    """A provider's running program: threads and turns. Owned by one worker; closed by leaving its context."""

    @property
    def version(self) -> str:
        """The program's own version, probed in the guest."""

    async def closed(self) -> str:
        """Wait until the program is gone or the connection was closed on nonsense, and return why, in bounded words."""

    async def open_thread(self, request: ThreadRequest) -> ThreadState:
        """Begin a new thread.

        Raises:
            ProviderRefusedError, ProviderGoneError, ProviderTimeoutError, ProviderProtocolError: It did not begin.
        """

    async def resume_thread(self, identity: ProviderIdentity, request: ThreadRequest) -> ThreadState:
        """Bring back an existing thread, exactly: never a new one, whatever is missing (CONT-1).

        The returned identity is what the program reported, not what was asked for, and the turns are those that it holds, each captured one
        among them: the caller compares both, and takes a thread without them for a blank one (:class:`ThreadState`).

        Raises:
            ProviderRefusedError, ProviderGoneError, ProviderTimeoutError, ProviderProtocolError: It did not come back.
        """

    def turn(self, identity: ProviderIdentity, text: str) -> AbstractAsyncContextManager[AsyncIterator[ProviderEvent]]:
        """Run one turn of a loaded thread.

        The iterator yields events in order and ends after ``TurnEnded``. Leaving the context early interrupts the turn. One turn at a
        time per thread: the caller's permit sees to it.

        Raises (from the iterator):
            ProviderGoneError: The program ended before the end mark; the turn is cut.
            ProviderProtocolError: The program spoke nonsense; the connection is closed and the turn is cut.
        """

    async def interrupt(self, identity: ProviderIdentity) -> None:
        """Stop the running turn and its background commands; the turn's stream then ends with INTERRUPTED. Idle: does nothing."""

    async def answer(self, identity: ProviderIdentity, request: str, answer: ApprovalAnswer) -> None:
        """Answer what an ``ApprovalRequested`` of the running turn asked, by its ``request``: this once, or no.

        "Always" is never handed on: it is Jam's own rule. A request that is not open any more is passed over. A plugin whose description
        says ``approvals=False`` never asks and is never called.

        Raises:
            ProviderGoneError, ProviderProtocolError: The connection ended first.
        """


@runtime_checkable
class ReleasesThreads(Protocol):
    """A runtime that can have a thread no longer: one more method, for a program that serves several sessions.

    A runtime without it takes a resume of a thread that it has loaded as if it had not. Where a session has a process of its own, the
    process is ended instead.
    """

    async def release_thread(self, identity: ProviderIdentity) -> None:
        """Have a thread no longer: no turn of it is taken until it is resumed again, and that resume is as any other.

        Called when a thread came back and is not taken: without what was captured, or nobody waits for it any more. No turn runs in it. A
        thread that is not loaded is passed over.

        Raises:
            ProviderRefusedError, ProviderGoneError, ProviderTimeoutError, ProviderProtocolError: The program has it still.
        """
