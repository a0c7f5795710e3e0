"""Starting Copilot in the guest, and ending it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jam_copilot.config import arguments
from jam_copilot.description import NAME
from jam_copilot.plan import environment
from jam_copilot.runtime import CopilotRuntime
from jam_copilot.sweep import Guest
from jamcore.api import GuestLauncher, HeaderFraming, LineClient, ProviderRuntime, RuntimeRequest, speaking

MESSAGE_BYTES = 40 << 20
"""An event repeats what a person said, twice: a text of Jam's largest size is 8 MiB of it, and an answer may hold four events."""


@asynccontextmanager
async def open_copilot(request: RuntimeRequest, launcher: GuestLauncher) -> AsyncIterator[ProviderRuntime]:
    """Run ``copilot-runtime`` for the length of the block.

    Raises:
        SandboxGoneError, ExecRefusedError: The program could not be started.
        ProviderRefusedError, ProviderGoneError, ProviderTimeoutError, ProviderProtocolError: It did not come up.
    """
    guest = Guest(launcher, request.state_root, cwd=request.start_directory)
    await guest.sweep()
    # It starts in a fixed guest directory; each session brings its own (SHARE-5).
    variables = environment(request.state_root, request.tools_root)
    process = await launcher.start(arguments(request), cwd=request.start_directory, environment=variables)
    runtime = CopilotRuntime(relay_url=request.relay_url, isolated=request.isolated, guest=guest)
    client = LineClient.over(
        process,
        provider=NAME,
        notified=runtime.notified,
        asked=runtime.asked,
        asked_at_once=True,  # each one is refused; Copilot may wait for that before it answers what the turn waits for
        ended=runtime.ended,
        jsonrpc=True,
        framing=HeaderFraming(MESSAGE_BYTES),
    )
    # The end takes 0.4 s when all is well: Copilot ends its commands and notes the end in each session.
    async with speaking(process, client, shutdown_s=request.shutdown_s, last=runtime.clear):
        await runtime.begin(client, request.expected_version)
        yield runtime
