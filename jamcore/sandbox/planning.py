"""The one constructor of plans (PLAN-1 to PLAN-6). Nothing else puts a name, an owner or a mount together.

Everything here is pure: the plugin's contribution, the repository's facts and the installed program come in as records.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from jamcore.domain import layout
from jamcore.domain.cells import Ability, Cell, CellTable, Configuration, Placement, WorkspaceChoice, WorkspaceSource
from jamcore.domain.ids import sandbox_name
from jamcore.domain.plan import (
    STATE_ROOT,
    TOOLS_ROOT,
    WORK_ROOT,
    AppPath,
    ClonePlan,
    GuestPaths,
    HostPath,
    ModelEndpoint,
    MountRole,
    Owner,
    Plan,
    PlanContribution,
    PlanMount,
    PlanNameMismatchError,
    PlanRefusedError,
    RuntimeHostOwner,
    Toolchain,
    guest_path,
)
from jamcore.domain.plugins import PolicyNotAppliedError
from jamcore.domain.provider_rules import contribution_problems, denied_host, origin_problem, plan_context
from jamcore.domain.providers import ProviderDescription, ToolchainMissingError
from jamcore.domain.records import Record
from jamcore.domain.requests import EndpointChoice
from jamcore.domain.resources import require_held
from jamcore.domain.sandboxes import Access, Isolation, Resources
from jamcore.engines.port import Engine
from jamcore.plugins.provider import ProviderHooks

NAME_PREFIX = "jam"
REFERENCE_ROOT = "/jam/reference"
"""Guest directory below which read-only reference folders are shown."""


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What a plan needs to know of an engine."""

    name: str
    isolation: Isolation
    abilities: frozenset[Ability]

    @classmethod
    def of(cls, engine: Engine) -> EngineFacts:
        """Return the facts of an open engine."""
        return cls(name=engine.name, isolation=engine.isolation, abilities=engine.abilities)

    @property
    def host_native(self) -> bool:
        """Whether its guests are processes of the host itself."""
        return GuestPaths.of(self.abilities) is GuestPaths.HOST


class ReferenceFolder(Record):
    """A host folder that the guest may read: shown as ``/jam/reference/<name>``."""

    name: str
    path: str


class PlanInputs(Record):
    """What a person asked for, resolved: paths are absolute, the commit is known, the program is installed.

    ``path`` is the clone's source or the direct path, absent for a Managed workspace; ``commit`` belongs to a clone alone (CAP-7).
    ``account_id`` is given for a host-native session with a Managed workspace, whose directory belongs to no host (WS-14).
    ``program_in_image`` says that the engine's image brings the provider's program, so that none is mounted.
    """

    owner: Owner
    host_id: UUID
    session_id: UUID
    configuration: Configuration = Configuration.JAM_MANAGED
    workspace: WorkspaceSource = WorkspaceSource.MANAGED
    placement: Placement = Placement.DEDICATED
    path: str | None = None
    commit: str | None = None
    environment_files: tuple[str, ...] = ()
    references: tuple[ReferenceFolder, ...] = ()
    resources: Resources = Resources()
    minimum_isolation: Isolation = Isolation.NONE
    endpoint: EndpointChoice | None = None
    toolchain: Toolchain | None = None
    program_in_image: bool = False
    account_id: UUID | None = None


async def plan_for(inputs: PlanInputs, *, hooks: ProviderHooks, table: CellTable, engine: EngineFacts) -> Plan:
    """Ask the plugin for its part and build the plan. The cell is checked first, so that no plugin sees an illegal one.

    Raises:
        JamError: See :func:`build_plan`; :class:`PluginFailedError` when the plugin does not answer.
    """
    return build_plan(
        inputs,
        table=table,
        description=hooks.description,
        contribution=await contribution_for(inputs, hooks=hooks, table=table, engine=engine),
        engine=engine,
    )


async def contribution_for(inputs: PlanInputs, *, hooks: ProviderHooks, table: CellTable, engine: EngineFacts) -> PlanContribution:
    """Ask the plugin for its part of a plan, once the cell is known to be legal."""
    cell = table.require(hooks.name, _cell(inputs), engine=engine.name, abilities=engine.abilities)
    return await hooks.contribute_plan(plan_context(hooks.name, cell, engine.abilities))


def build_plan(
    inputs: PlanInputs,
    *,
    table: CellTable,
    description: ProviderDescription,
    contribution: PlanContribution,
    engine: EngineFacts,
) -> Plan:
    """Build the exact creation intent. Never fails for a legal cell with complete inputs (PLAN-5).

    Raises:
        UnknownProviderError, NoSuchCellError, EngineLacksAbilityError: The combination is not legal here (CAP-4).
        LimitNotHeldError: A limit is demanded of an engine that limits nothing.
        InvalidInputError: The workspace's path is absent, or there without need (CAP-7).
        PlanRefusedError: The named part cannot become part of a plan.
        ToolchainMissingError: The provider's program is not installed.
    """
    provider = description.name
    cell = table.require(provider, _cell(inputs), engine=engine.name, abilities=engine.abilities)
    _require_owner(inputs)
    _require_isolation(inputs, engine)
    if Ability.RESOURCES not in engine.abilities:
        require_held(inputs.resources, (), engine=engine.name)
    context = plan_context(provider, cell, engine.abilities)
    if problems := contribution_problems(contribution, context):
        raise PlanRefusedError(part=f"contribution of {provider}", problem="; ".join(problems))
    mounts = (
        PlanMount(
            role=MountRole.PROVIDER_STATE,
            source=AppPath(path=layout.provider_state(inputs.host_id, provider)),
            guest_path=f"{STATE_ROOT}/{provider}",
            access=Access.READ_WRITE,
        ),
        *_extra_mounts(inputs, provider, contribution),
        *_tools(inputs, description),
        *_references(inputs),
    )
    plan = Plan(
        owner=inputs.owner,
        name=sandbox_name(NAME_PREFIX, inputs.owner.agent_id, inputs.owner.stable_id),
        provider=provider,
        engine=engine.name,
        minimum_isolation=inputs.minimum_isolation,
        agent_image=contribution.agent_image,
        cell=cell,
        primary=_primary(inputs),
        mounts=mounts,
        kits=contribution.kits,
        environment_files=_environment_files(inputs),
        environment=tuple(sorted(contribution.environment)),
        resources=inputs.resources,
        endpoint=_endpoint(inputs, description, contribution),
        toolchain=inputs.toolchain if description.toolchain is not None else None,
        paths=GuestPaths.of(engine.abilities),
    )
    places = [plan.primary.guest_path, *(mount.guest_path for mount in plan.mounts)]
    if len(set(places)) != len(places):
        raise PlanRefusedError(part="mounts", problem="two mounts have one guest path")
    return plan


def require_policies(plan: Plan, *, policies: tuple[str, ...], wanted: PlanContribution, own: PlanContribution) -> None:
    """Accept a stored plan that has what policies want of a plan now; one that was made before them may not.

    Only the policies' part is compared: what a newer plugin of the provider would contribute is no reason to keep a room down.

    Args:
        plan: The stored plan.
        policies: Whose part is asked for.
        wanted: The contribution as they make it.
        own: The provider's own.

    Raises:
        PolicyNotAppliedError: Something that they add is missing, or something that they take away is there.
    """
    before, after, here = _parts(own), _parts(wanted), _parts_of_plan(plan)
    problems = []
    for part in before.keys() | after.keys():
        if before.get(part) == after.get(part):
            continue
        if part not in after:
            problems += [f"it has the {part}"] if part in here else []
        elif part in here:
            problems += [f"its {part} is {here[part]}, and {after[part]} is wanted"] if here[part] != after[part] else []
        elif not part.startswith(_ACCESS):  # without a mount there is nothing to write to
            problems.append(f"it lacks the {part}")
    if plan.endpoint is not None and (host := denied_host(plan.endpoint.origin, wanted.denied_hosts)):
        problems.append(f"it reaches {host}")
    if problems:
        raise PolicyNotAppliedError(sandbox=plan.name, policies=policies, problem="; ".join(sorted(problems)))


def require_stored_name(plan: Plan, stored: str) -> Plan:
    """Return the plan if it has the name that its host was stored with; asked before anything is asked of an engine (PLAN-6).

    Raises:
        PlanNameMismatchError: It has another one.
    """
    if plan.name != stored:
        raise PlanNameMismatchError(planned=plan.name, stored=stored)
    return plan


_ACCESS = "access to"


def _parts(contribution: PlanContribution) -> dict[str, str]:
    """Return what a plan gets of a contribution: what each part is called, in words, and what it is."""
    return {
        "image": contribution.agent_image,
        **{f"mount {mount.guest_path}": mount.subdirectory for mount in contribution.extra_mounts},
        **{f"{_ACCESS} {mount.guest_path}": mount.access for mount in contribution.extra_mounts},
        **{f"variable {name}": value for name, value in contribution.environment},
        **{f"kit {kit}": kit for kit in contribution.kits},
        **{f"request {pair}": pair for pair in contribution.endpoint_paths},
    }


def _parts_of_plan(plan: Plan) -> dict[str, str]:
    """Return the same of a plan."""
    root = next(mount.source.path for mount in plan.mounts if mount.role is MountRole.PROVIDER_STATE)
    extra = [mount for mount in plan.mounts if mount.role is MountRole.EXTRA]
    return {
        "image": plan.agent_image,
        **{f"mount {mount.guest_path}": mount.source.path.removeprefix(f"{root}/") for mount in extra},
        **{f"{_ACCESS} {mount.guest_path}": mount.access for mount in extra},
        **{f"variable {name}": value for name, value in plan.environment},
        **{f"kit {kit}": kit for kit in plan.kits},
        **{f"request {pair}": pair for pair in (plan.endpoint.paths if plan.endpoint is not None else ())},
    }


def session_directory(session: UUID) -> str:
    """Return the guest directory in which a session works, whatever its workspace is made from (PLAN-4)."""
    return f"{WORK_ROOT}/{session}"


def _cell(inputs: PlanInputs) -> Cell:
    return Cell(configuration=inputs.configuration, workspace=inputs.workspace, placement=inputs.placement)


def _require_owner(inputs: PlanInputs) -> None:
    """Accept a host's owner for its own host, and a session's owner for a Dedicated host that bears its UUID (PLAN-2)."""
    if isinstance(inputs.owner, RuntimeHostOwner):
        if inputs.owner.host_id != inputs.host_id:
            raise PlanRefusedError(part="owner", problem="the owner is another host")
    elif inputs.placement is Placement.SHARED:
        raise PlanRefusedError(part="owner", problem="a shared host is owned by the host, never by a session")
    elif inputs.owner.session_id != inputs.host_id:
        raise PlanRefusedError(part="owner", problem="a session owns a host only when both have one UUID")


def _require_isolation(inputs: PlanInputs, engine: EngineFacts) -> None:
    if engine.isolation < inputs.minimum_isolation:
        wanted, given = inputs.minimum_isolation.name.lower(), engine.isolation.name.lower()
        raise PlanRefusedError(part="isolation", problem=f"{wanted} is asked for, {engine.name} gives {given}")


def _primary(inputs: PlanInputs) -> PlanMount | ClonePlan:
    WorkspaceChoice(source=inputs.workspace, path=inputs.path).require_complete()
    if (inputs.commit is None) == (inputs.workspace is WorkspaceSource.PRIVATE_HOST_CLONE):
        raise PlanRefusedError(part="workspace.commit", problem="a private clone starts from a commit, and nothing else does")
    if inputs.workspace is WorkspaceSource.MANAGED:
        account, agent = inputs.account_id, inputs.owner.agent_id
        sessions = layout.host_native_sessions(account, agent) if account else f"{layout.workspace_root(inputs.host_id)}/sessions"
        return _workspace_mount(AppPath(path=sessions), WORK_ROOT)
    source = HostPath(path=_host_path(inputs.path or "", "workspace.path"))
    place = guest_path(session_directory(inputs.session_id))
    if inputs.workspace is WorkspaceSource.PRIVATE_HOST_CLONE:
        return ClonePlan(source=source, commit=inputs.commit or "", guest_path=place)
    return _workspace_mount(source, place)


def _workspace_mount(source: AppPath | HostPath, place: str) -> PlanMount:
    return PlanMount(role=MountRole.WORKSPACE, source=source, guest_path=place, access=Access.READ_WRITE)


def _extra_mounts(inputs: PlanInputs, provider: str, contribution: PlanContribution) -> tuple[PlanMount, ...]:
    root = layout.provider_state(inputs.host_id, provider)
    return tuple(
        PlanMount(
            role=MountRole.EXTRA,
            source=AppPath(path=f"{root}/{extra.subdirectory}"),
            guest_path=extra.guest_path,
            access=extra.access,
        )
        for extra in contribution.extra_mounts
    )


def _tools(inputs: PlanInputs, description: ProviderDescription) -> tuple[PlanMount, ...]:
    spec, installed = description.toolchain, inputs.toolchain
    if spec is None or inputs.program_in_image:
        return ()
    if installed is None:
        raise ToolchainMissingError(provider=description.name, problem=f"{spec.distribution} {spec.version} is not installed")
    if (installed.provider, installed.version) != (description.name, spec.version):
        problem = f"{installed.provider} {installed.version} is installed, {description.name} {spec.version} is wanted"
        raise ToolchainMissingError(provider=description.name, problem=problem)
    return (
        PlanMount(
            role=MountRole.TOOLCHAIN,
            source=AppPath(path=f"{layout.toolchain(description.name, spec.version)}/{spec.root}"),
            guest_path=f"{TOOLS_ROOT}/{description.name}",
            access=Access.READ_ONLY,
        ),
    )


def _references(inputs: PlanInputs) -> tuple[PlanMount, ...]:
    return tuple(
        PlanMount(
            role=MountRole.REFERENCE,
            source=HostPath(path=_host_path(folder.path, "references")),
            guest_path=guest_path(f"{REFERENCE_ROOT}/{folder.name}"),
            access=Access.READ_ONLY,
        )
        for folder in inputs.references
    )


def _environment_files(inputs: PlanInputs) -> tuple[str, ...]:
    wanted = inputs.configuration is Configuration.ENVIRONMENT_FILES
    if wanted != bool(inputs.environment_files):
        problem = "environment files need their ordered list" if wanted else "Jam configures this sandbox, so no files are taken"
        raise PlanRefusedError(part="environment files", problem=problem)
    return tuple(_host_path(path, "environment files") for path in inputs.environment_files)


def _endpoint(inputs: PlanInputs, description: ProviderDescription, contribution: PlanContribution) -> ModelEndpoint | None:
    """Choose the endpoint. Another origin than the provider's gets its credential only when a person named it (ENV-4)."""
    if not contribution.endpoint_paths:
        return None
    if inputs.endpoint is not None:
        origin, credential = inputs.endpoint.origin, inputs.endpoint.credential
    elif description.default_origin is not None:
        origin = description.default_origin
        own = description.credential
        credential = own.name if own is not None and own.origin == origin else None
    else:
        raise PlanRefusedError(part="endpoint", problem=f"{description.name} has no endpoint of its own: name one")
    if problem := origin_problem(origin, credential=credential is not None):
        raise PlanRefusedError(part="endpoint", problem=problem)
    if host := denied_host(origin, contribution.denied_hosts):
        raise PlanRefusedError(part="endpoint", problem=f"no room may reach {host}: a policy of this installation denies it")
    return ModelEndpoint(origin=origin, paths=tuple(sorted(set(contribution.endpoint_paths))), credential=credential)


def _host_path(path: str, part: str) -> str:
    """Accept an absolute host path without ``..``; whether it exists was found out by who made the inputs."""
    plain = path.startswith("/") and "\x00" not in path and not {".", ".."} & set(path.split("/"))
    if not plain or len(path.encode(errors="surrogatepass")) > 4095:
        raise PlanRefusedError(part=part, problem="the host path must be absolute and plain")
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise PlanRefusedError(part=part, problem="the host path is not valid UTF-8") from error
    return path
