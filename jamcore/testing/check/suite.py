"""The checks that are put to installed plugins: one test of each for every plugin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import cast

import pytest

from jamcore.domain.cells import Ability
from jamcore.engines.port import Clones, EnginePlugin, Freezes, HostView, LimitsResources, Reaches
from jamcore.engines.registry import EngineRegistry
from jamcore.system.distributions import unfit
from jamcore.testing.check.asked import Installed
from jamcore.testing.engines.box import opened
from jamcore.testing.policies.families import FamilyPromises
from jamcore.testing.policies.promises import PolicyPromises
from jamcore.testing.policies.subject import Made
from jamcore.testing.proof import NOT_CLAIMED
from jamcore.testing.providers.promises import ProviderPromises


@pytest.fixture
def anyio_backend() -> str:
    """Jam runs on asyncio."""
    return "asyncio"


class TestPromises(ProviderPromises):
    """What every provider's plugin promises."""

    def test_it_fits_this_core(self, provider: Installed | Made) -> None:
        """What the distribution requires of jamcore is what is installed.

        Where it is not, a daemon imports nothing of the plugin.
        """
        if isinstance(provider, Made):
            pytest.skip(f"{NOT_CLAIMED}{provider.name} is made by the family {provider.family.name}, of which it is asked")
        assert unfit(provider.found) is None


class TestPolicies(PolicyPromises):
    """What every policy promises."""

    def test_it_fits_this_core(self, policy: Installed) -> None:
        """What the distribution requires of jamcore is what is installed.

        Where it is not, a daemon imports nothing of the policy, and no room starts.
        """
        assert unfit(policy.found) is None


class TestFamilies(FamilyPromises):
    """What every family promises."""

    def test_it_fits_this_core(self, family: Installed) -> None:
        """What the distribution requires of jamcore is what is installed.

        Where it is not, a daemon imports nothing of the family, and its tables make no provider.
        """
        assert unfit(family.found) is None


_PROTOCOLS: Mapping[Ability, type] = MappingProxyType(
    {
        Ability.CLONE: Clones,
        Ability.FREEZE: Freezes,
        Ability.HOST_VIEW: HostView,
        Ability.REACH: Reaches,
        Ability.RESOURCES: LimitsResources,
    }
)
"""What an engine object must be for each ability."""


@pytest.mark.anyio
class TestEngines:
    """What every engine promises, without a sandbox being made."""

    async def test_it_would_be_loaded(self, engine_plugin: Installed) -> None:
        """A daemon loads the engine: it fits the core, and its interface version, name, isolation class and abilities are in order.

        One that is not is left out when the daemon starts, and `jam plugin ls` says why; here its author is the first to know.
        """
        registry = EngineRegistry()
        await registry.load(found=[engine_plugin.found.entry])
        assert [violation for report in registry.reports() for violation in report.violations] == []

    async def test_it_has_the_methods_of_its_abilities(self, engine_plugin: Installed, tmp_path: Path) -> None:
        """The opened engine is what each ability that the plugin claims says, and claims the same itself.

        An ability is looked up before a room is made: one without its methods fails in the middle of somebody's work.
        """
        async with opened(cast(type[EnginePlugin], engine_plugin.plugin), tmp_path) as engine:
            claimed = cast(EnginePlugin, engine_plugin.plugin()).abilities
            assert engine.abilities == claimed
            assert sorted(ability for ability in claimed & _PROTOCOLS.keys() if not isinstance(engine, _PROTOCOLS[ability])) == []

    async def test_its_probe_is_an_answer(self, engine_plugin: Installed, tmp_path: Path) -> None:
        """Opening never fails for what the machine lacks; the probe says it, with what to do about each gap.

        A probe that raises for a missing program is a daemon that does not start.
        """
        async with opened(cast(type[EnginePlugin], engine_plugin.plugin), tmp_path) as engine:
            health = await engine.probe()
            assert health.engine == engine.name == engine_plugin.name
            assert [finding.subject for finding in health.findings if not finding.ok and not finding.hint] == []
