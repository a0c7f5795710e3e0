"""One command that runs: what it was told, and what it works with."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from jamcore.testing.sbx.behaviours import Gates
from jamcore.testing.sbx.configuration import Configuration, Instance, change
from jamcore.testing.sbx.program.client import Client
from jamcore.testing.sbx.program.console import Console
from jamcore.testing.sbx.program.flags import Parsed

LOGIN = "login"


@dataclass(slots=True)
class Call:
    """One command."""

    parsed: Parsed
    told: Configuration
    gates: Gates
    place: Instance
    console: Console
    daemon: Client
    environment: dict[str, str]

    @property
    def args(self) -> list[str]:
        """Its arguments."""
        return self.parsed.args

    def flag(self, name: str) -> Any:  # noqa: ANN401 - text, a number, a list or yes or no
        """Return the value of a flag, or an empty one where this version does not know it."""
        return self.parsed.flags.get(name, "")

    def json(self, value: object) -> None:
        """Print one document."""
        self.console.print(json.dumps(value, ensure_ascii=False, separators=(",", ":")))

    @property
    def login(self) -> str:
        """Whether somebody is signed in: ``in``, ``out`` or ``expired``."""
        if self.place.fresh:
            return "in" if (self.place.directory / LOGIN).exists() else "out"
        return self.told.login

    def sign(self, state: str) -> None:
        """Sign in or out."""
        if not self.place.fresh:
            change(self.place.root, login=state)
            return
        self.place.make()
        (self.place.directory / LOGIN).unlink(missing_ok=True)
        if state == "in":
            (self.place.directory / LOGIN).touch()
