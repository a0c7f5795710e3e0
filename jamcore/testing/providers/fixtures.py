"""The fixtures of the provider suite, for the conftest of a plugin's tests. That defines one more: ``provider``, for the whole session."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import pytest

from jamcore.domain.continuity import ActivationPlan, CaptureList
from jamcore.plugins.provider import ProviderHooks
from jamcore.plugins.runtime import ProviderRuntime
from jamcore.testing.guards import adopting_orphans
from jamcore.testing.local_guest import LocalGuest, local_guest
from jamcore.testing.proof import LEFT_OUT
from jamcore.testing.providers.case import Case
from jamcore.testing.providers.opening import hooks_of
from jamcore.testing.providers.subject import ProviderUnderTest
from jamcore.testing.servers.server import ModelServer
from jamcore.testing.toolchains import TOOLS_VARIABLE, UNPINNED

OpenRuntime = Callable[[LocalGuest, ModelServer], AbstractAsyncContextManager[ProviderRuntime]]
"""Opens the runtime in a guest, with a model."""
MakeGuest = Callable[[str], Awaitable[LocalGuest]]
"""Makes a guest of this name."""

__all__ = [
    "MakeGuest",
    "OpenRuntime",
    "anyio_backend",
    "case",
    "guest",
    "make_guest",
    "nothing_is_left",
    "open_runtime",
    "provider_hooks",
    "tools",
]


@pytest.fixture
def anyio_backend() -> str:
    """Jam runs on asyncio, and so do its tests."""
    return "asyncio"


@pytest.fixture(autouse=True)
def nothing_is_left(no_leaks: None) -> None:
    """Every test ends without a process or a changed environment of its own."""


@pytest.fixture(scope="session")
def provider_hooks(provider: ProviderUnderTest, pytestconfig: pytest.Config) -> ProviderHooks:
    """The plugin's hooks, as a daemon has them. What it declares to be in no comparison is printed at the end of the run."""
    unpinned = f"; {UNPINNED}" if os.environ.get(TOOLS_VARIABLE) else ""
    pytestconfig.stash[LEFT_OUT][provider.name] = f"{provider.normalisation.told()}{unpinned}"
    return anyio.run(hooks_of, provider.name, provider.plugin())


@pytest.fixture
def tools(provider: ProviderUnderTest) -> Path:
    """The directory that a sandbox mounts as the tools root."""
    return provider.tools


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
async def case(provider: ProviderUnderTest, provider_hooks: ProviderHooks, guest: LocalGuest) -> Case:
    """The provider in a guest."""
    keeps = provider_hooks.description.continuity
    capture = await provider_hooks.declare_capture() if keeps else CaptureList(entries=())
    activation = await provider_hooks.declare_activation() if keeps else ActivationPlan()
    return Case(provider, guest, provider_hooks, capture, activation)


@pytest.fixture
def open_runtime(case: Case) -> OpenRuntime:
    """Open the runtime over the pinned program in a guest."""

    def opening(guest: LocalGuest, model: ModelServer) -> AbstractAsyncContextManager[ProviderRuntime]:
        return case.at(guest).opened(model)

    return opening
