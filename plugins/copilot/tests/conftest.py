"""The real Copilot as a plain child process against a scripted model on loopback; nothing here isolates anything."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from jam_copilot.pins import TOOLCHAIN, VERSION
from jam_copilot.plan import SESSIONS
from jam_copilot.plugin import CopilotPlugin
from jamcore.api import ProviderRuntime
from jamcore.testing.guards import adopting_orphans
from jamcore.testing.local_guest import LocalGuest, local_guest
from jamcore.testing.servers.responses import ResponsesServer
from jamcore.testing.toolchains import ToolchainUnavailableError, pinned_toolchain

OpenRuntime = Callable[[LocalGuest, ResponsesServer], AbstractAsyncContextManager[ProviderRuntime]]
MakeGuest = Callable[[str], Awaitable[LocalGuest]]


def probe_copilot() -> str | None:
    """``copilot``: the pinned program can be had and is for this machine."""
    try:
        pinned_toolchain(TOOLCHAIN)
    except ToolchainUnavailableError as error:
        return str(error)
    return None


@pytest.hookimpl
def pytest_jam_needs() -> dict[str, Callable[[], str | None]]:
    """Contribute the need ``copilot``."""
    return {"copilot": probe_copilot}


@pytest.fixture
def anyio_backend() -> str:
    """Jam runs on asyncio, and so do its tests."""
    return "asyncio"


@pytest.fixture(autouse=True)
def nothing_is_left(no_leaks: None) -> None:
    """Every test ends without a process or a changed environment of its own."""


@pytest.fixture
def tools() -> Path:
    """The directory that a sandbox mounts as the tools root."""
    return pinned_toolchain(TOOLCHAIN)


@pytest.fixture
async def make_guest(tmp_path: Path) -> AsyncIterator[MakeGuest]:
    """Make guests by name; each has a home, a state root and a working directory of its own."""
    made = []

    async def make(name: str) -> LocalGuest:
        context = local_guest(tmp_path / name)
        made.append(context)
        return await context.__aenter__()

    with adopting_orphans():
        yield make
        for context in made:
            await context.__aexit__(None, None, None)


@pytest.fixture
async def guest(make_guest: MakeGuest) -> LocalGuest:
    """A guest."""
    return await make_guest("guest")


@pytest.fixture
def open_runtime(tools: Path) -> OpenRuntime:
    """Open the plugin's runtime in a guest, as the core does: through the hook."""

    @asynccontextmanager
    async def opened(guest: LocalGuest, model: ResponsesServer) -> AsyncIterator[ProviderRuntime]:
        plugin = CopilotPlugin()
        (guest.state / SESSIONS).mkdir(exist_ok=True)
        context = await plugin.jam_open_runtime(guest.runtime_request(tools, model.base_url, VERSION), guest)
        async with context as runtime:
            yield runtime

    return opened
