"""Execution boundaries as data: the three independent choices of a sandboxed runtime and the one capability table (CAP)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from types import MappingProxyType
from typing import ClassVar

from jamcore.domain.errors import InvalidInputError, RefusalError
from jamcore.domain.records import Record


class Configuration(StrEnum):
    """Who configures the sandbox (CAP-2)."""

    JAM_MANAGED = "jam-managed"
    ENVIRONMENT_FILES = "environment-files"


class WorkspaceSource(StrEnum):
    """Where the session's files come from (CAP-2). ProjectWorktree resolves to DIRECT_HOST before matching (CAP-3)."""

    MANAGED = "managed"
    PRIVATE_HOST_CLONE = "private-host-clone"
    DIRECT_HOST = "direct-host"


class Placement(StrEnum):
    """How many sessions share the host; an absent placement means DEDICATED (CAP-2)."""

    SHARED = "shared"
    DEDICATED = "dedicated"


class Ability(StrEnum):
    """What an engine can do beyond running processes; most have a Protocol of their own in the engine port.

    Three say how a guest differs from one with a file system and a network of its own: HOST_PATHS (it sees each host directory at its
    host path, so guest paths cannot be chosen), HOST_HOME (its home is a host directory too), HOST_NETWORK (its loopback is the host's).
    KEEPS_DISK says what a removal leaves: the guest's home and clone lie on the guest disk that the core gave, and stay there.
    """

    CLONE = "clone"
    ENVIRONMENT_FILES = "environment-files"
    FREEZE = "freeze"
    HOST_HOME = "host-home"
    HOST_NETWORK = "host-network"
    HOST_PATHS = "host-paths"
    HOST_VIEW = "host-view"
    KEEPS_DISK = "keeps-disk"
    NETWORK_RULES = "network-rules"
    REACH = "reach"
    RESOURCES = "resources"
    SECRETS = "secrets"
    SNAPSHOT = "snapshot"


ON_THE_HOST = frozenset({Ability.HOST_HOME, Ability.HOST_NETWORK, Ability.HOST_PATHS})
"""What says that a guest lives on the host itself: an engine that can do everything else has none of them."""


class Cell(Record):
    """One legal combination of the three choices."""

    configuration: Configuration
    workspace: WorkspaceSource
    placement: Placement

    def __str__(self) -> str:
        return f"{self.placement}/{self.configuration}/{self.workspace}"

    def distance(self, other: Cell) -> int:
        """Count the choices in which two cells differ: 0 to 3."""
        return (
            (self.configuration is not other.configuration)
            + (self.workspace is not other.workspace)
            + (self.placement is not other.placement)
        )

    def needs(self) -> frozenset[Ability]:
        """Return the engine abilities without which this cell cannot run (CAP-4)."""
        wanted = set[Ability]()
        if self.configuration is Configuration.ENVIRONMENT_FILES:
            wanted.add(Ability.ENVIRONMENT_FILES)
        if self.workspace is WorkspaceSource.PRIVATE_HOST_CLONE:
            wanted.add(Ability.CLONE)
        return frozenset(wanted)


SHARED_CELL = Cell(configuration=Configuration.JAM_MANAGED, workspace=WorkspaceSource.MANAGED, placement=Placement.SHARED)
DEDICATED_CELLS = frozenset(
    Cell(configuration=c, workspace=w, placement=Placement.DEDICATED) for c, w in product(Configuration, WorkspaceSource)
)
FULL_CELLS = DEDICATED_CELLS | {SHARED_CELL}
"""The seven cells of a provider that supports everything (CAP-3)."""
DEDICATED_MANAGED_CELLS = frozenset(c for c in DEDICATED_CELLS if c.configuration is Configuration.JAM_MANAGED)
"""The three cells of a provider that only Jam configures (CAP-3)."""

NEAREST = 3


@dataclass(eq=False)
class UnknownProviderError(RefusalError):
    """No loaded plugin has this name."""

    code: ClassVar[str] = "capability.unknown_provider"
    hint: ClassVar[str] = "Run `jam doctor` to see which providers are installed and why one may be disabled."

    provider: str
    known: tuple[str, ...]


@dataclass(eq=False)
class NoSuchCellError(RefusalError):
    """The provider does not support this combination at all (CAP-4)."""

    code: ClassVar[str] = "capability.no_such_cell"
    hint: ClassVar[str] = "Pick one of the nearest legal combinations, or run `jam provider cells`."

    provider: str
    asked: str
    nearest: tuple[str, ...]


@dataclass(eq=False)
class EngineLacksAbilityError(RefusalError):
    """The provider supports the combination, but this engine cannot do it (CAP-4)."""

    code: ClassVar[str] = "capability.engine_lacks_ability"
    hint: ClassVar[str] = "Choose another engine or one of the nearest combinations that this engine can do."

    provider: str
    engine: str
    asked: str
    missing: tuple[str, ...]
    nearest: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WorkspaceChoice:
    """A workspace source with what it needs (CAP-7): a path for the two path-backed sources, none for MANAGED."""

    source: WorkspaceSource
    path: str | None = None

    def require_complete(self) -> None:
        """Check that the path is there exactly when it is needed and is absolute.

        Raises:
            InvalidInputError: It is not.
        """
        if self.source is WorkspaceSource.MANAGED:
            if self.path is not None:
                raise InvalidInputError(field="workspace.path", problem="a managed workspace takes no host path")
        elif self.path is None:
            raise InvalidInputError(field="workspace.path", problem=f"{self.source} needs a host path")
        elif not self.path.startswith("/") or "\x00" in self.path:
            raise InvalidInputError(field="workspace.path", problem="the host path must be absolute")


class CellTable:
    """The single table, provider name to cells (CAP-5). Built once from the loaded plugins, then read-only."""

    def __init__(self, rows: Mapping[str, Iterable[Cell]]) -> None:
        self._rows = MappingProxyType({name: frozenset(cells) for name, cells in sorted(rows.items())})

    def providers(self) -> tuple[str, ...]:
        """Return the provider names in order."""
        return tuple(self._rows)

    def rows(self) -> tuple[tuple[str, Cell], ...]:
        """Return every (provider, cell) in a stable order, for the CLI, the documents and the console."""
        return tuple((name, cell) for name, cells in self._rows.items() for cell in sorted(cells, key=str))

    def require(self, provider: str, asked: Cell, *, engine: str, abilities: frozenset[Ability]) -> Cell:
        """Return ``asked`` if the provider has the cell and the engine can do it (CAP-4).

        Raises:
            UnknownProviderError: No such provider.
            NoSuchCellError: With the nearest cells of the provider, nearest first.
            EngineLacksAbilityError: With the nearest cells that both can do.
        """
        if provider not in self._rows:
            raise UnknownProviderError(provider=provider[:64], known=self.providers())
        cells = self._rows[provider]
        if asked not in cells:
            raise NoSuchCellError(provider=provider, asked=str(asked), nearest=_nearest(asked, cells))
        if missing := asked.needs() - abilities:
            able = frozenset(cell for cell in cells if cell.needs() <= abilities)
            raise EngineLacksAbilityError(
                provider=provider,
                engine=engine,
                asked=str(asked),
                missing=tuple(sorted(missing)),
                nearest=_nearest(asked, able),
            )
        return asked


def _nearest(asked: Cell, cells: frozenset[Cell]) -> tuple[str, ...]:
    ranked = sorted(cells, key=lambda cell: (cell.distance(asked), str(cell)))
    return tuple(str(cell) for cell in ranked[:NEAREST])
