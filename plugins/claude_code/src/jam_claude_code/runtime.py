"""The runtime: one program for each thread that is opened or resumed, all of them ended with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
from anyio.abc import TaskGroup, TaskStatus

from jam_claude_code.config import program
from jam_claude_code.description import NAME
from jam_claude_code.opening import running
from jam_claude_code.pins import PROGRAM_VERSION, VERSION
from jam_claude_code.plan import thread_directory
from jam_claude_code.protocol import is_identity, nonsense, refused
from jam_claude_code.thread import Thread
from jam_claude_code.transcript import Remembered, remembered
from jamcore.api import (
    ApprovalAnswer,
    GuestLauncher,
    ProviderEvent,
    ProviderGoneError,
    ProviderIdentity,
    RuntimeRequest,
    ThreadRequest,
    ThreadState,
    owned_tasks,
    random_id,
)

PROBE_S = 30.0
"""The program's version: 0.03 s, and more where it lies on a cold disk."""


class ClaudeCodeRuntime:
    """See :class:`jamcore.api.ProviderRuntime`. Made by :func:`open_claude_code`, which owns all that it starts."""

    def __init__(self, request: RuntimeRequest, launcher: GuestLauncher, version: str, tasks: TaskGroup) -> None:
        self._request, self._launcher, self._tasks = request, launcher, tasks
        self._version = version
        self._threads: dict[str, Thread] = {}
        self._opening = anyio.Lock()
        self._changed = anyio.Event()

    @property
    def version(self) -> str:
        """The version that the program reported of itself."""
        return self._version

    async def closed(self) -> str:
        """See :class:`jamcore.api.ProviderRuntime`: a thread's program is gone. Jam gives each session a runtime of its own."""
        while True:
            for thread in self._threads.values():
                if thread.gone.is_set():
                    return thread.why
            await self._changed.wait()

    # ------------------------------------------------------------------------------------------------------------ threads

    async def open_thread(self, request: ThreadRequest) -> ThreadState:
        """See :class:`jamcore.api.ProviderRuntime`. Nothing is written before the first turn: until then nothing can be resumed."""
        identity = random_id()
        return ThreadState(identity=await self._start(identity, request, Remembered(), resume=False))

    async def resume_thread(self, identity: ProviderIdentity, request: ThreadRequest) -> ThreadState:
        """See :class:`jamcore.api.ProviderRuntime`. Nothing here ever starts a thread (CONT-1).

        The transcript is read first, and one without a turn is refused. Of one that lost its beginning the program says nothing: that is
        for the caller to see, who knows which turns were captured and gets those that the transcript holds.
        """
        if not is_identity(identity):
            raise refused("resume", "that is no id of a thread")
        thread = self._threads.get(identity)
        if thread is not None and not thread.gone.is_set():
            raise refused("resume", "the thread is loaded already")
        directory = thread_directory(self._request.state_root, identity)
        found = await remembered(self._launcher, directory, identity, request.cwd)
        return ThreadState(identity=await self._start(identity, request, found, resume=True), turns=found.turns)

    async def _start(self, identity: str, request: ThreadRequest, found: Remembered, *, resume: bool) -> str:
        thread = Thread(identity, request, self._request, self._launcher, spent=found, told_end=self._note_end)
        async with self._opening:
            reported: str = await self._tasks.start(self._keep, thread, request, resume)
        if reported == identity:
            self._threads[identity] = thread
        return reported

    async def _keep(self, thread: Thread, request: ThreadRequest, resume: bool, *, task_status: TaskStatus[str]) -> None:
        """Own a thread's program until the runtime ends: whoever asked for the thread may be gone long before."""
        async with running(thread, request, self._request, self._launcher, resume=resume) as reported:
            task_status.started(reported)
            await anyio.sleep_forever()

    # -------------------------------------------------------------------------------------------------------------- turns

    def turn(self, identity: ProviderIdentity, text: str) -> AbstractAsyncContextManager[AsyncIterator[ProviderEvent]]:
        """See :class:`jamcore.api.ProviderRuntime`.

        ``TurnStarted`` comes once the person's message is in the transcript. A turn that fails before that has none.

        Raises:
            ProviderRefusedError: The thread is not loaded, or a turn runs in it.
        """
        thread = self._threads.get(identity)
        if thread is None:
            raise refused("turn", "the thread is not loaded")
        return thread.run(text)

    async def interrupt(self, identity: ProviderIdentity) -> None:
        """See :class:`jamcore.api.ProviderRuntime`. When it returns, the turn is over and its commands are gone.

        Raises:
            ProviderTimeoutError: The program did not end the turn in time.
        """
        if (thread := self._threads.get(identity)) is not None:
            await thread.interrupt()

    async def answer(self, identity: ProviderIdentity, request: str, answer: ApprovalAnswer) -> None:
        """See :class:`jamcore.api.ProviderRuntime`."""
        if (thread := self._threads.get(identity)) is not None:
            thread.answer(request, answer)

    def _note_end(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


@asynccontextmanager
async def open_claude_code(request: RuntimeRequest, launcher: GuestLauncher) -> AsyncIterator[ClaudeCodeRuntime]:
    """Have threads for the length of the block; each starts its own program.

    Raises:
        SandboxGoneError, ExecRefusedError: The program cannot be started.
        ProviderRefusedError, ProviderProtocolError: It is not the pinned one.
    """
    version = await _probe(request, launcher)
    if request.expected_version is not None and (request.expected_version, version) != (VERSION, PROGRAM_VERSION):
        what = f"the program in the sandbox is {version} of {request.expected_version}, not {PROGRAM_VERSION} of {VERSION}"
        raise refused("version", what)
    async with owned_tasks() as tasks:
        yield ClaudeCodeRuntime(request, launcher, version, tasks)
        tasks.cancel_scope.cancel()


async def _probe(request: RuntimeRequest, launcher: GuestLauncher) -> str:
    code, output = await launcher.run((program(request), "--version"), cwd=request.start_directory, timeout_s=PROBE_S)
    if code is None:
        raise ProviderGoneError(provider=NAME, detail="it ended before it said its version")
    words = output.decode(errors="replace").split()
    if code != 0 or not words or not words[0][:1].isdecimal():
        raise nonsense(f"no version in {output[:80]!r}")
    return words[0]
