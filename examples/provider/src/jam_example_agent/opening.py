"""Starting the program in the guest, and ending it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files

from jamcore.api import GuestLauncher, LineClient, ProviderRuntime, RuntimeRequest, speaking

from jam_example_agent.description import NAME
from jam_example_agent.plan import THREADS
from jam_example_agent.runtime import ExampleAgentRuntime

Program = Callable[[RuntimeRequest], tuple[str, ...]]
"""Says how the program is started: its own arguments are added."""


def bundled(request: RuntimeRequest) -> tuple[str, ...]:
    """Return how the tiny agent is started: its text is handed to the guest's own Python.

    A pinned program lies below `request.tools_root`. For one, return the path of its executable there and its arguments.
    """
    return ("/usr/bin/env", "python3", "-I", "-c", files("jam_example_agent").joinpath("agent.py").read_text())


@asynccontextmanager
async def open_runtime(request: RuntimeRequest, launcher: GuestLauncher, program: Program) -> AsyncIterator[ProviderRuntime]:
    """Run the program for the length of the block.

    Raises:
        SandboxGoneError, ExecRefusedError: The program could not be started.
        ProviderRefusedError, ProviderGoneError, ProviderTimeoutError, ProviderProtocolError: It did not come up.
    """
    argv = (*program(request), f"{request.state_root}/{THREADS}", request.relay_url)
    # It starts in a fixed directory of the guest; each session brings its own with its thread.
    process = await launcher.start(argv, cwd=request.start_directory)
    runtime = ExampleAgentRuntime()
    # One JSON object per line. HeaderFraming is there for programs that say the length first.
    client = LineClient.over(process, provider=NAME, notified=runtime.notified, asked=runtime.asked, ended=runtime.ended)
    async with speaking(process, client, shutdown_s=request.shutdown_s):
        await runtime.begin(client, request.expected_version)
        yield runtime
