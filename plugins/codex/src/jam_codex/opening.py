"""Starting Codex in the guest, and ending it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jam_codex.config import arguments
from jam_codex.description import NAME
from jam_codex.plan import environment
from jam_codex.runtime import CodexRuntime
from jamcore.api import GuestLauncher, LineClient, ProviderRuntime, RuntimeRequest, speaking


@asynccontextmanager
async def open_codex(request: RuntimeRequest, launcher: GuestLauncher) -> AsyncIterator[ProviderRuntime]:
    """Run ``codex app-server`` for the length of the block.

    Raises:
        SandboxGoneError, ExecRefusedError: The program could not be started.
        ProviderRefusedError, ProviderGoneError, ProviderTimeoutError, ProviderProtocolError: It did not come up.
    """
    # It starts in a fixed guest directory; each thread brings its own (SHARE-5).
    process = await launcher.start(arguments(request), cwd=request.start_directory, environment=environment(request.state_root))
    runtime = CodexRuntime(isolated=request.isolated)
    client = LineClient.over(process, provider=NAME, notified=runtime.notified, asked=runtime.asked, ended=runtime.ended)
    # The end takes 0.04 s when all is well: Codex ends its commands and marks a running turn as aborted.
    async with speaking(process, client, shutdown_s=request.shutdown_s):
        await runtime.begin(client, request.expected_version)
        yield runtime
