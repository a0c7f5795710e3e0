"""What is known of plugins themselves: which interface they were built for, what became of each, and which a person blocked (PLUG-1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar

from jamcore.domain.cells import UnknownProviderError
from jamcore.domain.errors import FaultError, RefusalError
from jamcore.domain.records import Record
from jamcore.domain.sandboxes import Finding

API_VERSION = (1, 0)
"""Version of the plugin interface, major and minor: everything in ``jamcore.api`` and every hook.

The minor number is raised when something is added, the major one when something is removed or changes its meaning. A plugin says in
``api_version`` which one it was built for; it is loaded by a core with the same major and the same or a newer minor number.
"""
API_NAME = "jamcore.api"
"""The module whose names the interface consists of."""


def version_text(version: tuple[int, int]) -> str:
    """Return a version of the interface as people write it."""
    return f"{version[0]}.{version[1]}"


def fits(built_for: tuple[int, int]) -> bool:
    """Whether a plugin that was built for a version of the interface works with this core: the same major, no newer minor."""
    return built_for[0] == API_VERSION[0] and built_for[1] <= API_VERSION[1]


def api_version_of(said: object) -> tuple[int, int] | None:
    """Return what a plugin says as its ``api_version``, or ``None`` when that is no pair of numbers."""
    if isinstance(said, tuple) and len(said) == 2 and all(type(part) is int and part >= 0 for part in said):
        return said
    return None


def api_version_problem(said: object) -> str | None:
    """Return what is wrong with the form of a plugin's ``api_version``, if anything is; whether it fits is not asked here."""
    if api_version_of(said) is None:
        return "has no api_version (a tuple of two numbers)"
    if said is API_VERSION:
        # Then it would be right with every core, and nobody would notice a plugin that is too new or too old.
        return f"its api_version is the core's own API_VERSION: write the numbers, ({API_VERSION[0]}, {API_VERSION[1]})"
    return None


def other_interface(built_for: tuple[int, int]) -> str:
    """Say that a plugin's interface does not fit, with both versions."""
    return f"built for plugin interface {version_text(built_for)}, and this core has {version_text(API_VERSION)}"


def import_problem(entry: str, error: BaseException, said: str) -> str:
    """Say why an entry point could not be imported; a name that the interface lacks is likely to come with a newer one.

    Args:
        entry: What the entry point names.
        error: What the import raised.
        said: The error in words.
    """
    newer = isinstance(error, ImportError) and error.name == API_NAME
    hint = f"; {API_NAME} {version_text(API_VERSION)} has no such name, a newer one may" if newer else ""
    return f"{entry}: {said}{hint}"


class PluginKind(StrEnum):
    """Which door a plugin came through."""

    PROVIDER = "provider"
    ENGINE = "engine"
    POLICY = "policy"
    FAMILY = "family"


class BlockedBy(StrEnum):
    """Where it is written that a plugin is blocked."""

    COMMAND = "command"
    SETTING = "setting"


class Block(Record):
    """A name whose plugins are never imported. ``why`` and ``since`` are known of a command, not of the setting."""

    plugin: str
    by: BlockedBy
    why: str = ""
    since: datetime | None = None

    @property
    def unblock(self) -> str:
        """What undoes it."""
        if self.by is BlockedBy.COMMAND:
            return f"jam plugin unblock {self.plugin}"
        return f"take {self.plugin} out of the setting blocked_plugins"


class BlockRequest(Record):
    """A person wants a plugin never to be imported; ``why`` is for whoever wonders later."""

    why: str = ""


NO_BLOCKS: Mapping[str, Block] = MappingProxyType({})


def blocked_by_setting(names: Iterable[str]) -> Mapping[str, Block]:
    """Return the blocks that a setting makes."""
    return MappingProxyType({name: Block(plugin=name, by=BlockedBy.SETTING) for name in names})


class PluginView(Record):
    """One plugin as clients see it.

    Attributes:
        name: Of its entry point or table.
        kind: Which door it came through; absent for a blocked name that nothing has.
        entry: What its entry point names; empty for a table of the configuration.
        built_for: The version of the interface that it says; absent when it was not asked, as one that is blocked is not.
        requires: What its distribution requires of jamcore; empty when it says nothing.
        core: The version of the interface that this core has.
        state: ``loaded``, ``blocked``, ``incompatible``, ``broken``, or ``disabled`` after it hung.
        problems: Why it is not loaded, everything that was found.
        warnings: What it uses that will go.
        block: What blocks it, now or from the next start.
        at_next_start: ``blocked`` or ``unblocked`` when the daemon's next start changes that; empty otherwise.
        hint: What a person can do about it.
    """

    name: str
    kind: PluginKind | None
    distribution: str
    version: str
    entry: str
    built_for: str | None
    requires: str
    core: str
    state: str
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    block: Block | None
    at_next_start: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class PluginReport:
    """What became of one plugin when it was loaded: never raised, shown by ``jam plugin ls`` and ``jam doctor`` (PLUG-1).

    Attributes as those of :class:`PluginView`; ``configured``: it is a table of the configuration.
    """

    name: str
    distribution: str
    version: str
    state: str
    violations: tuple[str, ...] = ()
    configured: bool = False
    kind: PluginKind = PluginKind.PROVIDER
    entry: str = ""
    requires: str = ""
    built_for: tuple[int, int] | None = None
    warnings: tuple[str, ...] = ()
    block: Block | None = None

    @property
    def title(self) -> str:
        """The name, with the kind where it is no provider's."""
        return self.name if self.kind is PluginKind.PROVIDER else f"{self.name} ({self.kind})"

    def problems(self) -> tuple[str, ...]:
        """Return why it is not loaded."""
        if self.block is None:
            return self.violations
        return (f"blocked{f': {self.block.why}' if self.block.why else ''}; to undo it: {self.block.unblock}", *self.violations)

    def hint(self) -> str:
        """Return what a person can do about it; empty where there is nothing to do."""
        if self.block is not None:
            return f"To undo it: {self.block.unblock}; it counts from the daemon's next start on."
        if self.kind is PluginKind.POLICY and self.state != "loaded":
            return (
                f"Until then no room starts. Mend or uninstall the distribution {self.distribution}, or say that rooms go on without it:"
                f" `jam plugin block {self.name}`; then `jam daemon restart`."
            )
        if self.state == "incompatible":
            return f"Install a version of {self.distribution} that is built for this Jam, or upgrade Jam."
        if self.state == "loaded":
            return ""
        if self.configured:
            return f"Correct the table [providers.{self.name}] in config.toml."
        return f"Upgrade or uninstall the distribution {self.distribution}."

    def finding(self) -> Finding:
        """Return the report as a doctor's line. A plugin that a person blocked is as they want it."""
        said = (*self.violations, *(f"deprecated: {warning}" for warning in self.warnings))
        return Finding(
            subject=f"plugin {self.title} ({f'{self.distribution} {self.version}'.strip()})",
            ok=self.state in ("loaded", "blocked"),
            detail="; ".join(said) or self.state,
            hint=self.hint(),
        )

    def view(self, block: Block | None) -> PluginView:
        """Return the report as a client sees it; ``block`` is what will block it at the next start."""
        blocked = self.state == "blocked"
        at_next_start = "" if blocked is (block is not None) else "unblocked" if blocked else "blocked"
        return PluginView(
            name=self.name,
            kind=self.kind,
            distribution=self.distribution,
            version=self.version,
            entry=self.entry,
            built_for=version_text(self.built_for) if self.built_for else None,
            requires=self.requires,
            core=version_text(API_VERSION),
            state=self.state,
            problems=self.violations,
            warnings=self.warnings,
            block=block,
            at_next_start=at_next_start,
            hint="" if at_next_start == "unblocked" else self.hint(),
        )

    def refusal(self, known: tuple[str, ...]) -> UnknownProviderError:
        """Return what asking for this provider is refused with; ``known`` are those that can be asked."""
        name = self.name[:64]
        if self.block is not None:
            return PluginBlockedError(provider=name, known=known, unblock=self.block.unblock, why=self.block.why)
        if self.state == "incompatible":
            return PluginIncompatibleError(provider=name, known=known, problem="; ".join(self.violations))
        return UnknownProviderError(provider=name, known=known)


@dataclass(eq=False)
class PluginBlockedError(UnknownProviderError):
    """The provider's plugin is blocked, so it was not loaded; its rooms, their files and conversations stay as they are."""

    code: ClassVar[str] = "plugin.blocked"
    hint: ClassVar[str] = "Do what `unblock` says, then run `jam daemon restart`. `jam plugin ls` shows who is blocked and why."

    unblock: str
    why: str


@dataclass(eq=False)
class PluginIncompatibleError(UnknownProviderError):
    """The provider's plugin was built for a plugin interface, or a Jam, that this one is not; it was not loaded."""

    code: ClassVar[str] = "plugin.incompatible"
    hint: ClassVar[str] = (
        "Install a version of the plugin that is built for this Jam, or upgrade Jam; `jam plugin ls` names both versions."
    )

    problem: str


@dataclass(eq=False)
class PolicyNotLoadedError(RefusalError):
    """An installed policy was not loaded and nobody blocked it, so no room is made or started: it would go without what is mandatory."""

    code: ClassVar[str] = "plugin.policy_not_loaded"
    hint: ClassVar[str] = (
        "Mend or uninstall its distribution (`jam plugin ls` says all that is wrong), or say that rooms go on without it: do what `block`"
        " says; then run `jam daemon restart`."
    )

    policy: str
    distribution: str
    problem: str
    block: str


@dataclass(eq=False)
class PolicyNotAppliedError(RefusalError):
    """The room was planned without what a policy wants of every plan now, so it is not started; its files and conversation stay."""

    code: ClassVar[str] = "plugin.policy_not_applied"
    hint: ClassVar[str] = (
        "Make a new room for the work; its files can be exported. Or block the named policies with `jam plugin block NAME` and run"
        " `jam daemon restart`."
    )

    sandbox: str
    policies: tuple[str, ...]
    problem: str


@dataclass(eq=False)
class PluginUnknownError(RefusalError):
    """No plugin of this name is installed, configured or blocked."""

    code: ClassVar[str] = "plugin.unknown"
    hint: ClassVar[str] = (
        "`jam plugin ls` lists them. The setting blocked_plugins also takes names of plugins that are not there yet."
    )

    plugin: str
    known: tuple[str, ...]


@dataclass(eq=False)
class PluginBlockedBySettingError(RefusalError):
    """The setting blocked_plugins names this plugin, and no command changes a setting."""

    code: ClassVar[str] = "plugin.blocked_by_setting"
    hint: ClassVar[str] = "Take it out of blocked_plugins in config.toml or JAM_BLOCKED_PLUGINS, then run `jam daemon restart`."

    plugin: str


@dataclass(eq=False)
class BlocksUnreadableError(FaultError):
    """The list of blocked plugins cannot be read, so nobody knows what must not be imported, and nothing is."""

    code: ClassVar[str] = "plugin.blocks_unreadable"
    hint: ClassVar[str] = (
        "Correct the named file or remove it, which unblocks what was blocked by a command; then start the daemon again."
    )

    path: str
    problem: str
