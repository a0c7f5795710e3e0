"""Stand-ins for a provider's program: a few lines of Python that speak its protocol, and misbehave where a test says so."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from jamcore.plugins.runtime import ProviderRuntime

Bad = Callable[..., AbstractAsyncContextManager[ProviderRuntime]]
"""Opens the runtime over a stand-in: statements by the places where they run, and ``expected_version``."""
NOWHERE = "http://127.0.0.1:9"
"""An address at which no model is; a stand-in asks none."""


def waits_for(gate: Path) -> str:
    """Return the statement with which a stand-in waits until a test makes a file."""
    return f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)"


_PLACE = re.compile(r"^( *)#(\w+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class StandIn:
    """A program.

    Attributes:
        path: Where it lies below the tools root.
        text: What it does. A line that holds only ``#NAME`` is a place at which a test may put statements.
    """

    path: str
    text: str

    @property
    def places(self) -> frozenset[str]:
        """The names of the places."""
        return frozenset(name for _, name in _PLACE.findall(self.text))

    def write(self, tools: Path, **statements: str) -> None:
        """Write the program below a tools root, with these statements at their places.

        Raises:
            KeyError: There is no such place.
        """
        if unknown := set(statements) - self.places:
            raise KeyError(f"no such place: {', '.join(sorted(unknown))}")

        def filled(place: re.Match[str]) -> str:
            indent, name = place.groups()
            return "\n".join(indent + line for line in statements.get(name, "pass").split("\n"))

        program = tools / self.path
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(_PLACE.sub(filled, self.text))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
