"""What the simulator does and how it is known: all behaviours, and the one table of what changed in which version.

Code that depends on a version asks :class:`Gates` by id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from jamcore.testing.sbx import facts_commands, facts_guest, facts_network
from jamcore.testing.sbx.known import VERSIONS, Behaviour


def everything() -> tuple[Behaviour, ...]:
    """Return all of them, in the order of the page."""
    return (*facts_commands.BEHAVIOURS, *facts_guest.BEHAVIOURS, *facts_network.BEHAVIOURS)


def table(behaviours: Iterable[Behaviour]) -> Mapping[str, Behaviour]:
    """Return them by id.

    Raises:
        ValueError: One id is there twice.
    """
    found: dict[str, Behaviour] = {}
    for each in behaviours:
        if each.ident in found:
            raise ValueError(f"two behaviours are called {each.ident}")
        found[each.ident] = each
    return MappingProxyType(found)


class Gates:
    """What one version does: ``gates("errors.lower-case")``."""

    def __init__(self, version: str) -> None:
        if version not in VERSIONS:
            raise ValueError(f"{version}: known are {', '.join(VERSIONS)}")
        self.version = version
        self._table = table(everything())

    def __call__(self, ident: str) -> bool:
        """Whether this version does it.

        Raises:
            KeyError: No behaviour has this id.
        """
        return self._table[ident].holds(self.version)

    @property
    def full(self) -> str:
        """The version as the program prints it."""
        return f"v{self.version}.0"
