"""What is peculiar to one provider in the scenario, as data, and where the rows of a workspace's plugins are."""

from __future__ import annotations

import importlib.util
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from pydantic import JsonValue

from jamcore.plugins.manager import PROVIDERS
from jamcore.runtime.deadlines import TurnIdleError
from jamcore.testing.exchanges import Place, Shell
from jamcore.testing.servers.history import NOTHING, Normalisation
from jamcore.testing.servers.script import Rule, Script
from jamcore.testing.servers.server import ModelServer

FILE = "scenario_rows.py"
"""The file in a plugin's tests that holds its rows, as ``ROWS``."""
PLACES: tuple[Place, ...] = (
    "request-1",
    "delta-1",
    "delta-2",
    "tool-call",
    "request-2",
    "delta-3",
    "delta-4",
    "last-delta",
    "item-done",
)
"""Every boundary of a turn at which the model can stand still."""


@dataclass(frozen=True, slots=True)
class ProviderRow:
    """One provider.

    Attributes:
        provider: Its name in the daemon.
        title: What the page calls it.
        server: The scripted server of the API that its program speaks.
        shell: The model's call by which its shell runs a command.
        model: A name of a model that the program takes, where one has to be named.
        standin: What runs in the program's place, where the program cannot be had; empty: the pinned program itself.
        tables: Providers by configuration that the daemon is told of: this one, where no plugin has its name.
        shared: Whether several of its rooms can live on one host.
        own_process: Whether each of them has a program of its own there.
        told_no: Whether the model is told of a denial; otherwise the turn ends there.
        cut: What is left of a turn when the daemon is killed in it. ``told``: all that the program had told the model. ``said``: what the
            person said, and as much of the rest as was written down in time. ``none``: no word of it, since the conversation is a
            database, which is put back as it was captured.
        normalisation: What the program itself writes among what the model is told, and so is in no comparison.
        failing: With which code a turn ends by itself whose model fails, by the fault (:data:`jamcore.testing.scenario.faults.FAULTS`). Of
            one that is not named nothing is heard, and Jam ends the turn.
        nearly: Faults that a program gives up about when Jam does: its turn ends with either code.
        own_words: Texts that the program itself puts into a conversation after a cut turn, each time the same.
        moves: Whether a conversation can go on in another directory; otherwise one of another machine is refused, by name.
    """

    provider: str
    title: str
    server: type[ModelServer]
    shell: Shell
    model: str | None = None
    standin: str = ""
    tables: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=dict)
    shared: bool = True
    own_process: bool = False
    told_no: bool = True
    cut: Literal["told", "said", "none"] = "told"
    normalisation: Normalisation = NOTHING
    failing: Mapping[str, str] = field(default_factory=dict)
    nearly: frozenset[str] = frozenset()
    own_words: frozenset[str] = frozenset()
    moves: bool = True

    @property
    def needs(self) -> tuple[str, ...]:
        """What it needs of the machine in a sandbox (:mod:`jamcore.testing.needs`)."""
        return ("bubblewrap", *self.own_needs)

    @property
    def own_needs(self) -> tuple[str, ...]:
        """What its program needs of the machine, whatever isolates it."""
        return () if self.standin else (self.provider,)

    def model_server(self, *rules: Rule) -> ModelServer:
        """Return a scripted server that knows what the program itself writes; a context manager."""
        return self.server(Script(rules=rules), normalisation=self.normalisation)

    def codes_of(self, fault: str) -> tuple[str, ...]:
        """Return the codes with one of which a turn ends that meets a fault."""
        own = self.failing.get(fault, TurnIdleError.code)
        return (own, TurnIdleError.code) if fault in self.nearly else (own,)

    @property
    def ran(self) -> str:
        """What of it ran, in the words of the page."""
        return "stand-in" if self.standin else "real program"


def rows_of(root: Path) -> tuple[ProviderRow, ...]:
    """Return the rows of all installed plugins of a workspace, in order of their names.

    Raises:
        LookupError: A plugin's tests have no rows, or two rows have one name.
    """
    rows: list[ProviderRow] = []
    for plugin in _plugins(root):
        try:
            rows += rows_in(plugin / "tests")
        except ModuleNotFoundError as error:
            if error.name is None or not (plugin / "src" / error.name).is_dir():
                raise
            # It is not installed, as no plugin is where the core is tested alone (KIT-2).
    names = [row.provider for row in rows]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        message = f"two rows: {', '.join(twice)}"
        raise LookupError(message)
    return tuple(sorted(rows, key=lambda row: row.provider))


def offered(root: Path) -> tuple[str, ...]:
    """Return the names of the providers that the plugins of a workspace offer by their metadata, installed or not."""
    projects = [tomllib.loads((plugin / "pyproject.toml").read_text(encoding="utf-8"))["project"] for plugin in _plugins(root)]
    return tuple(sorted(name for project in projects for name in project["entry-points"][PROVIDERS]))


def _plugins(root: Path) -> list[Path]:
    return sorted(path.parent for path in root.glob("plugins/*/pyproject.toml"))


def rows_in(tests: Path) -> tuple[ProviderRow, ...]:
    """Return the rows in the directory of one plugin's tests, as they stand there.

    Raises:
        LookupError: There are none.
    """
    path = tests / FILE
    spec = importlib.util.spec_from_file_location(f"jam_{path.parents[1].name}_scenario_rows", path)
    if spec is None or spec.loader is None or not path.exists():
        message = f"{path} does not exist: a plugin says there what is peculiar to it in the scenario"
        raise LookupError(message)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast(tuple[ProviderRow, ...], module.ROWS)
