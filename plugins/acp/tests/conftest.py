"""The real OpenCode as a plain child process against a scripted model on loopback; nothing here isolates anything."""

from __future__ import annotations

import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from jam_acp.plugin import AcpPlugin, plugin_of
from jam_acp.profile import Profile, profile_of
from jam_acp.profiles.opencode import OPENCODE
from jamcore.api import Ability, PlanContext, ProviderRuntime
from jamcore.testing.guards import adopting_orphans
from jamcore.testing.local_guest import LocalGuest, local_guest
from jamcore.testing.servers.server import ModelServer
from jamcore.testing.toolchains import ToolchainUnavailableError, pinned_toolchain

OpenRuntime = Callable[[LocalGuest, ModelServer], AbstractAsyncContextManager[ProviderRuntime]]
OpenProfile = Callable[..., AbstractAsyncContextManager[ProviderRuntime]]
MakeGuest = Callable[[str], Awaitable[LocalGuest]]


def probe_opencode() -> str | None:
    """``opencode``: the pinned program can be had and is for this machine."""
    return unavailable(OPENCODE)


def probe_codex_acp() -> str | None:
    """``codex_acp``: the pinned program of the example can be had and is for this machine."""
    table = tomllib.loads((Path(__file__).parents[1] / "examples" / "codex-acp.toml").read_text())["providers"]["codex_acp"]
    return unavailable(profile_of("codex_acp", {key: value for key, value in table.items() if key != "family"}))


def unavailable(profile: Profile) -> str | None:
    """Return why a profile's program cannot be had, or ``None``."""
    assert profile.toolchain is not None
    try:
        pinned_toolchain(profile.toolchain)
    except ToolchainUnavailableError as error:
        return str(error)
    return None


@pytest.hookimpl
def pytest_jam_needs() -> dict[str, Callable[[], str | None]]:
    """Contribute the needs ``opencode`` and ``codex_acp``."""
    return {"opencode": probe_opencode, "codex_acp": probe_codex_acp}


@pytest.fixture
def anyio_backend() -> str:
    """Jam runs on asyncio, and so do its tests."""
    return "asyncio"


@pytest.fixture(autouse=True)
def nothing_is_left(no_leaks: None) -> None:
    """Every test ends without a process or a changed environment of its own."""


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


def context_of(guest: LocalGuest, tools: Path, url: str, plugin: AcpPlugin) -> PlanContext:
    """Return what the core tells a plugin about this guest."""
    cell = min(plugin.jam_describe_provider().cells, key=str)
    return PlanContext(
        cell=cell,
        state_root=str(guest.state),
        tools_root=str(tools),
        home=str(guest.home),
        relay_url=url,
        abilities=frozenset(Ability),
    )


@pytest.fixture
def open_profile() -> OpenProfile:
    """Open a profile's runtime in a guest, as the core does: through the hooks, with directories and prepared files in place."""

    @asynccontextmanager
    async def opened(
        profile: Profile, guest: LocalGuest, url: str, tools: Path, expected_version: str | None = None
    ) -> AsyncIterator[ProviderRuntime]:
        plugin = plugin_of(profile)
        context = context_of(guest, tools, url, plugin)
        plan = plugin.jam_contribute_plan(context)
        for root, directories in ((guest.state, plan.state_subdirectories), (guest.home, plan.guest_directories)):
            for directory in directories:
                (root / directory).mkdir(parents=True, exist_ok=True)
        for file in plugin.jam_prepare(context).files:
            (guest.state / file.path).parent.mkdir(parents=True, exist_ok=True)
            (guest.state / file.path).write_text(file.content)
        runtime = await plugin.jam_open_runtime(guest.runtime_request(tools, url, expected_version), guest)
        async with runtime as running:
            yield running

    return opened


@pytest.fixture
def open_runtime(open_profile: OpenProfile) -> OpenRuntime:
    """Open OpenCode's runtime in a guest."""

    def opened(guest: LocalGuest, model: ModelServer) -> AbstractAsyncContextManager[ProviderRuntime]:
        assert OPENCODE.toolchain is not None
        tools = pinned_toolchain(OPENCODE.toolchain)
        return open_profile(OPENCODE, guest, model.base_url, tools, OPENCODE.toolchain.version)

    return opened
