"""Finds engine plugins by entry point; one that cannot be loaded is reported by name, and all others go on (PLUG-1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint
from types import MappingProxyType
from typing import cast

from jamcore.domain.cells import Ability
from jamcore.domain.limits import HOOK_S, PLUGIN_IMPORT_S
from jamcore.domain.plugins import (
    NO_BLOCKS,
    Block,
    PluginKind,
    PluginReport,
    api_version_of,
    api_version_problem,
    fits,
    import_problem,
    other_interface,
)
from jamcore.domain.sandboxes import Isolation
from jamcore.engines.port import EnginePlugin
from jamcore.system.distributions import Found, by_name, claimed_by, construct, installed, unfit
from jamcore.system.foreign import Raised, call_bounded

GROUP = "jam.engines"
_NEEDED = ("api_version", "name", "isolation", "abilities", "open")


class EngineRegistry:
    """The engine plugins of one daemon."""

    def __init__(self, *, import_limit_s: float = PLUGIN_IMPORT_S, look_limit_s: float = HOOK_S) -> None:
        self._plugins: dict[str, EnginePlugin] = {}
        self._reports: list[PluginReport] = []
        self._import_limit_s = import_limit_s
        self._look_limit_s = look_limit_s

    async def load(self, *, blocked: Mapping[str, Block] = NO_BLOCKS, found: Iterable[EntryPoint] | None = None) -> None:
        """Load every installed engine plugin; whatever is wrong with one disables that one and is reported.

        Args:
            blocked: Names that are reported and never imported.
            found: Entry points to use instead of the installed ones.
        """
        names = by_name(installed((GROUP,)) if found is None else found)
        single = [same[0] for name, same in names.items() if len(same) == 1 and name not in blocked]
        wanted = [each for each in single if unfit(each) is None]
        made = await construct(wanted, limit_s=self._import_limit_s)
        for name, same in names.items():
            if name in blocked:
                self._reports += [replace(_report(each, "blocked"), block=blocked[name]) for each in same]
            elif len(same) > 1:
                self._reports += [_report(each, "broken", claimed_by(same)) for each in same]
            elif problem := unfit(same[0]):
                self._reports.append(_report(same[0], "incompatible", problem))
            else:
                self._reports.append(await self._load(same[0], made[same[0]]))

    def plugins(self) -> Mapping[str, EnginePlugin]:
        """Return the loaded ones by name."""
        return MappingProxyType(self._plugins)

    def reports(self) -> tuple[PluginReport, ...]:
        """Return what became of each, in the order of their names."""
        return tuple(self._reports)

    async def _load(self, found: Found, plugin: object) -> PluginReport:
        if isinstance(plugin, Raised):
            return _report(found, "broken", import_problem(found.entry.value, plugin.error, str(plugin)))
        try:
            # Also reading an attribute runs an author's code.
            looked = await call_bounded(lambda: _look(found.name, plugin), limit_s=self._look_limit_s)
        except TimeoutError:
            return _report(found, "broken", f"looking at it took longer than {self._look_limit_s:g} s")
        if isinstance(looked, Raised):
            return _report(found, "broken", f"cannot be looked at: {looked}")
        built_for, problems = looked
        if built_for is not None and not fits(built_for):
            return replace(_report(found, "incompatible", other_interface(built_for)), built_for=built_for)
        if not problems:
            self._plugins[found.name] = cast(EnginePlugin, plugin)  # its form was looked at above
        return replace(_report(found, "broken" if problems else "loaded", *problems), built_for=built_for)


def _look(name: str, plugin: object) -> tuple[tuple[int, int] | None, tuple[str, ...]]:
    """Return which interface it says, and what is wrong with its form."""
    built_for = api_version_of(getattr(plugin, "api_version", None))
    if built_for is not None and not fits(built_for):
        return built_for, ()
    return built_for, _problems(name, plugin)


def _problems(name: str, plugin: object) -> tuple[str, ...]:
    if missing := [needed for needed in _NEEDED if not hasattr(plugin, needed)]:
        return (f"lacks {', '.join(missing)}",)
    version, called, isolation, abilities, opens = (getattr(plugin, needed) for needed in _NEEDED)
    problems = [problem for problem in (api_version_problem(version),) if problem]
    if called != name:
        problems.append(f"calls itself {called!r}"[:80])
    if not isinstance(isolation, Isolation):
        problems.append("its isolation is no isolation class")
    if not (isinstance(abilities, frozenset) and all(isinstance(ability, Ability) for ability in abilities)):
        problems.append("its abilities are no frozen set of abilities")
    elif Ability.ENVIRONMENT_FILES in abilities:
        problems.append("claims environment files, which this version of the engine port cannot hand over: they would be ignored")
    if not callable(opens):
        problems.append("its open cannot be called")
    return tuple(problems)


def _report(found: Found, state: str, *violations: str) -> PluginReport:
    return PluginReport(
        found.name,
        found.distribution,
        found.version,
        state,
        violations,
        kind=PluginKind.ENGINE,
        entry=found.entry.value,
        requires=found.requires,
    )
