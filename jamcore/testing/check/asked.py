"""What the checks of :mod:`jamcore.testing.check.suite` are put to. Apart from them: pytest has to be the first to import those."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from jamcore.system.distributions import Found


@dataclass(frozen=True, slots=True)
class Installed:
    """A provider's plugin that is installed."""

    found: Found

    @property
    def name(self) -> str:
        """The provider's name."""
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

    providers: tuple[Installed, ...]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make a test for each plugin."""
        if "provider" in metafunc.fixturenames:
            metafunc.parametrize("provider", self.providers, ids=[each.name for each in self.providers])
