"""Loads provider plugins so that a broken one ends alone, and holds the one capability table (PLUG-1, CAP-5, CAP-6).

Each daemon has its own manager and its own plugin instances; nothing here is global.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from importlib import metadata
from types import MappingProxyType

from jamcore.domain.cells import CellTable, UnknownProviderError
from jamcore.domain.limits import HOOK_ASYNC_S, HOOK_S, PLUGIN_IMPORT_S
from jamcore.domain.providers import PluginReport, ProviderDescription
from jamcore.plugins import families
from jamcore.plugins.families import FAMILIES, Table
from jamcore.plugins.provider import ProviderHooks
from jamcore.plugins.validation import behavioural_violations, new_manager, structural_violations
from jamcore.system.distributions import Found, by_name, claimed_by, construct, installed
from jamcore.system.foreign import Raised, call_bounded

PROVIDERS = "jam.providers"
"""Entry point group of provider plugins: a class, constructed without arguments once per daemon."""
POLICIES = "jam.policies"
"""Entry point group of policies: classes whose hooks only wrap those of every provider."""
NO_TABLES: Mapping[str, Table] = MappingProxyType({})


class ProviderManager:
    """The provider plugins of one daemon."""

    def __init__(
        self, *, hook_limit_s: float = HOOK_S, async_hook_limit_s: float = HOOK_ASYNC_S, import_limit_s: float = PLUGIN_IMPORT_S
    ) -> None:
        self._pluggy = new_manager()
        self._plugins: dict[str, object] = {}
        self._hooks: dict[str, ProviderHooks] = {}
        self._reports: list[PluginReport] = []
        self._table: CellTable | None = None
        self._hook_limit_s = hook_limit_s
        self._async_hook_limit_s = async_hook_limit_s
        self._import_limit_s = import_limit_s

    async def load(
        self,
        *,
        blocked: frozenset[str] = frozenset(),
        found: Iterable[metadata.EntryPoint] | None = None,
        tables: Mapping[str, Table] = NO_TABLES,
    ) -> None:
        """Load every installed policy and provider, and those that are configured; what is wrong with one disables it and is reported.

        Args:
            blocked: Names that are reported and never imported.
            found: Entry points to use instead of the installed ones.
            tables: Providers by configuration (:mod:`jamcore.plugins.families`), by their names. None can take an installed one's name.
        """
        entries = list(installed((PROVIDERS, POLICIES, FAMILIES)) if found is None else found)
        groups = {group: by_name(entry for entry in entries if entry.group == group) for group in (POLICIES, PROVIDERS)}
        wanted = [same[0] for names in groups.values() for name, same in names.items() if len(same) == 1 and name not in blocked]
        made = await construct(wanted, limit_s=self._import_limit_s)
        for group, names in groups.items():
            for name, same in names.items():
                await self._load_one(name, same, made, blocked=blocked, policy=group == POLICIES)
        makers = by_name(entry for entry in entries if entry.group == FAMILIES)
        for name, table in sorted(tables.items()):
            if name in blocked:
                self._reports.append(families.blocked(name))
            elif any(name in names for names in groups.values()):
                self._reports.append(families.taken(name, table))
            else:
                report, plugin = await families.provider_of(name, table, makers, limit_s=self._import_limit_s)
                if report.violations:
                    self._reports.append(report)
                else:
                    await self._admit(report, plugin, policy=False)

    async def add(self, name: str, plugin: object, *, distribution: str = "?", version: str = "?") -> PluginReport:
        """Register one provider's plugin object, or report all that is wrong with it."""
        return await self._admit(PluginReport(name, distribution, version, "loaded"), plugin, policy=False)

    async def add_policy(self, name: str, plugin: object, *, distribution: str = "?", version: str = "?") -> PluginReport:
        """Register one policy, whose hooks wrap those of every provider, or report what is wrong with it."""
        return await self._admit(PluginReport(name, distribution, version, "loaded"), plugin, policy=True)

    def reports(self) -> tuple[PluginReport, ...]:
        """Return one report for every entry point that was found, in the order of loading."""
        return tuple(self._reports)

    def report(self, name: str) -> PluginReport:
        """Return the last report about a name.

        Raises:
            UnknownProviderError: No plugin of this name was found.
        """
        for report in reversed(self._reports):
            if report.name == name:
                return report
        raise UnknownProviderError(provider=name[:64], known=tuple(sorted(self._hooks)))

    def names(self) -> tuple[str, ...]:
        """Return the providers that can be used, in order."""
        return tuple(sorted(self._hooks))

    def provider(self, name: str) -> ProviderHooks:
        """Return a provider's typed hooks.

        Raises:
            UnknownProviderError: It is not installed, is blocked, or was not loaded.
        """
        if name not in self._hooks:
            raise UnknownProviderError(provider=name[:64], known=self.names())
        return self._hooks[name]

    def table(self) -> CellTable:
        """Return the one capability table (CAP-5). From the first call on no provider can be added any more."""
        if self._table is None:
            self._table = CellTable({name: hooks.description.cells for name, hooks in self._hooks.items()})
        return self._table

    async def _load_one(
        self, name: str, same: tuple[Found, ...], made: Mapping[Found, object], *, blocked: frozenset[str], policy: bool
    ) -> None:
        if name in blocked:
            self._reports += [_report(found, "blocked") for found in same]
            return
        if len(same) > 1:
            # Which of them is meant cannot be known, and a wrong guess would run somebody else's program.
            self._reports += [_report(found, "broken", claimed_by(same)) for found in same]
            return
        found, plugin = same[0], made[same[0]]
        if isinstance(plugin, Raised):
            self._reports.append(_report(found, "broken", f"{found.entry.value}: {plugin}"))
            return
        await self._admit(_report(found, "loaded"), plugin, policy=policy)

    async def _admit(self, report: PluginReport, plugin: object, *, policy: bool) -> PluginReport:
        if self._table is not None and not policy:
            raise RuntimeError("the capability table is in use already: load all providers first")
        name = report.name
        description, violations = await self._examine(name, plugin, policy=policy)
        if name in self._plugins or self._pluggy.has_plugin(name):
            violations = (*violations, f"a plugin named {name!r} is loaded already")
        if violations:
            report = replace(report, state="broken", violations=violations)
        else:
            self._pluggy.register(plugin, name=name)
            if description is not None:
                self._plugins[name] = plugin
                self._hooks[name] = self._facade(name, plugin, description)
        self._reports.append(report)
        return report

    async def _examine(self, name: str, plugin: object, *, policy: bool) -> tuple[ProviderDescription | None, tuple[str, ...]]:
        """Try the plugin in a manager that is thrown away, so that nothing of a bad one stays registered."""
        trial = new_manager()
        try:
            problems = await call_bounded(
                partial(structural_violations, trial, name, plugin, policy=policy), limit_s=self._hook_limit_s
            )
        except TimeoutError:
            return None, (f"looking at it took longer than {self._hook_limit_s:g} s",)
        if isinstance(problems, Raised):
            return None, (f"cannot be looked at: {problems}",)
        if problems or policy:
            return None, problems
        hooks = ProviderHooks(name, plugin, trial, limit_s=self._hook_limit_s, async_limit_s=self._async_hook_limit_s)
        return await behavioural_violations(hooks)

    def _facade(self, name: str, plugin: object, description: ProviderDescription) -> ProviderHooks:
        return ProviderHooks(
            name,
            plugin,
            self._pluggy,
            others=lambda: [other for other_name, other in self._plugins.items() if other_name != name],
            on_disabled=partial(self._disabled, name),
            description=description,
            limit_s=self._hook_limit_s,
            async_limit_s=self._async_hook_limit_s,
        )

    def _disabled(self, name: str, problem: str) -> None:
        self._reports = [
            replace(report, state="disabled", violations=(problem,)) if report.name == name and report.state == "loaded" else report
            for report in self._reports
        ]


def _report(found: Found, state: str, *violations: str) -> PluginReport:
    return PluginReport(found.name, found.distribution, found.version, state, violations)
