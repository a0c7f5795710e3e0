"""What is under test, as data: a policy or a family, and the providers that a family makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import requires
from typing import Protocol, cast

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from jamcore.plugins.families import ProviderFamily
from jamcore.system.distributions import CORE

NEWER = "999999.0.0"


class Promising(Protocol):
    """A plugin that promises something: its name, that of its distribution, and what makes it."""

    @property
    def name(self) -> str:
        """The plugin's name."""

    @property
    def distribution(self) -> str:
        """The name of its distribution."""

    @property
    def plugin(self) -> Callable[[], object]:
        """Makes the plugin."""


@dataclass(frozen=True, slots=True)
class PluginUnderTest:
    """A policy or a family.

    Attributes:
        name: Its name.
        package: The package that holds it; its distribution has the same name with hyphens.
        plugin: Makes it.
    """

    name: str
    package: str
    plugin: Callable[[], object]

    @property
    def distribution(self) -> str:
        """The name of its distribution."""
        return self.package.replace("_", "-")


@dataclass(frozen=True, slots=True)
class Made:
    """A provider that a family makes of its least table; it promises what every provider does."""

    family: Promising

    @property
    def name(self) -> str:
        """The name that its table would have."""
        return f"{self.family.name[:26]}_least"

    @property
    def distribution(self) -> str:
        """The family's distribution."""
        return self.family.distribution

    @property
    def plugin(self) -> Callable[[], object]:
        """Makes the provider's plugin."""
        return self._made

    def _made(self) -> object:
        family = cast(ProviderFamily, self.family.plugin())
        return family.provider(self.name, family.least_table())


def least_of(family: Promising) -> Made:
    """Return the provider that a family makes of its least table, for ``ProviderPromises``."""
    return Made(family)


def core_problem(distribution: str) -> str | None:
    """Say what is wrong with what a distribution requires of the core, or return ``None``."""
    needs = [Requirement(need) for need in requires(distribution) or ()]
    core = [need for need in needs if canonicalize_name(need.name) == CORE and need.marker is None]
    if not core:
        return f"it does not require {CORE}"
    if all(need.specifier.contains(NEWER) for need in core):
        return f"{core[0]} is right with every core to come"
    return None
