"""Provider plugins as clients see them."""

from __future__ import annotations

from jamcore.daemon.enginehouse import EngineHouse
from jamcore.domain.plugins import PluginKind, PluginReport
from jamcore.domain.providers import NothingToInstallError, ToolchainMissingError
from jamcore.domain.requests import CellRow, InstalledToolchain, InstallProgress, ProviderView
from jamcore.plugins.manager import ProviderManager
from jamcore.runtime.gate import StopGate
from jamcore.sandbox.toolchain import Toolchains


class Providers:
    """See :class:`~jamcore.daemon.services.ProviderService`."""

    def __init__(self, *, plugins: ProviderManager, engines: EngineHouse, toolchains: Toolchains, gate: StopGate) -> None:
        self._plugins = plugins
        self._engines = engines
        self._toolchains = toolchains
        self._gate = gate

    async def cells(self) -> tuple[CellRow, ...]:
        """Return the table, with the engines whose abilities suffice for each cell."""
        engines = self._engines.all()
        return tuple(
            CellRow(provider=name, cell=cell, engines=tuple(e.name for e in engines if cell.needs() <= e.abilities))
            for name, cell in self._plugins.table().rows()
        )

    async def list(self) -> tuple[ProviderView, ...]:
        """Return every provider, also the ones that were not loaded."""
        return tuple(self._view(report) for report in self._plugins.reports() if report.kind is PluginKind.PROVIDER)

    async def install(self, provider: str) -> InstalledToolchain:
        """Get the provider's pinned program.

        Raises:
            UnknownProviderError: No such provider.
            NothingToInstallError: Its plugin names no program.
            ToolchainMissingError: It has none for this machine.
            DaemonStoppingError: The daemon is being stopped; nothing half-installed is left.
        """
        spec = self._plugins.provider(provider).description.toolchain
        if spec is None:
            raise NothingToInstallError(provider=provider)
        with self._gate.until_stop(f"install the program of {provider}"):
            return await self._toolchains.install(provider, spec)

    async def progress(self, provider: str) -> InstallProgress:
        """Say how far an installation is.

        Raises:
            UnknownProviderError: No such provider.
        """
        self._plugins.provider(provider)
        return self._toolchains.progress_of(provider)

    def _view(self, report: PluginReport) -> ProviderView:
        loaded = report.state == "loaded" and report.name in self._plugins.names()
        description = self._plugins.provider(report.name).description if loaded else None
        spec = description.toolchain if description else None
        installed = False
        if spec is not None:
            try:
                self._toolchains.require(report.name, spec)
                installed = True
            except ToolchainMissingError:
                installed = False
        return ProviderView(
            name=report.name,
            title=description.title if description else report.name,
            state=report.state,
            distribution=report.distribution,
            version=report.version,
            program_version=spec.version if spec else None,
            installed=installed,
            problems=report.problems(),
        )
