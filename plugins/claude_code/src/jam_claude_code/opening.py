"""Starting Claude Code in the guest, and ending it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jam_claude_code.config import arguments, environment
from jam_claude_code.description import NAME
from jam_claude_code.frames import Frames
from jam_claude_code.plan import temporary_directory, thread_directory
from jam_claude_code.thread import Thread
from jam_claude_code.transcript import clean
from jamcore.api import GuestLauncher, LineClient, RuntimeRequest, ThreadRequest, speaking


@asynccontextmanager
async def running(
    thread: Thread, request: ThreadRequest, runtime: RuntimeRequest, launcher: GuestLauncher, *, resume: bool
) -> AsyncIterator[str]:
    """Run a thread's program for the length of the block; yields the id that the program reports.

    Raises:
        SandboxGoneError, ExecRefusedError: The program could not be started.
        ProviderRefusedError, ProviderGoneError, ProviderTimeoutError, ProviderProtocolError: It did not come up with the thread.
    """
    identity = thread.identity
    directory, temporary = thread_directory(runtime.state_root, identity), temporary_directory(runtime.home, identity)
    await clean(launcher, directory, temporary, identity, request.cwd)
    argv = arguments(runtime, request, identity, resume=resume)
    process = await launcher.start(argv, cwd=request.cwd, environment=environment(runtime, identity))
    client = LineClient.over(
        process, provider=NAME, notified=thread.notified, asked=thread.asked, ended=thread.ended, framing=Frames()
    )
    # The end of its input alone lets the program finish what it does, which may take as long as a turn.
    async with speaking(process, client, shutdown_s=runtime.shutdown_s, last=thread.end_turn):
        yield await thread.begin(client, process, resume=resume)
