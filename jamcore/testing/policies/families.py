"""What every family of providers promises. What it makes promises besides what every provider does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import cast

import pytest

from jamcore.domain.cells import Ability
from jamcore.domain.errors import InvalidInputError
from jamcore.domain.plugins import api_version_problem
from jamcore.domain.provider_rules import plan_context
from jamcore.plugins.families import FAMILY, ProviderFamily
from jamcore.plugins.manager import ProviderManager
from jamcore.plugins.provider import ProviderHooks
from jamcore.testing.policies.subject import Made, Promising, core_problem, least_of
from jamcore.testing.untouched import Untouched

NONSENSE: Sequence[object] = [[{"no such": [-1]}]]
"""What no key of any table means."""
UNKNOWN_KEY = "no_such_key_of_any_family"

Table = Mapping[str, object]


@pytest.mark.anyio
class FamilyPromises:
    """What is promised of every table."""

    @pytest.fixture
    def made(self, family: Promising) -> Made:
        """The provider of the least table; what cannot be made is asked nothing more."""
        provider = least_of(family)
        try:
            provider.plugin()
        except Exception:  # noqa: BLE001 - a promise of its own
            pytest.skip("its least table makes no provider, and is asked nothing more")
        return provider

    @pytest.mark.guarantee("PLUG-1")
    async def test_it_is_called_as_it_is_installed(self, family: Promising) -> None:
        """Its entry point has the family's own name.

        Tables name a family by its entry point; one with another name makes no provider at all.
        """
        assert cast(ProviderFamily, family.plugin()).jam_family() == family.name

    @pytest.mark.guarantee("KIT-2")
    async def test_its_distribution_says_which_core_it_needs(self, family: Promising) -> None:
        """It requires jamcore, and not any that will ever be.

        An installer then refuses what cannot work, before anything of it is loaded; without an upper bound every future core seems right.
        """
        assert core_problem(family.distribution) is None

    @pytest.mark.guarantee("PLUG-1")
    async def test_its_least_table_makes_a_provider(self, family: Promising) -> None:
        """`least_table` makes a plugin object with an interface version, under the name that it is given.

        It is what a person begins with, and by which the family is proven without a table of somebody's.
        """
        provider = least_of(family)
        plugin = provider.plugin()
        assert api_version_problem(getattr(plugin, "api_version", None)) is None
        assert FAMILY not in cast(ProviderFamily, family.plugin()).least_table()

    @pytest.mark.guarantee("PLUG-1")
    async def test_a_table_that_is_none_is_refused_with_its_key(self, family: Promising, made: Made) -> None:
        """A key that is missing, unknown or of the wrong kind is an `InvalidInputError` that names it.

        A person reads the key and corrects the table. A key that is passed over in silence was a rule that somebody believed to hold.
        """
        one = cast(ProviderFamily, family.plugin())
        wrong = {}
        for case, table in _wrong(one.least_table()):
            try:
                one.provider(made.name, table)
            except InvalidInputError as error:
                if not error.field:
                    wrong[case] = "refused without a key"
            except Exception as error:  # noqa: BLE001 - what it is, is what is asked
                wrong[case] = f"{type(error).__name__}: {error}"
            else:
                wrong[case] = "accepted"
        assert wrong == {}

    @pytest.mark.guarantee("PLUG-1", "CAP-5")
    async def test_the_same_table_makes_the_same_provider(self, made: Made) -> None:
        """Two plugin objects of one table say the same of themselves, for each cell.

        Rooms outlive daemons: the provider that a room comes back to is made anew from its table.
        """
        assert await _said(made) == await _said(made)

    @pytest.mark.guarantee("PLUG-1")
    async def test_making_touches_nothing(self, made: Made) -> None:
        """Nothing is read and nothing started when a provider is made: the table is all that it is made of.

        It happens when the daemon starts, before anybody asked for the provider.
        """
        with Untouched() as watch:
            made.plugin()
        assert watch.touched == []


def _wrong(least: Table) -> Iterator[tuple[str, Table]]:
    yield "an unknown key", {**least, UNKNOWN_KEY: "x"}
    for key in least:
        yield f"without {key}", {name: value for name, value in least.items() if name != key}
        yield f"nonsense as {key}", {**least, key: NONSENSE}


async def _said(made: Made) -> list[object]:
    manager = ProviderManager()
    report = await manager.add(made.name, made.plugin())
    if report.violations:
        pytest.skip("what it makes would not be loaded, and is asked nothing more")
    hooks = manager.provider(made.name)
    return [hooks.description, *[each async for each in _decided(hooks)]]


async def _decided(hooks: ProviderHooks) -> AsyncIterator[object]:
    for cell in sorted(hooks.description.cells, key=str):
        context = plan_context(hooks.name, cell, frozenset(Ability))
        yield await hooks.contribute_plan(context)
        yield await hooks.prepare(context)
    yield await hooks.declare_capture()
    yield await hooks.declare_activation()
