"""One running sandbox: its processes on the host, and what is asked of its process 1."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, nullcontext, suppress
from socket import socket

import anyio
from anyio.abc import TaskGroup

from jamcore.domain.sandboxes import EngineFailedError, ExecRefusedError, ExecSpec, SandboxGoneError, SandboxSpec
from jamcore.engines.port import FreezeReport
from jamcore.engines.supervised.control import Control, ControlLost
from jamcore.engines.supervised.guest import frames
from jamcore.engines.supervised.process import Ends, SupervisedProcess
from jamcore.system.guest import GuestProcess
from jamcore.system.process import KILLED_WITHIN_S, Child

ANSWER_LIMIT_S = 20.0
"""For what process 1 does itself; a freeze waits at most a quarter of that for a process to stand still."""

PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


def base_environment(home: str, user: str) -> tuple[tuple[str, str], ...]:
    """Return what every program finds; nothing of the host's environment (ENV-1)."""
    named = (("HOME", home), ("PATH", PATH), ("LANG", "C.UTF-8"), ("USER", user), ("LOGNAME", user))
    return (*named, ("SHELL", "/bin/bash"), ("TERM", "dumb"))


class Answer:
    """What somebody waits for: process 1's first word about a program or a question. No verb: the sandbox ended first."""

    def __init__(self) -> None:
        self.came = anyio.Event()
        self.verb = ""
        self.number = 0

    def take(self, verb: str, number: int) -> None:
        """Take the word and wake who waits."""
        self.verb, self.number = verb, number
        self.came.set()


class RunningSandbox:
    """Made while a sandbox starts; its owner is the engine's task for it. ``gone`` is set once the sandbox has ended."""

    def __init__(
        self,
        spec: SandboxSpec,
        child: Child,
        control_end: socket,
        tasks: TaskGroup,
        *,
        engine: str,
        base: tuple[tuple[str, str], ...],
    ) -> None:
        self.spec = spec
        self.engine = engine
        self.base = base
        self.child = child
        self.gone = anyio.Event()
        self.version = 0
        self.init_pid = 0
        self._init: int | None = None
        self._tasks = tasks
        self._control = Control(control_end, self._on_frame)
        self._ready = anyio.Event()
        self._next = 0
        self._processes: dict[int, SupervisedProcess] = {}
        self._answers: dict[int, Answer] = {}
        self._still = anyio.Lock()

    async def exec(self, spec: ExecSpec) -> GuestProcess:
        """See the port."""
        ident = self._ident()
        with ExitStack() as handed:
            ends = self._open(spec, handed)
            process = self._processes[ident] = SupervisedProcess(self.spec.name, ident, ends, self._send)
            answer = self._answers[ident] = Answer()
            asked = False
            try:
                async with nullcontext() if spec.while_frozen else self._still:  # nothing else is started in a frozen sandbox
                    await self._send(frames.EXEC, ident, 0, ends.guest)
                    asked = True
                ends.close_guest()  # process 1 has its own
                await answer.came.wait()
            except BaseException:
                await self._abandon(ident, process, asked=asked)
                raise
            finally:
                del self._answers[ident]
        if answer.verb != frames.STARTED:
            self._processes.pop(ident, None)
            process.tree_is_gone()
            await process.aclose()
            if not answer.verb:
                raise SandboxGoneError(sandbox=self.spec.name)
            raise self._refused(spec, answer.number)
        if spec.timeout_s is not None:
            self._tasks.start_soon(process.end_after, spec.timeout_s)
        return process

    @asynccontextmanager
    async def frozen(self) -> AsyncIterator[FreezeReport]:
        """See the port."""
        async with self._still:
            try:
                count = await self._ask(frames.FREEZE)
                if count < 0:
                    raise EngineFailedError(engine=self.engine, operation="freeze", detail="some processes would not stand still")
                yield FreezeReport(processes=count, method="SIGSTOP from process 1")
            finally:
                # After a cancelled question too: it may have been heard. A sandbox that ended has nothing to thaw.
                with anyio.CancelScope(shield=True), suppress(SandboxGoneError):
                    await self._ask(frames.THAW)

    async def ping(self) -> None:
        """Ask process 1 whether it is there.

        Raises:
            SandboxGoneError: It is not.
        """
        await self._ask(frames.PING)

    async def serve(self) -> None:
        """Read the control socket until the sandbox ends; then everybody who waits learns it."""
        try:
            await self._control.read()
        finally:
            self._end()

    async def watch(self) -> None:
        """Wait for the outer process. Killed alone it may leave process 1 behind, which then sees the end of its socket and ends."""
        await self.child.wait()
        self._control.close()

    async def wait_ready(self) -> None:
        """Wait for process 1's first word, or for the end."""
        await self._ready.wait()

    def holds(self, pid: int, descriptor: int) -> None:
        """Take number and pidfd of process 1: its end is the end of every process of the sandbox."""
        self.init_pid, self._init = pid, descriptor

    async def stop(self) -> None:
        """End everything and wait until the last process is gone. Not interrupted by cancellation; idempotent.

        Raises:
            TimeoutError: The kernel would not let a process go.
        """
        with anyio.CancelScope(shield=True):
            self._control.close()
            await self.child.end(grace_s=0)
            if self._init is not None:
                # The outer process is gone; process 1 died with it, but only its own end says that no process of it is left.
                init, self._init = self._init, None
                try:
                    with anyio.fail_after(KILLED_WITHIN_S):
                        await anyio.wait_readable(init)
                finally:
                    os.close(init)
            self._end()

    def _end(self) -> None:
        self.gone.set()
        self._ready.set()
        for process in self._processes.values():
            process.tree_is_gone()
        self._processes.clear()
        for answer in self._answers.values():
            answer.came.set()

    def _open(self, spec: ExecSpec, handed: ExitStack) -> Ends:
        """Open the descriptors of a program; the guest's are closed with ``handed`` at the latest.

        Raises:
            ExecRefusedError: These are no arguments or no environment.
            EngineFailedError: No descriptor is left.
        """
        try:
            request = self._request(spec)
        except OSError as error:
            raise self._refused(spec, error.errno or 0) from None
        try:
            ends = Ends(spec.terminal, memory_file(request))
        except OSError as error:
            raise EngineFailedError(
                engine=self.engine, operation="exec", detail=f"no descriptor is left: {error.strerror}"
            ) from error
        handed.callback(ends.close_guest)
        return ends

    def _request(self, spec: ExecSpec) -> bytes:
        """Return what travels to the adopter."""
        environment = dict((*self.base, *self.spec.environment, *spec.environment))
        request = frames.Request(
            [argument.encode(errors="surrogateescape") for argument in spec.argv],
            spec.cwd.encode(errors="surrogateescape"),
            [f"{name}={value}".encode(errors="surrogateescape") for name, value in environment.items()],
            terminal=spec.terminal is not None,
        )
        return request.encode()

    def _refused(self, spec: ExecSpec, number: int) -> ExecRefusedError:
        program = spec.argv[0] if spec.argv else ""
        return ExecRefusedError(sandbox=self.spec.name, program=program, reason=os.strerror(number))

    async def _abandon(self, ident: int, process: SupervisedProcess, *, asked: bool) -> None:
        """The caller went away before the program had started: end it if it does start. What was not asked for never starts."""
        if asked:
            with anyio.move_on_after(ANSWER_LIMIT_S, shield=True):
                if not self.gone.is_set() and ident in self._processes:
                    await process.kill_tree()
        self._processes.pop(ident, None)
        process.tree_is_gone()
        await process.aclose()

    async def _ask(self, verb: str) -> int:
        ident = self._ident()
        answer = self._answers[ident] = Answer()
        try:
            await self._send(verb, ident)
            with anyio.fail_after(ANSWER_LIMIT_S):
                await answer.came.wait()
        except TimeoutError as error:
            raise EngineFailedError(engine=self.engine, operation=verb, detail="no answer from process 1") from error
        finally:
            del self._answers[ident]
        if not answer.verb:
            raise SandboxGoneError(sandbox=self.spec.name)
        return answer.number

    async def _send(self, verb: str, ident: int, number: int = 0, descriptors: tuple[int, ...] = ()) -> None:
        if self.gone.is_set():
            raise SandboxGoneError(sandbox=self.spec.name)
        try:
            await self._control.send(verb, ident, number, descriptors)
        except ControlLost as error:
            raise SandboxGoneError(sandbox=self.spec.name) from error

    def _ident(self) -> int:
        self._next += 1
        return self._next

    def _on_frame(self, verb: str, ident: int, number: int) -> None:
        if verb == frames.HELLO:
            self.version = number
            self._ready.set()
        elif ident in self._answers and verb not in {frames.EXITED, frames.GONE}:
            self._answers[ident].take(verb, number)
        elif ident in self._processes and verb == frames.EXITED:
            self._processes[ident].has_exited(number)
        elif ident in self._processes and verb == frames.GONE:
            self._processes.pop(ident).tree_is_gone()


def memory_file(data: bytes) -> int:
    """Return a memory file that holds these bytes, read from its beginning.

    Raises:
        OSError: No descriptor or no memory is left.
    """
    descriptor = os.memfd_create("jam", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", buffering=0, closefd=False) as stream:
            view = memoryview(data)
            while view:
                view = view[stream.write(view) or 0 :]
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
