"""The runtime of an agent as a context: whatever was started in it is gone when it is left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from jam_acp.profile import Profile
from jam_acp.runtime import AcpRuntime
from jamcore.api import GuestLauncher, ProviderRuntime, RuntimeRequest, owned_tasks


@asynccontextmanager
async def open_acp(profile: Profile, request: RuntimeRequest, launcher: GuestLauncher) -> AsyncIterator[ProviderRuntime]:
    """Serve sessions of the profile's agent for the length of the block.

    Raises:
        SandboxGoneError, ExecRefusedError: The program could not be started.
        ProviderRefusedError, ProviderGoneError, ProviderTimeoutError, ProviderProtocolError: It did not come up.
    """
    async with owned_tasks() as tasks:
        runtime = AcpRuntime(profile, request, launcher, tasks)
        try:
            await runtime.begin()
            yield runtime
        finally:
            with anyio.CancelScope(shield=True):
                await runtime.close()
            tasks.cancel_scope.cancel()
