"""Which plugins are installed: entry points with the distribution that each belongs to. Nothing is imported here."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import metadata

import anyio
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion

from jamcore.system.foreign import Raised, call_bounded

CORE = "jamcore"
"""The distribution that plugins require."""


@dataclass(frozen=True, slots=True)
class Found:
    """One installed entry point, and whose it is; "?" where a distribution has no readable metadata.

    ``requires`` is what the distribution's metadata requires of the core, as ``>=1,<2``; empty when it requires nothing of it.
    """

    entry: metadata.EntryPoint
    distribution: str
    version: str
    requires: str = ""

    @property
    def name(self) -> str:
        """The entry point's name."""
        return self.entry.name

    @property
    def origin(self) -> str:
        """The distribution with its version."""
        return f"{self.distribution} {self.version}"


def installed(groups: Collection[str]) -> Iterator[metadata.EntryPoint]:
    """Yield the entry points of some groups. A distribution with broken metadata hides no other one."""
    seen = set[str]()
    for distribution in metadata.distributions():
        try:
            entries = [entry for entry in distribution.entry_points if entry.group in groups]
            name = _normal(distribution.metadata["Name"] or "") if entries else ""
        except Exception:  # noqa: BLE001, S112 - isolation: somebody else's broken installation is not ours to judge
            continue
        # The first on the path is the one that Python would import.
        if entries and name not in seen:
            seen.add(name)
            yield from entries


def by_name(entries: Iterable[metadata.EntryPoint]) -> Mapping[str, tuple[Found, ...]]:
    """Return who claims each name, in order of the names. More than one claim means that nobody can know which is meant."""
    claims: dict[str, list[Found]] = {}
    for entry in entries:
        found = Found(entry, *_origin(entry))
        same = claims.setdefault(entry.name, [])
        if all((found.origin, entry.value) != (other.origin, other.entry.value) for other in same):
            same.append(found)
    return {name: tuple(claims[name]) for name in sorted(claims)}


def unfit(found: Found, *, core: str | None = None) -> str | None:
    """Say why a distribution cannot work with this core by its own metadata, before anything of it is imported; ``None``: it may.

    Args:
        found: An entry point of the distribution.
        core: The core's version; the installed one when absent.
    """
    here = _core_version() if core is None else core
    try:
        if not found.requires or here is None or SpecifierSet(found.requires).contains(here, prereleases=True):
            return None
    except InvalidVersion:  # a core that was built in some way of its own is nobody's fault
        return None
    return f"requires {CORE} {found.requires}, and this is {CORE} {here}"


def claimed_by(same: Iterable[Found]) -> str:
    """Say who claims one name."""
    found = tuple(same)
    return f"the name {found[0].name!r} is claimed by " + " and ".join(each.origin for each in found)


async def construct(found: Iterable[Found], *, limit_s: float) -> Mapping[Found, object | Raised]:
    """Import the class of each and make one, all side by side in threads, so that those that hang cost one limit together.

    What one raises is returned in its place, a :class:`TimeoutError` for one that was not done within ``limit_s`` seconds; its thread is
    left behind.

    Raises:
        KeyboardInterrupt: A person wants to stop.
    """
    made: dict[Found, object | Raised] = {}

    async def one(each: Found) -> None:
        try:
            made[each] = await call_bounded(partial(_construct, each.entry), limit_s=limit_s)
        except TimeoutError:
            made[each] = Raised(TimeoutError(f"importing it took longer than {limit_s:g} s"))

    async with anyio.create_task_group() as tasks:
        for each in found:
            tasks.start_soon(one, each)
    for answer in made.values():
        if isinstance(answer, Raised) and isinstance(answer.error, KeyboardInterrupt):
            raise answer.error
    return made


def _construct(entry: metadata.EntryPoint) -> object:
    return entry.load()()


def _origin(entry: metadata.EntryPoint) -> tuple[str, str, str]:
    try:
        if entry.dist:
            return entry.dist.name, entry.dist.version, _requirement(entry.dist.requires or ())
    except Exception:  # noqa: BLE001 - isolation: a distribution without readable metadata
        return ("?", "?", "")
    return ("?", "?", "")


def _requirement(lines: Iterable[str]) -> str:
    """Return what requirements say of the core, without those of extras."""
    found = SpecifierSet()
    for line in lines:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:  # what installs it says so better
            continue
        if _normal(requirement.name) == CORE and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            found &= requirement.specifier
    return str(found)


def _core_version() -> str | None:
    try:
        return metadata.version(CORE)
    except metadata.PackageNotFoundError:  # a tree that was never installed
        return None


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
