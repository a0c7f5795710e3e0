"""Starting Claude Code in the guest, and ending it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import anyio

from jam_claude_code.config import arguments, environment
from jam_claude_code.description import NAME
from jam_claude_code.frames import Frames
from jam_claude_code.plan import temporary_directory, thread_directory
from jam_claude_code.thread import Thread
from jam_claude_code.transcript import clean
from jamcore.api import GuestLauncher, GuestProcess, JamError, LineClient, RuntimeRequest, ThreadRequest


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
    async with AsyncExitStack() as stack:
        process = await launcher.start(argv, cwd=request.cwd, environment=environment(runtime, identity))
        stack.push_async_callback(_close, process)
        client = LineClient.over(
            process,
            provider=NAME,
            notified=thread.notified,
            asked=thread.asked,
            ended=thread.ended,
            framing=Frames(),
        )
        await stack.enter_async_context(client)
        try:
            yield await thread.begin(client, process, resume=resume)
        finally:
            with anyio.CancelScope(shield=True):
                # The end of its input alone lets the program finish what it does, which may take as long as a turn.
                with suppress(JamError):
                    await thread.interrupt()
                await client.finish(runtime.shutdown_s)


async def _close(process: GuestProcess) -> None:
    with anyio.CancelScope(shield=True):
        await process.aclose()
