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
from jamcore.domain.plugins import NO_BLOCKS, Block, PluginKind, PluginReport, PolicyNotLoadedError, import_problem
from jamcore.domain.providers import ProviderDescription
from jamcore.plugins import families
from jamcore.plugins.families import FAMILIES
from jamcore.plugins.hookspecs import ProviderSpecs
from jamcore.plugins.provider import PreparesNothing, ProviderHooks
from jamcore.plugins.validation import Form, behavioural_violations, form_of, new_manager
from jamcore.system.distributions import Found, by_name, claimed_by, construct, installed, unfit
from jamcore.system.foreign import Raised, call_bounded

PROVIDERS = "jam.providers"
"""Entry point group of provider plugins: a class, constructed without arguments once per daemon."""
POLICIES = "jam.policies"
"""Entry point group of policies: classes whose hooks only wrap those of every provider."""
NO_TABLES: Mapping[str, object] = MappingProxyType({})
_AS_WANTED = frozenset({"loaded", "blocked"})
"""What may become of a policy without a room being in danger."""


class ProviderManager:
    """The provider plugins of one daemon.

    Args:
        hook_limit_s: How long a hook may take.
        async_hook_limit_s: How long an asynchronous one may.
        import_limit_s: How long an import may.
        specs: The hooks; with ``facade``, what calls them. Tests give those of a later version, to show what becomes of plugins that
            were built for this one.
    """

    def __init__(
        self,
        *,
        hook_limit_s: float = HOOK_S,
        async_hook_limit_s: float = HOOK_ASYNC_S,
        import_limit_s: float = PLUGIN_IMPORT_S,
        specs: type[ProviderSpecs] = ProviderSpecs,
        facade: type[ProviderHooks] = ProviderHooks,
    ) -> None:
        self._hooks_of = facade
        self._specs = specs
        self._pluggy = new_manager(specs)
        self._nothing = PreparesNothing()
        self._pluggy.register(self._nothing)
        self._plugins: dict[str, object] = {}
        self._policies: list[object] = []
        self._hooks: dict[str, ProviderHooks] = {}
        self._reports: list[PluginReport] = []
        self._table: CellTable | None = None
        self._hook_limit_s = hook_limit_s
        self._async_hook_limit_s = async_hook_limit_s
        self._import_limit_s = import_limit_s

    async def load(
        self,
        *,
        blocked: Mapping[str, Block] = NO_BLOCKS,
        found: Iterable[metadata.EntryPoint] | None = None,
        tables: Mapping[str, object] = NO_TABLES,
    ) -> None:
        """Load every installed policy and provider, and those that are configured; what is wrong with one disables it and is reported.

        Args:
            blocked: Names that are reported and never imported.
            found: Entry points to use instead of the installed ones.
            tables: Providers by configuration (:mod:`jamcore.plugins.families`), by their names. None can take an installed one's name,
                and what is no table is reported as a bad one is.
        """
        entries = list(installed((PROVIDERS, POLICIES, FAMILIES)) if found is None else found)
        groups = {group: by_name(entry for entry in entries if entry.group == group) for group in (POLICIES, PROVIDERS)}
        single = [same[0] for names in groups.values() for name, same in names.items() if len(same) == 1 and name not in blocked]
        wanted = [each for each in single if unfit(each) is None]
        made = await construct(wanted, limit_s=self._import_limit_s)
        for group, names in groups.items():
            for name, same in names.items():
                await self._load_one(name, same, made, blocked=blocked, policy=group == POLICIES)
        makers = by_name(entry for entry in entries if entry.group == FAMILIES)
        for name, same in makers.items():
            limit_s = self._import_limit_s
            self._reports.append(await families.examined(name, same, block=blocked.get(name), limit_s=limit_s))
        for name, table in sorted(tables.items()):
            if name in blocked:
                self._reports.append(families.blocked(blocked[name]))
            elif any(name in names for names in groups.values()):
                self._reports.append(families.taken(name, table))
            else:
                report, plugin = await families.provider_of(name, table, makers, limit_s=self._import_limit_s, blocks=blocked)
                if report.violations:
                    self._reports.append(report)
                else:
                    await self._admit(report, plugin, policy=False)

    async def add(self, name: str, plugin: object, *, distribution: str = "?", version: str = "?") -> PluginReport:
        """Register one provider's plugin object, or report all that is wrong with it."""
        return await self._admit(PluginReport(name, distribution, version, "loaded"), plugin, policy=False)

    async def add_policy(self, name: str, plugin: object, *, distribution: str = "?", version: str = "?") -> PluginReport:
        """Register one policy, whose hooks wrap those of every provider, or report what is wrong with it."""
        return await self._admit(PluginReport(name, distribution, version, "loaded", kind=PluginKind.POLICY), plugin, policy=True)

    def reports(self) -> tuple[PluginReport, ...]:
        """Return one report for every entry point that was found, in the order of loading."""
        return tuple(self._reports)

    def report(self, name: str) -> PluginReport:
        """Return the last report about a provider or policy of a name.

        Raises:
            UnknownProviderError: No plugin of this name was found.
        """
        for report in reversed(self._reports):
            if report.name == name and report.kind is not PluginKind.FAMILY:
                return report
        raise UnknownProviderError(provider=name[:64], known=tuple(sorted(self._hooks)))

    def names(self) -> tuple[str, ...]:
        """Return the providers that can be used, in order."""
        return tuple(sorted(self._hooks))

    def provider(self, name: str) -> ProviderHooks:
        """Return a provider's typed hooks.

        Raises:
            UnknownProviderError: It is not installed, or was not loaded; a subclass of it when it is blocked or built for another Jam.
        """
        if name in self._hooks:
            return self._hooks[name]
        for report in reversed(self._reports):
            if report.name == name and report.kind is PluginKind.PROVIDER:
                raise report.refusal(self.names())
        raise UnknownProviderError(provider=name[:64], known=self.names())

    def require_policies(self) -> None:
        """Accept that every installed policy is loaded, or blocked by a person: then a plan has everything that is mandatory.

        Raises:
            PolicyNotLoadedError: One is not; the first is named.
        """
        for report in self._reports:
            if report.kind is PluginKind.POLICY and report.state not in _AS_WANTED:
                raise PolicyNotLoadedError(
                    policy=report.name[:64],
                    distribution=f"{report.distribution} {report.version}".strip(),
                    problem="; ".join(report.violations),
                    block=f"jam plugin block {report.name}",
                )

    def table(self) -> CellTable:
        """Return the one capability table (CAP-5). From the first call on no provider can be added any more."""
        if self._table is None:
            self._table = CellTable({name: hooks.description.cells for name, hooks in self._hooks.items()})
        return self._table

    async def _load_one(
        self, name: str, same: tuple[Found, ...], made: Mapping[Found, object], *, blocked: Mapping[str, Block], policy: bool
    ) -> None:
        kind = PluginKind.POLICY if policy else PluginKind.PROVIDER
        if name in blocked:
            self._reports += [replace(_report(found, kind, "blocked"), block=blocked[name]) for found in same]
            return
        if len(same) > 1:
            # Which of them is meant cannot be known, and a wrong guess would run somebody else's program.
            self._reports += [_report(found, kind, "broken", claimed_by(same)) for found in same]
            return
        found = same[0]
        if problem := unfit(found):
            self._reports.append(_report(found, kind, "incompatible", problem))
            return
        plugin = made[found]
        if isinstance(plugin, Raised):
            problem = import_problem(found.entry.value, plugin.error, str(plugin))
            self._reports.append(_report(found, kind, "broken", problem))
            return
        await self._admit(_report(found, kind, "loaded"), plugin, policy=policy)

    async def _admit(self, report: PluginReport, plugin: object, *, policy: bool) -> PluginReport:
        if self._table is not None and not policy:
            raise RuntimeError("the capability table is in use already: load all providers first")
        name = report.name
        form, description, violations = await self._examine(name, plugin, policy=policy)
        if form.fits and (name in self._plugins or self._pluggy.has_plugin(name)):
            violations = (*violations, f"a plugin named {name!r} is loaded already")
        report = replace(report, built_for=form.built_for, warnings=form.warnings)
        if violations:
            report = replace(report, state="broken" if form.fits else "incompatible", violations=violations)
        else:
            self._pluggy.register(plugin, name=name)
            if policy:
                self._policies.append(plugin)
            if description is not None:
                self._plugins[name] = plugin
                self._hooks[name] = self._facade(name, plugin, description)
        self._reports.append(report)
        return report

    async def _examine(
        self, name: str, plugin: object, *, policy: bool
    ) -> tuple[Form, ProviderDescription | None, tuple[str, ...]]:
        """Try the plugin in a manager that is thrown away, so that nothing of a bad one stays registered."""
        trial = new_manager(self._specs)
        try:
            form = await call_bounded(partial(form_of, trial, name, plugin, policy=policy), limit_s=self._hook_limit_s)
        except TimeoutError:
            form = _formless(f"looking at it took longer than {self._hook_limit_s:g} s")
        if isinstance(form, Raised):
            form = _formless(f"cannot be looked at: {form}")
        if form.violations or policy:
            return form, None, form.violations
        hooks = self._hooks_of(name, plugin, trial, limit_s=self._hook_limit_s, async_limit_s=self._async_hook_limit_s)
        return form, *(await behavioural_violations(hooks))

    def _facade(self, name: str, plugin: object, description: ProviderDescription) -> ProviderHooks:
        return self._hooks_of(
            name,
            plugin,
            self._pluggy,
            others=lambda: [other for other_name, other in self._plugins.items() if other_name != name],
            policies=lambda: self._policies,
            nothing=self._nothing,
            require_policies=self.require_policies,
            on_disabled=partial(self._disabled, name),
            description=description,
            limit_s=self._hook_limit_s,
            async_limit_s=self._async_hook_limit_s,
        )

    def _disabled(self, name: str, problem: str) -> None:
        meant = (name, PluginKind.PROVIDER, "loaded")  # a family may have the same name
        self._reports = [
            replace(report, state="disabled", violations=(problem,))
            if (report.name, report.kind, report.state) == meant
            else report
            for report in self._reports
        ]


def _formless(problem: str) -> Form:
    return Form(None, fits=True, violations=(problem,))


def _report(found: Found, kind: PluginKind, state: str, *violations: str) -> PluginReport:
    return PluginReport(
        found.name,
        found.distribution,
        found.version,
        state,
        violations,
        kind=kind,
        entry=found.entry.value,
        requires=found.requires,
    )
