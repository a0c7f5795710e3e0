"""Providers by configuration: a family is a kind of provider that many programs belong to, and a table describes one of them.

A distribution brings a family by an entry point; ``[providers.NAME]`` in the configuration file with ``family = "…"`` makes it one more
provider of that name. It is examined as every plugin is, and a bad table disables its own provider alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from jamcore.domain.errors import InvalidInputError
from jamcore.domain.plugins import NO_BLOCKS, Block, PluginKind, PluginReport, import_problem
from jamcore.system.distributions import Found, claimed_by, unfit
from jamcore.system.foreign import Raised, call_bounded

FAMILIES = "jam.provider_families"
"""Entry point group of families: a class, constructed without arguments, whose entry point has the family's name."""
FAMILY = "family"
"""The key of a table that names its family; all others are the family's."""

Table = Mapping[str, object]


class ProviderFamily(Protocol):
    """Makes plugin objects from tables."""

    def jam_family(self) -> str:
        """Return the family's name, the same as that of its entry point."""

    def least_table(self) -> Mapping[str, object]:
        """Return the least table that makes a provider, without ``family``: every key of it is needed. It is what the suite asks with."""

    def provider(self, name: str, table: Mapping[str, object]) -> object:
        """Return the plugin object for the provider ``name``, as an entry point of providers would make it. Starts nothing.

        Raises:
            InvalidInputError: The table is no description of such a provider; its field is the key.
        """


async def examined(name: str, same: tuple[Found, ...], *, block: Block | None, limit_s: float) -> PluginReport:
    """Return what becomes of an installed family: it is imported, unless it is blocked, and asked for its name."""
    found = same[0]
    report = replace(_report(name, found), kind=PluginKind.FAMILY, configured=False)
    if block is not None:
        return replace(report, state="blocked", block=block)
    if len(same) > 1:
        return replace(report, state="broken", violations=(claimed_by(same),))
    if other := unfit(found):
        return replace(report, state="incompatible", violations=(other,))
    try:
        made = await call_bounded(lambda: _family(found), limit_s=limit_s)
    except TimeoutError:
        return replace(report, state="broken", violations=(f"importing it took longer than {limit_s:g} s",))
    if isinstance(made, Raised):
        return replace(report, state="broken", violations=(import_problem(found.entry.value, made.error, str(made)),))
    return report


async def provider_of(
    name: str,
    table: object,
    families: Mapping[str, tuple[Found, ...]],
    *,
    limit_s: float,
    blocks: Mapping[str, Block] = NO_BLOCKS,
) -> tuple[PluginReport, object]:
    """Make a provider's plugin object from its table; raises for no fault of the table or of the family, nor where it is no table.

    Returns:
        Whose it is with what is wrong, if anything is, and the object, which is ``None`` then.
    """
    if not isinstance(table, Mapping):
        return _report(name, None, f"providers.{name}: it is no table"), None
    family = table.get(FAMILY)
    if not isinstance(family, str):
        return _report(name, None, f"providers.{name}.{FAMILY}: it is missing, or is no text"), None
    same = families.get(family, ())
    if same and family in blocks:
        return _report(name, None, f"the family {family!r} is blocked; to undo it: {blocks[family].unblock}"), None
    if len(same) != 1:
        problem = claimed_by(same) if same else f"no installed distribution brings the family {family[:40]!r}"
        return _report(name, None, problem), None
    found = same[0]
    if other := unfit(found):
        return replace(_report(name, found, other), state="incompatible"), None
    try:
        made = await call_bounded(lambda: _make(found, name, table), limit_s=limit_s)
    except TimeoutError:
        return _report(name, found, f"making it took longer than {limit_s:g} s"), None
    if isinstance(made, Raised):
        return _report(name, found, _problem(name, found, made.error)), None
    return _report(name, found), made


def taken(name: str, table: object) -> PluginReport:
    """Return the report for a table whose name an installed distribution has."""
    whose = f"the family {table.get(FAMILY)!r}" if isinstance(table, Mapping) else "what is no table"
    return _report(name, None, f"the name {name!r} is that of an installed plugin, and {whose} cannot take it")


def blocked(block: Block) -> PluginReport:
    """Return the report for a table whose provider a person blocked."""
    return PluginReport(block.plugin, CONFIGURATION, "", "blocked", configured=True, block=block)


CONFIGURATION = "configuration"


def _make(found: Found, name: str, table: Table) -> object:
    return _family(found).provider(name, {key: value for key, value in table.items() if key != FAMILY})


def _family(found: Found) -> ProviderFamily:
    family: ProviderFamily = found.entry.load()()
    said = family.jam_family()
    if said != found.name:
        message = f"the family calls itself {str(said)[:40]!r} but is installed as {found.name!r}"
        raise ValueError(message)
    return family


def _problem(name: str, found: Found, error: BaseException) -> str:
    if isinstance(error, InvalidInputError):
        return f"providers.{name}.{error.field}: {error.problem}"
    return f"{found.entry.value}: {Raised(error)}"


def _report(name: str, found: Found | None, *violations: str) -> PluginReport:
    distribution, version = (CONFIGURATION, "") if found is None else (found.distribution, found.version)
    return PluginReport(
        name,
        distribution,
        version,
        "broken" if violations else "loaded",
        violations,
        configured=True,
        entry=found.entry.value if found else "",
        requires=found.requires if found else "",
    )
