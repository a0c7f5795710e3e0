"""One constructor makes every plan, for every legal cell, and nothing else (PLAN-1 to PLAN-6)."""

from __future__ import annotations

import hashlib
from itertools import product
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jamcore.domain.cells import (
    FULL_CELLS,
    Ability,
    Cell,
    CellTable,
    Configuration,
    EngineLacksAbilityError,
    NoSuchCellError,
    Placement,
    UnknownProviderError,
    WorkspaceSource,
)
from jamcore.domain.errors import InvalidInputError, JamError
from jamcore.domain.ids import NAME_LIMIT, sandbox_name
from jamcore.domain.plan import (
    AppPath,
    ClonePlan,
    ExtraMount,
    HostPath,
    MountRole,
    Plan,
    PlanMount,
    PlanNameMismatchError,
    PlanRefusedError,
    RuntimeHostOwner,
    RuntimeSessionOwner,
    Toolchain,
)
from jamcore.domain.providers import ToolchainMissingError, ToolchainSpec, WheelFile
from jamcore.domain.requests import EndpointChoice
from jamcore.domain.sandboxes import Access, Isolation
from jamcore.plugins.manager import ProviderManager
from jamcore.sandbox.planning import EngineFacts, ReferenceFolder, build_plan, plan_for, require_stored_name
from jamcore.testing.doubles import plans, providers

ALL_CELLS = [Cell(configuration=c, workspace=w, placement=p) for c, w, p in product(Configuration, WorkspaceSource, Placement)]

GOLDEN_NAMES = (
    # prefix, agent, owner, name. The digest covers agent (16 bytes, big endian), one NUL, owner (16 bytes), 33 bytes in all.
    ("jam", UUID(int=0), UUID(int=0), "jam-7f9c9e31ac8256ca"),
    ("jam", plans.AGENT, plans.HOST, "jam-ce843d4861553e51"),
    ("jam", plans.HOST, plans.AGENT, "jam-063113b6a828ac63"),
    ("Jam's  Räume_42!", plans.AGENT, plans.HOST, "jam-s-r-ume-42-ce843d4861553e51"),
    ("---", plans.AGENT, plans.HOST, "jam-ce843d4861553e51"),
    ("x" * 100, plans.AGENT, plans.HOST, "x" * 46 + "-ce843d4861553e51"),
    ("a" * 45 + "-b", plans.AGENT, plans.HOST, "a" * 45 + "-ce843d4861553e51"),
)


@pytest.mark.guarantee("PLAN-3")
@pytest.mark.parametrize(("prefix", "agent", "owner", "name"), GOLDEN_NAMES)
def test_names_are_fixed_for_ever(prefix: str, agent: UUID, owner: UUID, name: str) -> None:
    """Golden vectors: byte order, separator, sanitiser and length."""
    assert sandbox_name(prefix, agent, owner) == name
    layout = agent.bytes + b"\x00" + owner.bytes
    assert len(layout) == 33
    assert name.endswith("-" + hashlib.sha256(layout).hexdigest()[:16])
    assert len(name) <= NAME_LIMIT == 63


@pytest.mark.guarantee("PLAN-5", "CAP-8")
@pytest.mark.parametrize("cell", ALL_CELLS, ids=str)
def test_every_cell_plans_or_is_refused_by_type(cell: Cell) -> None:
    """Legal: a plan that survives its own JSON. Illegal: the typed refusal with the nearest cells."""
    wanted = plans.inputs_for(cell)
    if cell in FULL_CELLS:
        plan = plans.plan(wanted)
        assert plan.cell == cell
        assert Plan.model_validate_json(plan.canonical_json()) == plan
        assert plan == plans.plan(wanted)
    else:
        with pytest.raises(NoSuchCellError) as refused:
            plans.plan(wanted)
        assert refused.value.nearest


@pytest.mark.guarantee("PLAN-5")
@pytest.mark.anyio
async def test_every_legal_cell_of_every_installed_plugin_plans() -> None:
    """For whatever is loaded here and for the test plugins, through their real hooks."""
    manager = ProviderManager()
    await manager.load()
    await manager.add("good", providers.GoodProvider())
    await manager.add("managed_only", providers.ManagedOnlyProvider())
    table = manager.table()
    for name in manager.names():
        hooks = manager.provider(name)
        spec = hooks.description.toolchain
        tools = None if spec is None else Toolchain(provider=name, version=spec.version, digest="0" * 64)
        for cell in ALL_CELLS:
            wanted = plans.inputs_for(cell, toolchain=tools, endpoint=EndpointChoice(origin="http://127.0.0.1:1"))
            try:
                plan = await plan_for(wanted, hooks=hooks, table=table, engine=plans.ALL_ABLE)
            except NoSuchCellError:
                assert cell not in hooks.description.cells
            else:
                assert plan.cell == cell in hooks.description.cells


texts = st.one_of(st.none(), st.text(max_size=12), st.sampled_from(["/srv/a", "/", "/a/../b", "relative", "/a b\n", "/é"]))


@pytest.mark.guarantee("PLAN-5")
@given(
    cell=st.sampled_from(ALL_CELLS),
    path=texts,
    commit=st.one_of(st.none(), st.just("1" * 40)),
    files=st.lists(st.sampled_from(["/a.env", "b.env", "/c\n.env"]), max_size=2).map(tuple),
    abilities=st.frozensets(st.sampled_from(list(Ability))),
    origin=st.one_of(
        st.none(), st.sampled_from(["https://x.example", "ftp://x", "http://127.0.0.1:9", "http://x.example", "https://x:0"])
    ),
    credential=st.one_of(st.none(), st.just("good")),
)
def test_whatever_is_asked_ends_in_a_plan_or_a_typed_error(**asked: Any) -> None:
    """No combination of inputs, complete or not, raises anything but Jam's own errors."""
    cell, origin = asked["cell"], asked["origin"]
    wanted = plans.inputs(
        configuration=cell.configuration,
        workspace=cell.workspace,
        placement=cell.placement,
        path=asked["path"],
        commit=asked["commit"],
        environment_files=asked["files"],
        endpoint=None if origin is None else EndpointChoice(origin=origin, credential=asked["credential"]),
    )
    engine = EngineFacts(name="some", isolation=Isolation.NONE, abilities=asked["abilities"])
    try:
        plan = plans.plan(wanted, engine=engine)
    except JamError:
        return
    assert plan.cell in FULL_CELLS
    assert plan.cell.needs() <= engine.abilities


def test_the_engines_lack_is_another_refusal_than_the_providers() -> None:
    """CAP-4 knows two: no such cell, and an engine that cannot do it."""
    cell = Cell(
        configuration=Configuration.JAM_MANAGED, workspace=WorkspaceSource.PRIVATE_HOST_CLONE, placement=Placement.DEDICATED
    )
    with pytest.raises(EngineLacksAbilityError):
        plans.plan(plans.inputs_for(cell), engine=EngineFacts(name="small", isolation=Isolation.NONE, abilities=frozenset()))
    with pytest.raises(UnknownProviderError):
        build_plan(
            plans.inputs(),
            table=CellTable({}),
            description=providers.GOOD,
            contribution=providers.CONTRIBUTION,
            engine=plans.ALL_ABLE,
        )


@pytest.mark.guarantee("PLAN-4", "PLAN-1")
def test_workspace_and_provider_state_are_separate_mounts_at_fixed_places() -> None:
    """For each workspace source: where it comes from, where it lies, and the state beside it."""
    host, session = str(plans.HOST), str(plans.SESSION)
    for source in WorkspaceSource:
        cell = Cell(configuration=Configuration.JAM_MANAGED, workspace=source, placement=Placement.DEDICATED)
        plan = plans.plan(plans.inputs_for(cell))
        state = next(mount for mount in plan.mounts if mount.role is MountRole.PROVIDER_STATE)
        assert state.source == AppPath(path=f"runtime-hosts/{host}/provider-state/good")
        assert (state.guest_path, state.access) == ("/jam/state/good", Access.READ_WRITE)
        if source is WorkspaceSource.MANAGED:
            wanted: Any = AppPath(path=f"runtime-hosts/{host}/workspace-root/sessions")
            assert plan.primary.guest_path == "/jam/work"
        else:
            wanted = HostPath(path="/srv/repository")
            assert plan.primary.guest_path == f"/jam/work/{session}"
        assert plan.primary.source == wanted
        assert isinstance(plan.primary, ClonePlan) == plan.clone == (source is WorkspaceSource.PRIVATE_HOST_CLONE)
        assert plan.environment == (("GOOD_HOME", "/jam/state/good/home"),)


@pytest.mark.guarantee("PLAN-4")
def test_a_plan_names_no_place_of_the_app_directory() -> None:
    """Jam's own paths are relative to the app directory, so moving it changes no byte of a plan."""
    plan = plans.plan(plans.inputs(references=(ReferenceFolder(name="docs", path="/srv/docs"),)))
    paths = [mount.source for mount in (plan.primary, *plan.mounts) if isinstance(mount, PlanMount)]
    assert all(not source.path.startswith("/") for source in paths if isinstance(source, AppPath))
    assert [source.path for source in paths if isinstance(source, HostPath)] == ["/srv/docs"]


@pytest.mark.guarantee("PLAN-2")
def test_who_may_own_a_host() -> None:
    """The host itself; or, for a Dedicated one, the session whose UUID it bears; never another, never the other way."""
    session_owner = RuntimeSessionOwner(agent_id=plans.AGENT, session_id=plans.HOST)
    dedicated = plans.plan(plans.inputs(owner=session_owner))
    assert dedicated.name == plans.plan().name
    refused = (
        plans.inputs(owner=RuntimeSessionOwner(agent_id=plans.AGENT, session_id=plans.SESSION)),
        plans.inputs(owner=RuntimeHostOwner(agent_id=plans.AGENT, host_id=plans.SESSION)),
        plans.inputs(owner=session_owner, placement=Placement.SHARED),
    )
    for wanted in refused:
        with pytest.raises(PlanRefusedError) as error:
            plans.plan(wanted)
        assert error.value.part == "owner"


@pytest.mark.guarantee("PLAN-6")
def test_a_name_that_its_host_was_not_stored_with_is_refused() -> None:
    """The check stands before anything is asked of an engine."""
    plan = plans.plan()
    assert require_stored_name(plan, plan.name) is plan
    with pytest.raises(PlanNameMismatchError):
        require_stored_name(plan, "jam-0000000000000000")


@pytest.mark.guarantee("CAP-7")
@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"path": "/srv/x"}, InvalidInputError),
        ({"workspace": WorkspaceSource.DIRECT_HOST}, InvalidInputError),
        ({"workspace": WorkspaceSource.DIRECT_HOST, "path": "here"}, InvalidInputError),
        ({"workspace": WorkspaceSource.DIRECT_HOST, "path": "/a/../etc"}, PlanRefusedError),
        ({"workspace": WorkspaceSource.DIRECT_HOST, "path": "/a\udcff"}, PlanRefusedError),
        ({"workspace": WorkspaceSource.PRIVATE_HOST_CLONE, "path": "/srv/x"}, PlanRefusedError),
        ({"commit": "0" * 40}, PlanRefusedError),
        ({"configuration": Configuration.ENVIRONMENT_FILES}, PlanRefusedError),
        ({"environment_files": ("/a.env",)}, PlanRefusedError),
        ({"minimum_isolation": Isolation.KERNEL}, PlanRefusedError),
        ({"references": (ReferenceFolder(name="../up", path="/srv/x"),)}, PlanRefusedError),
        ({"references": (ReferenceFolder(name="a", path="/x"), ReferenceFolder(name="a", path="/y"))}, PlanRefusedError),
    ],
)
def test_a_choice_without_what_it_needs_is_refused(changes: dict[str, Any], kind: type[JamError]) -> None:
    """Each by type, and before any engine is involved."""
    wanted = plans.inputs().model_copy(update=changes)
    with pytest.raises(kind):
        plans.plan(wanted)


def test_a_contribution_that_escapes_is_refused() -> None:
    """A plugin that changed after it was loaded is caught again when a plan is built."""
    extra = ExtraMount(subdirectory="cache", guest_path="/etc/cache", access=Access.READ_WRITE)
    contribution = providers.CONTRIBUTION.model_copy(update={"extra_mounts": (extra,)})
    with pytest.raises(PlanRefusedError, match="contribution of good"):
        plans.plan(contribution=contribution)
    inside = extra.model_copy(update={"guest_path": "/home/agent/.cache"})
    mounted = plans.plan(contribution=contribution.model_copy(update={"extra_mounts": (inside,)})).mounts
    assert [m.source.path for m in mounted if m.role is MountRole.EXTRA] == [
        f"runtime-hosts/{plans.HOST}/provider-state/good/cache"
    ]


@pytest.mark.guarantee("ENV-4")
def test_a_credential_goes_to_its_own_origin_unless_a_person_named_another() -> None:
    """The provider's credential follows its origin; an endpoint of one's own gets what was named, or none."""

    def endpoint(choice: EndpointChoice | None) -> tuple[str, str | None]:
        found = plans.plan(plans.inputs(endpoint=choice)).endpoint
        assert found is not None
        assert found.paths == ("POST /v1/answers",)
        return found.origin, found.credential

    assert endpoint(None) == ("https://models.example", "good")
    moved = plans.plan(description=providers.GOOD.model_copy(update={"default_origin": "https://mirror.example"})).endpoint
    assert moved is not None
    assert (moved.origin, moved.credential) == ("https://mirror.example", None)
    assert endpoint(EndpointChoice(origin="http://127.0.0.1:8080")) == ("http://127.0.0.1:8080", None)
    assert endpoint(EndpointChoice(origin="https://proxy.example", credential="mine")) == ("https://proxy.example", "mine")
    assert endpoint(EndpointChoice(origin="http://models.lan:8080")) == ("http://models.lan:8080", None)
    with pytest.raises(PlanRefusedError, match="without encryption"):
        endpoint(EndpointChoice(origin="http://models.lan:8080", credential="mine"))
    for origin in ("https://user:secret@x.example", "https://x.example/v1", "file:///etc/passwd", "https://x.example:99999", ""):
        with pytest.raises(PlanRefusedError):
            endpoint(EndpointChoice(origin=origin))


def test_the_pinned_program_is_mounted_read_only_or_its_absence_said() -> None:
    """The program's directory inside its wheel, at the tools root."""
    spec = ToolchainSpec(
        distribution="good-bin",
        version="1.2",
        wheels=(WheelFile(platform="linux-x86_64", sha256="0" * 64),),
        root="good_bin/tree",
        program="bin/good",
        executables=("bin/good",),
    )
    description = providers.GOOD.model_copy(update={"toolchain": spec})
    installed = Toolchain(provider="good", version="1.2", digest="0" * 64)
    plan = plans.plan(plans.inputs(toolchain=installed), description=description)
    tools = next(mount for mount in plan.mounts if mount.role is MountRole.TOOLCHAIN)
    assert (tools.source.path, tools.guest_path, tools.access) == (
        "toolchains/good/1.2/good_bin/tree",
        "/jam/tools/good",
        Access.READ_ONLY,
    )
    assert plan.toolchain == installed
    assert not [
        m for m in plans.plan(plans.inputs(program_in_image=True), description=description).mounts if m.role is MountRole.TOOLCHAIN
    ]
    for wrong in (None, installed.model_copy(update={"version": "1.1"})):
        with pytest.raises(ToolchainMissingError):
            plans.plan(plans.inputs(toolchain=wrong), description=description)
