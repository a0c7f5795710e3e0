"""What the checks of :mod:`jamcore.testing.check.suite` are put to. Apart from them: pytest has to be the first to import those."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest

from jamcore.system.distributions import Found
from jamcore.testing.policies.subject import Made

PROVIDER, ENGINE, POLICY, FAMILY = KINDS = "provider", "engine_plugin", "policy", "family"
"""What tests call the plugin that they are about."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A plugin that is installed: a provider's, an engine's, a policy or a family."""

    found: Found

    @property
    def name(self) -> str:
        """The plugin's name."""
        return self.found.name

    @property
    def distribution(self) -> str:
        """The name of its distribution."""
        return self.found.distribution

    @property
    def plugin(self) -> Callable[[], object]:
        """Makes the plugin."""
        made: Callable[[], object] = self.found.entry.load()
        return made


@dataclass(frozen=True, slots=True)
class Asked:
    """A plugin of pytest that puts the checks to these."""

    providers: tuple[Installed | Made, ...]
    engines: tuple[Installed, ...]
    policies: tuple[Installed, ...]
    families: tuple[Installed, ...]

    def kinds(self) -> Mapping[str, tuple[Installed | Made, ...]]:
        """Return the plugins by what tests call them."""
        return {PROVIDER: self.providers, ENGINE: self.engines, POLICY: self.policies, FAMILY: self.families}

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make a test for each plugin; of a kind of which there is none, none at all."""
        for kind, those in self.kinds().items():
            if kind in metafunc.fixturenames:
                metafunc.parametrize(kind, those, ids=[each.name for each in those])

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what pytest puts in the place of a test of nothing."""
        items[:] = [item for item in items if all(_is_asked(item, kind) for kind in self.kinds())]


def _is_asked(item: pytest.Item, kind: str) -> bool:
    return kind not in getattr(item, "fixturenames", ()) or isinstance(item.callspec.params.get(kind), Installed | Made)  # type: ignore[attr-defined]
