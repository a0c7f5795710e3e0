"""Opening a plugin's runtime in a guest as the core does it: through its validated hooks, with its files and directories in place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from jamcore.domain.cells import Ability
from jamcore.domain.plan import PlanContext
from jamcore.plugins.manager import ProviderManager
from jamcore.plugins.provider import ProviderHooks
from jamcore.plugins.runtime import ProviderRuntime
from jamcore.testing.local_guest import LocalGuest

__all__ = ["ProviderHooks", "hooks_of", "opened"]


async def hooks_of(name: str, plugin: object) -> ProviderHooks:
    """Return a plugin's hooks as a daemon has them.

    Raises:
        AssertionError: The plugin would not be loaded; the text says why.
    """
    manager = ProviderManager()
    report = await manager.add(name, plugin)
    assert not report.violations, f"{name} would not be loaded: {report.violations}"
    return manager.provider(name)


@asynccontextmanager
async def opened(
    hooks: ProviderHooks, guest: LocalGuest, url: str, tools: Path, expected_version: str | None = None
) -> AsyncIterator[ProviderRuntime]:
    """Open a plugin's runtime in a guest whose relay is at ``url``, and close it at the end of the block.

    Raises:
        JamError: As the hooks and the runtime raise it.
    """
    context = PlanContext(
        cell=min(hooks.description.cells, key=str),
        state_root=str(guest.state),
        tools_root=str(tools),
        home=str(guest.home),
        relay_url=url,
        abilities=frozenset(Ability),
    )
    plan = await hooks.contribute_plan(context)
    for root, directories in ((guest.state, plan.state_subdirectories), (guest.home, plan.guest_directories)):
        for directory in directories:
            (root / directory).mkdir(parents=True, exist_ok=True)
    for file in (await hooks.prepare(context)).files:
        place = guest.state / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(file.content)
    async with await hooks.open_runtime(guest.runtime_request(tools, url, expected_version), guest) as runtime:
        yield runtime
