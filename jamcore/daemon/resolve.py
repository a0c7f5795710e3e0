"""Turns a room request into things that exist: the plugin, a healthy engine, the installed program, the repository's commit."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from jamcore.daemon.credentials import Credentials
from jamcore.daemon.enginehouse import EngineHouse
from jamcore.domain.approvals import ApprovalPolicy, ApprovalsNotOfferedError
from jamcore.domain.cells import Cell, Configuration, WorkspaceChoice, WorkspaceSource
from jamcore.domain.errors import InvalidInputError
from jamcore.domain.plan import PlanRefusedError, Toolchain
from jamcore.domain.providers import CredentialMissingError, ProviderDescription
from jamcore.domain.requests import RoomRequest
from jamcore.domain.resources import demanded, require_held, with_defaults
from jamcore.domain.sandboxes import Isolation, Resources
from jamcore.engines.port import Engine, LimitsResources
from jamcore.plugins.manager import ProviderManager
from jamcore.plugins.provider import ProviderHooks
from jamcore.runtime.allocator import Resolved
from jamcore.sandbox.planning import EngineFacts
from jamcore.sandbox.toolchain import Toolchains
from jamcore.workspace.direct import DirectoryRefusedError, inspect_directory, person_home
from jamcore.workspace.repository import RepositoryFacts, inspect_repository

ROOM_NAME_CHARACTERS = 80
"""Of a room's name: a column of a list."""


@dataclass(frozen=True, slots=True)
class Resolver:
    """Every check that can be made before anything exists. The order is the one in which a person can act on the answers."""

    plugins: ProviderManager
    engines: EngineHouse
    toolchains: Toolchains
    credentials: Credentials
    app: Path
    resources: Resources = field(default_factory=Resources)

    async def resolve(self, request: RoomRequest) -> Resolved:
        """Look at everything the request names.

        Raises:
            ApprovalsNotOfferedError: The agent is to ask, and cannot.
            PolicyNotLoadedError: What is mandatory for every room could not be.
            UnknownProviderError, NoSuchCellError, EngineLacksAbilityError: The combination (CAP-4).
            EngineUnavailableError: No engine, or not the named one.
            LimitNotHeldError: A limit that the engine cannot hold here.
            InvalidInputError, RefusalError: The path or the repository (CAP-7).
            CredentialMissingError, ToolchainMissingError: A readiness gate.
        """
        require_room_name(request.name)
        hooks = self.plugins.provider(request.provider)
        self.plugins.require_policies()
        chosen = await self.engines.choose(request.engine)
        engine = EngineFacts.of(chosen)
        table = self.plugins.table()
        cell = Cell(configuration=request.configuration, workspace=request.workspace, placement=request.placement)
        approvals = _approvals(request, hooks, engine)
        table.require(request.provider, cell, engine=engine.name, abilities=engine.abilities)
        WorkspaceChoice(source=request.workspace, path=request.path).require_complete()
        _require_files(request)
        resources = with_defaults(request.resources, self.resources)
        await require_limits(chosen, resources)
        facts = await self._repository(request)
        await self._require_credential(request, hooks)
        return Resolved(
            request=request,
            hooks=hooks,
            engine=engine,
            table=table,
            toolchain=self._toolchain(hooks),
            path=str(facts.root) if facts else self._in_place(request, engine),
            resources=resources,
            approvals=approvals,
            commit=facts.commit if facts and request.workspace is WorkspaceSource.PRIVATE_HOST_CLONE else None,
        )

    async def _repository(self, request: RoomRequest) -> RepositoryFacts | None:
        if request.workspace is not WorkspaceSource.PRIVATE_HOST_CLONE or request.path is None:
            return None
        return await inspect_repository(Path(request.path), allow_dirty=request.allow_dirty)

    def _in_place(self, request: RoomRequest, engine: EngineFacts) -> str | None:
        """Return the person's own directory, looked at, where the agent is to work in it."""
        if request.workspace is not WorkspaceSource.DIRECT_HOST or request.path is None:
            return request.path
        found = inspect_directory(Path(request.path), app=self.app, home=person_home())
        if engine.isolation > Isolation.NONE and os.geteuid() == 0 == found.stat().st_uid:
            # No guest is ever root (SEC-1), so it could not write there.
            raise DirectoryRefusedError(path=str(found), problem="it belongs to root, and nothing in a sandbox is ever root")
        return str(found)

    def _toolchain(self, hooks: ProviderHooks) -> Toolchain | None:
        spec = hooks.description.toolchain
        return None if spec is None else self.toolchains.require(hooks.name, spec)

    async def _require_credential(self, request: RoomRequest, hooks: ProviderHooks) -> None:
        """Refuse early what would fail in the first turn: a model endpoint whose credential is not there."""
        if request.endpoint is not None:
            name = request.endpoint.credential
            if name is not None and not (await self.credentials.view(name)).present:
                raise CredentialMissingError(credential=name, variables=(f"JAM_CREDENTIAL_{name.upper()}",))
            return
        spec = hooks.description.credential
        if spec is None:
            return
        report = await hooks.check_credentials(await self.credentials.view(spec.name))
        if not report.ready:
            raise CredentialMissingError(credential=spec.name, variables=spec.environment_names)


def require_room_name(name: str | None) -> None:
    """Accept a name that fits on one line of a list and says what it shows (SEC-3).

    Raises:
        InvalidInputError: It is empty, long, or holds what is not printed.
    """
    if name is None:
        return
    if not 1 <= len(name) <= ROOM_NAME_CHARACTERS or not name.isprintable() or name != name.strip():
        raise InvalidInputError(field="name", problem=f"a room's name has 1 to {ROOM_NAME_CHARACTERS} printable characters")


def require_model(request: RoomRequest, description: ProviderDescription) -> None:
    """Require what a new conversation of an agent without a model of its own needs; one that is brought back has its model.

    Raises:
        PlanRefusedError: The request names no model.
    """
    if description.needs_model and request.model is None:
        raise PlanRefusedError(part="model", problem=f"{description.title} has no model to begin with: name one")


def _approvals(request: RoomRequest, hooks: ProviderHooks, engine: EngineFacts) -> ApprovalPolicy:
    """Return what the person chose. Who chose nothing is asked where nothing isolates the agent and it can ask; a sandbox is the boundary.

    Raises:
        ApprovalsNotOfferedError: It is to ask, and cannot.
    """
    can = hooks.description.approvals
    if request.approvals is ApprovalPolicy.ASK and not can:
        raise ApprovalsNotOfferedError(provider=request.provider)
    if request.approvals is None:
        return ApprovalPolicy.ASK if can and engine.isolation is Isolation.NONE else ApprovalPolicy.NEVER
    return request.approvals


def _require_files(request: RoomRequest) -> None:
    """Accept environment files exactly where the configuration is made of them (CAP-7)."""
    wanted = request.configuration is Configuration.ENVIRONMENT_FILES
    if wanted != bool(request.environment_files):
        problem = "name at least one, in their order" if wanted else "Jam configures this sandbox, so none are taken"
        raise InvalidInputError(field="environment_files", problem=problem)


async def require_limits(engine: Engine, resources: Resources) -> None:
    """Accept limits that the engine can hold on this machine now (CAP-4).

    Raises:
        LimitNotHeldError: One that it cannot.
    """
    if demanded(resources):
        holdings = await engine.holdings() if isinstance(engine, LimitsResources) else ()
        require_held(resources, holdings, engine=engine.name)
