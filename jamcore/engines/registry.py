"""Finds engine plugins by entry point; one that cannot be loaded is reported by name, and all others go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

from jamcore.domain.providers import API_VERSION, PluginReport
from jamcore.engines.port import EnginePlugin

GROUP = "jam.engines"
_NEEDED = ("api_version", "name", "isolation", "abilities", "open")


class EngineRegistry:
    """The engine plugins of one daemon."""

    def __init__(self) -> None:
        self._plugins: dict[str, EnginePlugin] = {}
        self._reports: dict[str, PluginReport] = {}

    def load(self, *, found: Iterable[EntryPoint] | None = None) -> None:
        """Load every installed engine plugin."""
        for entry in sorted(entry_points(group=GROUP) if found is None else found, key=lambda entry: entry.name):
            self._reports[entry.name] = self._load(entry)

    def plugins(self) -> Mapping[str, EnginePlugin]:
        """Return the loaded ones by name."""
        return MappingProxyType(self._plugins)

    def reports(self) -> tuple[PluginReport, ...]:
        """Return what became of each."""
        return tuple(self._reports.values())

    def _load(self, entry: EntryPoint) -> PluginReport:
        distribution, version = (entry.dist.name, entry.dist.version) if entry.dist else ("?", "?")

        def report(state: str, *violations: str) -> PluginReport:
            return PluginReport(f"{entry.name} (engine)", distribution, version, state, violations)

        try:
            plugin = entry.load()()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - isolation: an author's mistake ends here
            return report("broken", f"cannot be loaded: {error!r}")
        if missing := [name for name in _NEEDED if not hasattr(plugin, name)]:
            return report("broken", f"lacks {', '.join(missing)}")
        if plugin.api_version[0] != API_VERSION[0]:
            return report("broken", f"written for plugin API {plugin.api_version[0]}.x, this core has {API_VERSION[0]}.x")
        if plugin.name != entry.name:
            return report("broken", f"calls itself {plugin.name}")
        self._plugins[entry.name] = plugin
        return report("loaded")
