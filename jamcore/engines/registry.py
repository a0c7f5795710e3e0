"""Finds engine plugins by entry point; one that cannot be loaded is reported by name, and all others go on (PLUG-1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint
from types import MappingProxyType
from typing import cast

from jamcore.domain.cells import Ability
from jamcore.domain.limits import HOOK_S, PLUGIN_IMPORT_S
from jamcore.domain.providers import API_VERSION, PluginReport
from jamcore.domain.sandboxes import Isolation
from jamcore.engines.port import EnginePlugin
from jamcore.system.distributions import Found, by_name, claimed_by, construct, installed
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

    async def load(self, *, blocked: frozenset[str] = frozenset(), found: Iterable[EntryPoint] | None = None) -> None:
        """Load every installed engine plugin; whatever is wrong with one disables that one and is reported.

        Args:
            blocked: Names that are reported and never imported.
            found: Entry points to use instead of the installed ones.
        """
        names = by_name(installed((GROUP,)) if found is None else found)
        wanted = [same[0] for name, same in names.items() if len(same) == 1 and name not in blocked]
        made = await construct(wanted, limit_s=self._import_limit_s)
        for name, same in names.items():
            if name in blocked:
                self._reports += [_report(each, "blocked") for each in same]
            elif len(same) > 1:
                self._reports += [_report(each, "broken", claimed_by(same)) for each in same]
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
            return _report(found, "broken", f"{found.entry.value}: {plugin}")
        try:
            # Also reading an attribute runs an author's code.
            problems = await call_bounded(lambda: _problems(found.name, plugin), limit_s=self._look_limit_s)
        except TimeoutError:
            return _report(found, "broken", f"looking at it took longer than {self._look_limit_s:g} s")
        if isinstance(problems, Raised):
            return _report(found, "broken", f"cannot be looked at: {problems}")
        if problems:
            return _report(found, "broken", *problems)
        self._plugins[found.name] = cast(EnginePlugin, plugin)  # its form was looked at above
        return _report(found, "loaded")


def _problems(name: str, plugin: object) -> tuple[str, ...]:
    if missing := [needed for needed in _NEEDED if not hasattr(plugin, needed)]:
        return (f"lacks {', '.join(missing)}",)
    version, called, isolation, abilities, opens = (getattr(plugin, needed) for needed in _NEEDED)
    problems = []
    if not (isinstance(version, tuple) and len(version) == 2 and all(type(part) is int for part in version)):
        problems.append("has no api_version (a tuple of two numbers)")
    elif version[0] != API_VERSION[0]:
        problems.append(f"written for plugin interface {version[0]}.x, this core has {API_VERSION[0]}.x")
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
    return PluginReport(f"{found.name} (engine)", found.distribution, found.version, state, violations)
