"""The daemon about itself: who it is, what this machine can do, and its end."""

from __future__ import annotations

from datetime import datetime

import anyio

from jamcore.daemon.activity import Activities, DaemonBusyError
from jamcore.daemon.credentials import Credentials
from jamcore.daemon.enginehouse import EngineHouse
from jamcore.daemon.inventory import SandboxInventory
from jamcore.daemon.options import DaemonOptions
from jamcore.domain.ids import DaemonId
from jamcore.domain.plugins import PluginKind
from jamcore.domain.providers import NothingToInstallError, ToolchainMissingError
from jamcore.domain.requests import DoctorReport, EngineView, FindingView, Health
from jamcore.domain.sandboxes import Finding, Isolation
from jamcore.plugins.manager import ProviderManager
from jamcore.runtime.leases import Leases
from jamcore.sandbox.toolchain import Toolchains
from jamcore.system.git import run_git

LEAST_FREE_BYTES = 2 << 30
"""A provider's program unpacked is a few hundred MB; below this a first session is likely to fill the disk."""
GIT_TIMEOUT_S = 10.0


class SystemStatus:
    """See :class:`~jamcore.daemon.services.SystemService`."""

    def __init__(
        self,
        options: DaemonOptions,
        *,
        identity: DaemonId,
        engines: EngineHouse,
        plugins: ProviderManager,
        toolchains: Toolchains,
        credentials: Credentials,
        inventory: SandboxInventory,
        leases: Leases,
        activities: Activities,
    ) -> None:
        self._options = options
        self._identity = identity
        self._engines = engines
        self._plugins = plugins
        self._toolchains = toolchains
        self._credentials = credentials
        self._inventory = inventory
        self._leases = leases
        self._activities = activities
        self._started: datetime = options.clock.now()
        self._stopping = anyio.Event()
        self._problems: tuple[str, ...] = ()

    async def health(self) -> Health:
        """Say who answers."""
        return Health(
            daemon_id=self._identity,
            version=self._options.version,
            pid=self._options.pid,
            started_at=self._started,
            app_directory=str(self._options.app),
            activity=await self._activities.now(),
        )

    async def doctor(self) -> DoctorReport:
        """Look at everything; healthy means that at least one provider can run in at least one engine."""
        findings = [self._disk(), await self._git()]
        healths = await self._engines.health()
        for health in healths:
            findings.extend(health.findings)
        engines = self._engines.views_of(healths)
        findings.append(self._sandboxing(engines))
        loaded = False
        for report in self._plugins.reports():
            loaded = loaded or (report.kind is PluginKind.PROVIDER and report.state == "loaded")
            findings.append(report.finding())
        # An engine that was loaded has said more by its health.
        findings.extend(report.finding() for report in self._engines.reports() if report.state != "loaded")
        for name in self._plugins.names():
            findings.extend(await self._provider(name))
        findings.extend(self._inventory.findings())
        findings.extend(
            Finding(subject="parking", ok=False, detail=str(trouble), hint="It is tried again each second; see the daemon's log.")
            for trouble in self._leases.troubles()
        )
        findings.extend(
            Finding(subject="start-up", ok=False, detail=problem, hint="The record is kept as it is; see the daemon's log.")
            for problem in self._problems
        )
        views = tuple(FindingView(subject=f.subject, ok=f.ok, detail=f.detail, hint=f.hint) for f in findings)
        return DoctorReport(healthy=loaded and any(engine.default for engine in engines), findings=views, engines=engines)

    async def engines(self) -> tuple[EngineView, ...]:
        """Return every engine."""
        return await self._engines.views()

    def shutdown(self) -> None:
        """Begin an orderly shutdown."""
        self._stopping.set()

    async def shutdown_if_idle(self) -> None:
        """Begin an orderly shutdown unless something is under way.

        Raises:
            DaemonBusyError: Something is; it goes on.
        """
        working = (await self._activities.now()).working
        if working or not self._activities.idle:
            raise DaemonBusyError(working="; ".join(working) or "something that began just now")
        self.shutdown()

    async def stopped(self) -> None:
        """Wait until a shutdown was asked for."""
        await self._stopping.wait()

    def remember(self, problems: tuple[str, ...]) -> None:
        """Keep what start-up met, for the doctor."""
        self._problems = problems

    def _sandboxing(self, engines: tuple[EngineView, ...]) -> Finding:
        """Say what a room gets that names no engine, plainly when that is no sandbox (CAP-1)."""
        chosen = next((engine for engine in engines if engine.default), None)
        if chosen is None:
            detail, hint = "a room that names no engine is refused", "Mend an engine above, or name one: `--engine NAME`."
        elif chosen.isolation == Isolation.NONE.name.lower():
            detail, hint = f"a room that names no engine runs in {chosen.name}: nothing isolates its agent", ""
        else:
            detail, hint = f"a room that names no engine runs in {chosen.name} (isolation: {chosen.isolation})", ""
        return Finding(subject="sandboxing", ok=chosen is not None, detail=detail, hint=hint)

    def _disk(self) -> Finding:
        free = self._options.files.free_bytes(self._options.app)
        return Finding(
            subject="disk of the app directory",
            ok=free >= LEAST_FREE_BYTES,
            detail=f"{free / (1 << 30):.1f} GiB free at {self._options.app}",
            hint="" if free >= LEAST_FREE_BYTES else "Free some space, or set JAM_HOME to a directory on a larger disk.",
        )

    async def _git(self) -> Finding:
        try:
            done = await run_git("--version", cwd=self._options.app, timeout_s=GIT_TIMEOUT_S)
        except OSError as error:
            return Finding(subject="git", ok=False, detail=error.strerror or str(error), hint="Install git.")
        return Finding(
            subject="git", ok=done.ok, detail=done.stdout.decode(errors="replace").strip(), hint="" if done.ok else "Install git."
        )

    async def _provider(self, name: str) -> list[Finding]:
        description = self._plugins.provider(name).description
        findings = []
        if (spec := description.toolchain) is not None:
            try:
                installed = self._toolchains.require_whole(name, spec)
                findings.append(Finding(subject=f"program of {name}", ok=True, detail=f"{installed.version} installed"))
            except ToolchainMissingError as error:
                hint = f"Run `jam provider install {name}`."
                findings.append(Finding(subject=f"program of {name}", ok=False, detail=error.problem, hint=hint))
        else:
            detail = f"not brought by Jam, and not looked for. {NothingToInstallError.hint}"
            findings.append(Finding(subject=f"program of {name}", ok=True, detail=detail))
        if (credential := description.credential) is not None:
            view = await self._credentials.view(credential.name)
            variables = " or ".join(credential.environment_names)
            hint = "" if view.present else f"Run `jam credential set {credential.name}`, or start the daemon with {variables} set."
            detail = view.source if view.present else "not set; needed for the provider's own model endpoint only"
            findings.append(Finding(subject=f"credential {credential.name}", ok=view.present, detail=detail, hint=hint))
        return findings
