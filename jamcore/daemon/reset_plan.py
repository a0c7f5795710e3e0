"""What takes the place of a host whose conversations are given up: all ids and the plan, minted before anything is changed (CONT-9)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from uuid import UUID

from jamcore.daemon.enginehouse import EngineHouse
from jamcore.domain.cells import Placement, WorkspaceSource
from jamcore.domain.host_native import HostNativeWorkspace
from jamcore.domain.plan import HostPath, MountRole, Plan, RuntimeHostOwner, Toolchain
from jamcore.domain.requests import EndpointChoice
from jamcore.domain.resets import ContinuityEvidence, ContinuityReset, SessionReplacement
from jamcore.domain.sessions import Binding, RuntimeHost, RuntimeSession, SessionWorkspace
from jamcore.plugins.manager import ProviderManager
from jamcore.plugins.provider import ProviderHooks
from jamcore.sandbox.planning import EngineFacts, PlanInputs, ReferenceFolder, plan_for
from jamcore.sandbox.toolchain import Toolchains
from jamcore.store import Repos, Store
from jamcore.system.clock import Clock
from jamcore.system.ids import IdSource


@dataclass(frozen=True, slots=True)
class SourceSession:
    """A session of the source with everything that its replacement is made from."""

    session: RuntimeSession
    binding: Binding
    workspace: SessionWorkspace
    native: HostNativeWorkspace | None


@dataclass(frozen=True, slots=True)
class ResetPlanner:
    """Plans by the one constructor of plans (PLAN-6): the same request as once, with the program that is installed now."""

    store: Store
    plugins: ProviderManager
    engines: EngineHouse
    toolchains: Toolchains
    clock: Clock
    ids: IdSource

    async def plan(self, identifier: UUID, host: RuntimeHost, evidence: ContinuityEvidence) -> ContinuityReset:
        """Return the record of a fresh start of a host.

        Raises:
            JamError: A plan like the source's cannot be made any more: its engine, its plugin or its program is not there.
        """
        sources = await self.store.read(lambda repos: source_sessions(repos, host.id))
        replacements = tuple(self._replacement(source) for source in sources)
        shared = host.cell.placement is Placement.SHARED
        host_id = self.ids.uuid() if shared else replacements[0].session_id
        plan = await self._plan(host, host_id, sources[0], replacements[0].session_id)
        return ContinuityReset(
            id=identifier,
            source_host_id=host.id,
            host_id=host_id,
            sandbox=plan.name,
            plan_json=plan.canonical_json().decode(),
            evidence=evidence,
            confirmed=evidence.checksum(),
            checkpoint_id=self.ids.uuid(),
            sessions=replacements,
            created_at=self.clock.now(),
        )

    def _replacement(self, source: SourceSession) -> SessionReplacement:
        return SessionReplacement(
            room_id=source.binding.room_id,
            source_session_id=source.session.id,
            session_id=self.ids.uuid(),
            source_binding_id=source.binding.id,
            binding_id=self.ids.uuid(),
            source_workspace_id=source.workspace.id,
            workspace_id=self.ids.uuid(),
            native_id=self.ids.uuid() if source.native else None,
            operation_id=self.ids.uuid(),
        )

    async def _plan(self, host: RuntimeHost, host_id: UUID, first: SourceSession, session_id: UUID) -> Plan:
        old = Plan.model_validate_json(host.plan_json)
        hooks = self.plugins.provider(host.provider)
        endpoint = EndpointChoice(origin=old.endpoint.origin, credential=old.endpoint.credential) if old.endpoint else None
        managed = first.workspace.source is WorkspaceSource.MANAGED
        inputs = PlanInputs(
            owner=RuntimeHostOwner(agent_id=host.agent_id, host_id=host_id),
            host_id=host_id,
            session_id=session_id,
            configuration=old.cell.configuration,
            workspace=old.cell.workspace,
            placement=old.cell.placement,
            path=first.workspace.path if not managed else None,
            commit=first.workspace.commit,
            environment_files=old.environment_files,
            references=_references(old),
            resources=old.resources,
            minimum_isolation=old.minimum_isolation,
            endpoint=endpoint,
            toolchain=self._toolchain(hooks),
            program_in_image=old.toolchain is not None and not any(mount.role is MountRole.TOOLCHAIN for mount in old.mounts),
            account_id=first.native.account_id if first.native else None,
        )
        engine = EngineFacts.of(self.engines.get(host.engine))
        return await plan_for(inputs, hooks=hooks, table=self.plugins.table(), engine=engine)

    def _toolchain(self, hooks: ProviderHooks) -> Toolchain | None:
        spec = hooks.description.toolchain
        return None if spec is None else self.toolchains.require(hooks.name, spec)


def source_sessions(repos: Repos, host: UUID) -> tuple[SourceSession, ...]:
    """Read the sessions of a host, oldest first, with their bindings and workspaces."""
    return tuple(
        SourceSession(
            session=session,
            binding=repos.bindings.of_session(session.id),
            workspace=repos.workspaces.of_session(session.id),
            native=repos.host_native.of_session(session.id),
        )
        for session in repos.sessions.of_host(host)
    )


def _references(plan: Plan) -> tuple[ReferenceFolder, ...]:
    return tuple(
        ReferenceFolder(name=PurePosixPath(mount.guest_path).name, path=mount.source.path)
        for mount in plan.mounts
        if mount.role is MountRole.REFERENCE and isinstance(mount.source, HostPath)
    )
