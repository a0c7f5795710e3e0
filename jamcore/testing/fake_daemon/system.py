"""The fake itself: its health, plugins, credentials and sandboxes."""

# ruff: noqa: D101, D102 - the methods are the ones of jamcore.daemon.services, documented there

from __future__ import annotations

import os
from uuid import UUID

import anyio

from jamcore.daemon.activity import DaemonBusyError
from jamcore.domain.activity import Activity
from jamcore.domain.cells import (
    SHARED_CELL,
    UnknownProviderError,
)
from jamcore.domain.clone_work import CloneWork
from jamcore.domain.errors import NotFoundError
from jamcore.domain.ownership import Disposition, OverrideEvidence, ReconciledSandbox, Reconciliation
from jamcore.domain.providers import ToolchainMissingError
from jamcore.domain.requests import (
    CellRow,
    CredentialRow,
    DoctorReport,
    EngineView,
    FindingView,
    Health,
    InstalledToolchain,
    InstallProgress,
    OverrideRequest,
    OverrideResult,
    OverrideView,
    ProviderView,
)
from jamcore.sandbox.clones import require_nothing_lost
from jamcore.testing.fake_daemon.records import (
    AT,
    CELL,
    Conversation,
)
from jamcore.testing.fake_daemon.state import Part


class FakeSystem(Part):
    async def health(self) -> Health:
        await self.fake.note("health")
        return Health(
            daemon_id=UUID(int=7),
            version="0.1.0",
            pid=os.getpid(),
            started_at=AT,
            app_directory=str(self.fake.directory),
            activity=None
            if (self.fake.directory / "says-nothing").exists()
            else Activity(live_rooms=len(self.fake.rooms), working=self.fake.working),
        )

    async def doctor(self) -> DoctorReport:
        await self.fake.note("doctor")
        return DoctorReport(
            healthy=False,
            findings=(
                FindingView(subject="engine bubblewrap", ok=True, detail="version 0.11", hint=""),
                FindingView(subject="credential openai", ok=False, detail="absent", hint="Run `jam credential set openai`."),
            ),
        )

    async def engines(self) -> tuple[EngineView, ...]:
        await self.fake.note("engines")
        return (
            EngineView(name="bubblewrap", isolation="namespace", usable=True, default=True, detail="version 0.11", hint=""),
            EngineView(name="local", isolation="none", usable=True, default=False, detail="no sandbox", hint=""),
        )

    def shutdown(self) -> None:
        self.fake.calls.append(("shutdown", None))
        self.fake.stopping.set()

    async def shutdown_if_idle(self) -> None:
        if self.fake.working:
            raise DaemonBusyError(working="; ".join(self.fake.working))
        self.shutdown()

    async def stopped(self) -> None:
        await self.fake.stopping.wait()


class FakeProviders(Part):
    async def cells(self) -> tuple[CellRow, ...]:
        await self.fake.note("cells")
        return (
            CellRow(provider="codex", cell=CELL, engines=("bubblewrap",)),
            CellRow(provider="codex", cell=SHARED_CELL, engines=()),
        )

    async def list(self) -> tuple[ProviderView, ...]:
        await self.fake.note("providers")
        return (
            ProviderView(
                name="codex",
                title="Codex",
                state="loaded",
                distribution="jam-codex",
                version="0.1.0",
                program_version="0.163.0",
                installed=True,
                problems=(),
            ),
            ProviderView(
                name="broken",
                title="",
                state="broken",
                distribution="jam-broken",
                version="1",
                program_version=None,
                installed=False,
                problems=("no module named x",),
            ),
        )

    async def install(self, provider: str) -> InstalledToolchain:
        await self.fake.note("install", provider)
        if provider == "absent":
            raise ToolchainMissingError(provider=provider, problem="not there")
        if provider != "codex":
            raise UnknownProviderError(provider=provider, known=("codex",))
        self.fake.progress = InstallProgress(step="downloading", bytes=3_000_000, total=12_000_000)
        await self.fake.gate.wait()
        while (self.fake.directory / "hold-install").exists():  # noqa: ASYNC110 - another process removes it
            await anyio.sleep(0.02)
        self.fake.calls.append(("installed", provider))
        return InstalledToolchain(provider=provider, version="0.163.0", digest="b" * 64, path="/x/codex", already=False)

    async def progress(self, provider: str) -> InstallProgress:
        await self.fake.note("progress", provider)
        return self.fake.progress


class FakeCredentials(Part):
    async def list(self) -> tuple[CredentialRow, ...]:
        await self.fake.note("credentials")
        return tuple(CredentialRow(name=name, present=True, source="kept") for name in self.fake.secrets)

    async def set(self, name: str, value: str) -> CredentialRow:
        await self.fake.note("set_credential", (name, value))
        self.fake.secrets[name] = value
        return CredentialRow(name=name, present=True, source="kept")

    async def forget(self, name: str) -> None:
        await self.fake.note("forget_credential", name)
        if self.fake.secrets.pop(name, None) is None:
            raise NotFoundError(kind="credential", ref=name)


class FakeHosts(Part):
    async def inspect_override(self, ref: str) -> OverrideView:
        await self.fake.note("inspect_override", ref)
        found = self.fake.find(ref)
        evidence = _evidence(found)
        return OverrideView(
            host_id=found.host.id,
            engine=found.host.engine,
            rooms=(found.room.name,),
            evidence=evidence,
            digest=evidence.content_digest(),
            needed=not found.live,
        )

    async def override(self, ref: str, request: OverrideRequest) -> OverrideResult:
        await self.fake.note("override", (ref, request))
        found = self.fake.find(ref)
        require_nothing_lost(found.host.sandbox, _evidence(found).work, discard=request.discard_work)
        return OverrideResult(id=request.id, host_id=found.host.id, sandbox=found.host.sandbox, confirmed=request.confirmed)


def _evidence(found: Conversation) -> OverrideEvidence:
    """Of a room named ``worked-in``: its private clone goes with the sandbox, and holds work."""
    cloned = found.room.name == "worked-in"
    return OverrideEvidence(
        sandbox=found.host.sandbox,
        presence="stopped",
        marker_digest="a" * 64,
        nonce="missing",
        engine_proof="not-kept",
        clone_goes=cloned,
        work=CloneWork(commit="0" * 40, uncommitted=1, paths=("mine.txt",)) if cloned else None,
    )


class FakeInventory(Part):
    async def reconcile(self) -> Reconciliation:
        await self.fake.note("reconcile")
        rows = (
            ReconciledSandbox(
                sandbox="jam-1",
                engine="bubblewrap",
                host_id=None,
                disposition=Disposition.ORPHAN_OWNER_MARKER,
                presence="absent",
                detail="no\x1b[2J host",
            ),
        )
        return Reconciliation(at=AT, sandboxes=rows, foreign=2, of_other_daemons=3, unanswered=("docker",))
