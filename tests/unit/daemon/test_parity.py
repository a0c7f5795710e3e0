"""One table, asked in six ways: every combination of every provider on every engine gets one answer (CAP-4, CAP-5, CAP-8).

The ways: the table itself, the plan's constructor, the daemon's resolver, the HTTP interface, ``jam room new`` with real options, and
``jam provider cells``. Only the services that are not asked are stand-ins.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from uuid import UUID

import anyio
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jamcore.cli.main import run
from jamcore.control.client import JamClient
from jamcore.control.reach import Reach
from jamcore.control.server import serving
from jamcore.daemon.credentials import Credentials
from jamcore.daemon.enginehouse import EngineHouse
from jamcore.daemon.providers import Providers
from jamcore.daemon.resolve import Resolver
from jamcore.domain.cells import (
    ON_THE_HOST,
    Ability,
    Cell,
    Configuration,
    EngineLacksAbilityError,
    NoSuchCellError,
    Placement,
    WorkspaceSource,
)
from jamcore.domain.errors import JamError
from jamcore.domain.plan import Plan, Toolchain
from jamcore.domain.providers import ToolchainSpec
from jamcore.domain.requests import EndpointChoice, RoomRequest, RoomView
from jamcore.domain.sandboxes import Isolation
from jamcore.engines.bubblewrap import BubblewrapEnginePlugin
from jamcore.engines.local import LocalEnginePlugin
from jamcore.plugins.manager import ProviderManager
from jamcore.runtime.gate import StopGate
from jamcore.sandbox.planning import EngineFacts, plan_for
from jamcore.sandbox.toolchain import Toolchains
from jamcore.system.files import Files
from jamcore.testing.doubles import plans, providers
from jamcore.testing.doubles.engines import DirectoryEngine
from jamcore.testing.fake_daemon.daemon import services_of
from jamcore.testing.fake_daemon.records import LIMITS
from jamcore.testing.fake_daemon.rooms import FakeRooms
from jamcore.testing.fake_daemon.state import FakeServices

pytestmark = [pytest.mark.needs("git"), pytest.mark.unprivileged]

CELLS = [Cell(configuration=c, workspace=w, placement=p) for c, w, p in product(Configuration, WorkspaceSource, Placement)]
ENGINES = {
    "bubblewrap": (BubblewrapEnginePlugin.abilities, BubblewrapEnginePlugin.isolation),
    "local": (LocalEnginePlugin.abilities, LocalEnginePlugin.isolation),
    "able": (frozenset(Ability) - ON_THE_HOST, Isolation.NAMESPACE),
    "plain": (frozenset[Ability](), Isolation.NAMESPACE),
}
"""The abilities of the engines that there are, as their plugins publish them, and those of one with all and one with none."""
DOUBLES = ("good", "managed_only")
LEGAL = "legal"
NOWHERE = "http://127.0.0.1:9"


class Asked(DirectoryEngine):
    """An engine that is asked what it can do, and nothing else."""

    def __init__(self, name: str) -> None:
        abilities, self.isolation = ENGINES[name]
        super().__init__(abilities)
        self.name = name


class Installed(Toolchains):
    """Every pinned program is there."""

    def require(self, provider: str, spec: ToolchainSpec) -> Toolchain:
        """Say so."""
        return Toolchain(provider=provider, version=spec.version, digest="0" * 64)


class ResolvingRooms(FakeRooms):
    """Looks at a request with the daemon's real resolver before it plays a room."""

    def __init__(self, fake: FakeServices, resolver: Resolver) -> None:
        super().__init__(fake)
        self._resolver = resolver

    async def create(self, request: RoomRequest) -> RoomView:
        """Resolve, then make the room of a provider that the fake knows."""
        await self._resolver.resolve(request)
        return await super().create(request.model_copy(update={"provider": "codex"}))


@dataclass(frozen=True)
class Daemon:
    """The parts that answer, and a client of them."""

    portal: BlockingPortal
    manager: ProviderManager
    resolver: Resolver
    client: JamClient
    home: Path
    repository: Path
    directory: Path

    def request(self, provider: str, engine: str, cell: Cell) -> RoomRequest:
        """Return a request with all that the combination needs."""
        paths = {WorkspaceSource.PRIVATE_HOST_CLONE: str(self.repository), WorkspaceSource.DIRECT_HOST: str(self.directory)}
        files = ("/srv/one.env", "/srv/two.env") if cell.configuration is Configuration.ENVIRONMENT_FILES else ()
        return RoomRequest(
            id=UUID(int=CELLS.index(cell) + 100 * list(ENGINES).index(engine) + 10_000 * len(provider)),
            provider=provider,
            engine=engine,
            configuration=cell.configuration,
            workspace=cell.workspace,
            placement=cell.placement,
            path=paths.get(cell.workspace),
            environment_files=files,
            endpoint=EndpointChoice(origin=NOWHERE),
        )

    def options(self, request: RoomRequest) -> list[str]:
        """Return the same as a person types it."""
        option = {WorkspaceSource.PRIVATE_HOST_CLONE: "--repo", WorkspaceSource.DIRECT_HOST: "--direct"}.get(request.workspace)
        words = ["room", "new", request.provider, "--engine", str(request.engine), "--endpoint", NOWHERE, "--json"]
        words += ["--placement", request.placement, "--configuration", request.configuration]
        words += [option, str(request.path)] if option else []
        for file in request.environment_files:
            words += ["--environment-file", file]
        return words


@asynccontextmanager
async def serve(home: Path, manager: ProviderManager, resolver: Resolver) -> AsyncIterator[None]:
    """Serve the real routes over the real resolver and table."""
    toolchains = Installed(home, files=Files())
    async with anyio.create_task_group() as tasks:
        services = FakeServices(tasks, home, services_of).services()
        fake = FakeServices(tasks, home, services_of)
        services = replace(
            services,
            rooms=ResolvingRooms(fake, resolver),
            providers=Providers(plugins=manager, engines=resolver.engines, toolchains=toolchains, gate=StopGate()),
        )
        async with serving(services, app_directory=home, files=Files(), runtime=home / "run", limits=LIMITS):
            yield
        tasks.cancel_scope.cancel()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One daemon for all questions: what is installed here, and the doubles."""
    with daemon_over(tmp_path_factory) as one:
        yield one


@contextmanager
def daemon_over(factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """See :func:`daemon`."""
    home, repository, directory = factory.mktemp("home"), factory.mktemp("repository"), factory.mktemp("direct")
    home.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(directory, 12345, 12345)  # what belongs to root is not worked on in place by a guest that never is
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": str(home)}
    for argv in (["init", "-q"], ["-c", "user.name=a", "-c", "user.email=a@x", "commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(["git", *argv], cwd=repository, env=env, check=True, timeout=60)
    with start_blocking_portal() as portal:
        manager = ProviderManager()
        portal.call(manager.load)
        portal.call(manager.add, "good", providers.GoodProvider())
        portal.call(manager.add, "managed_only", providers.ManagedOnlyProvider())
        resolver = Resolver(
            plugins=manager,
            engines=EngineHouse({name: Asked(name) for name in ENGINES}, preferred=None),
            toolchains=Installed(home, files=Files()),
            credentials=Credentials(home, files=Files(), environment={}),
            app=home,
        )
        with portal.wrap_async_context_manager(serve(home, manager, resolver)):
            yield Daemon(portal, manager, resolver, JamClient(Reach(home, environ={})), home, repository, directory)


def names(daemon: Daemon) -> tuple[str, ...]:
    """Return the providers that are asked about."""
    return daemon.manager.names()


def of_error(error: JamError) -> tuple[str, str]:
    """Return an answer: the code, and the nearest combinations as every way says them."""
    return error.code, str(error.context().get("nearest", ""))


def by_table(daemon: Daemon, request: RoomRequest, cell: Cell) -> tuple[str, str]:
    """Ask the table."""
    abilities, _ = ENGINES[str(request.engine)]
    try:
        daemon.manager.table().require(request.provider, cell, engine=str(request.engine), abilities=abilities)
    except JamError as error:
        return of_error(error)
    return LEGAL, ""


def by_plan(daemon: Daemon, request: RoomRequest, cell: Cell) -> tuple[str, str]:
    """Build the plan."""
    abilities, isolation = ENGINES[str(request.engine)]
    hooks = daemon.manager.provider(request.provider)
    spec = hooks.description.toolchain
    tools = None if spec is None else Toolchain(provider=request.provider, version=spec.version, digest="0" * 64)
    inputs = plans.inputs_for(cell, endpoint=request.endpoint, toolchain=tools)
    facts = EngineFacts(name=str(request.engine), isolation=isolation, abilities=abilities)

    async def build() -> Plan:
        return await plan_for(inputs, hooks=hooks, table=daemon.manager.table(), engine=facts)

    try:
        plan = daemon.portal.call(build)
    except JamError as error:
        return of_error(error)
    assert (plan.cell, plan.engine) == (cell, request.engine)
    return LEGAL, ""


def by_resolver(daemon: Daemon, request: RoomRequest) -> tuple[str, str]:
    """Let the daemon look at everything."""
    try:
        daemon.portal.call(daemon.resolver.resolve, request)
    except JamError as error:
        return of_error(error)
    return LEGAL, ""


def by_interface(daemon: Daemon, request: RoomRequest) -> tuple[str, str]:
    """Post it."""
    try:
        daemon.portal.call(daemon.client.create_room, request)
    except JamError as error:
        return of_error(error)
    return LEGAL, ""


def by_options(
    daemon: Daemon, request: RoomRequest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[str, str]:
    """Type it."""
    monkeypatch.setenv("JAM_HOME", str(daemon.home))
    status = run(daemon.options(request))
    said = json.loads(capsys.readouterr().out)
    if status == 0:
        return LEGAL, ""
    return said["error"]["code"], said["error"]["context"].get("nearest", "")


@pytest.mark.guarantee("CAP-4", "CAP-5", "CAP-8")
@pytest.mark.parametrize("engine", ENGINES)
def test_every_combination_gets_one_answer_in_every_way(
    daemon: Daemon, engine: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Legal is the provider's cell and the engine's abilities; each lack has its own refusal, with the nearest combinations."""
    abilities, _ = ENGINES[engine]
    assert set(DOUBLES) <= set(names(daemon))
    for provider, cell in product(names(daemon), CELLS):
        request = daemon.request(provider, engine, cell)
        cells = daemon.manager.provider(provider).description.cells
        code, nearest = by_table(daemon, request, cell)
        expected = (
            NoSuchCellError.code if cell not in cells else LEGAL if cell.needs() <= abilities else EngineLacksAbilityError.code
        )
        assert code == expected, (provider, str(cell))
        assert bool(nearest) == (code != LEGAL)
        answers = {
            "plan": by_plan(daemon, request, cell),
            "resolver": by_resolver(daemon, request),
            "interface": by_interface(daemon, request),
            "options": by_options(daemon, request, monkeypatch, capsys),
        }
        assert answers == dict.fromkeys(answers, (code, nearest)), (provider, str(cell))


@pytest.mark.guarantee("CAP-5", "CAP-8")
def test_the_listed_table_is_the_same_one(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``jam provider cells`` names for each cell exactly the engines on which the combination is legal, and no other cell."""
    monkeypatch.setenv("JAM_HOME", str(daemon.home))
    assert run(["provider", "cells", "--json"]) == 0
    listed = {
        (row["provider"], str(Cell.model_validate_json(json.dumps(row["cell"])))): set(row["engines"])
        for row in json.loads(capsys.readouterr().out)
    }
    legal: dict[tuple[str, str], set[str]] = {}
    for provider, cell, engine in product(names(daemon), CELLS, ENGINES):
        code, _ = by_table(daemon, daemon.request(provider, engine, cell), cell)
        if code != NoSuchCellError.code:
            legal.setdefault((provider, str(cell)), set()).update({engine} if code == LEGAL else ())
    assert listed == legal


@pytest.mark.guarantee("CAP-3", "CAP-8")
def test_the_counts_of_what_is_published(daemon: Daemon) -> None:
    """The doubles' rows, through their hooks; a real provider's are counted from its installed distribution, in its own tests."""
    counts = {name: len(daemon.manager.provider(name).description.cells) for name in DOUBLES}
    assert counts == {"good": 7, "managed_only": 3}
    assert all(len(daemon.manager.provider(name).description.cells) in (3, 7) for name in names(daemon))


@pytest.mark.guarantee("CAP-4")
def test_there_are_two_refusals_of_a_combination_and_one_of_a_name() -> None:
    """Every error about a capability that is not about approvals is one of these."""

    def below(kind: type[JamError]) -> set[str]:
        return {kind.code}.union(*(below(each) for each in kind.__subclasses__()))

    found = {code for code in below(JamError) if code.startswith("capability.")}
    assert found == {
        "capability.unknown_provider",
        "capability.no_such_cell",
        "capability.engine_lacks_ability",
        "capability.no_approvals",
    }


@pytest.mark.guarantee("PLAN-5", "CAP-8")
@given(data=st.data(), abilities=st.frozensets(st.sampled_from(list(Ability))))
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_cell_of_every_plugin_plans_on_every_engine_that_can(
    daemon: Daemon, data: st.DataObject, abilities: frozenset[Ability]
) -> None:
    """Whatever an engine can do: a plan where both sides can, else one of the two refusals; nothing else is ever raised."""
    provider = data.draw(st.sampled_from(names(daemon)))
    cell = data.draw(st.sampled_from(CELLS))
    hooks = daemon.manager.provider(provider)
    spec = hooks.description.toolchain
    tools = None if spec is None else Toolchain(provider=provider, version=spec.version, digest="0" * 64)
    inputs = plans.inputs_for(cell, endpoint=EndpointChoice(origin=NOWHERE), toolchain=tools)
    facts = EngineFacts(name="any", isolation=Isolation.NAMESPACE, abilities=abilities)

    async def build() -> Plan:
        return await plan_for(inputs, hooks=hooks, table=daemon.manager.table(), engine=facts)

    legal = cell in hooks.description.cells and cell.needs() <= abilities
    try:
        plan = daemon.portal.call(build)
    except (NoSuchCellError, EngineLacksAbilityError):
        assert not legal
    else:
        assert legal
        assert plan.cell == cell


@pytest.mark.guarantee("CAP-7")
def test_environment_files_belong_to_their_configuration(daemon: Daemon) -> None:
    """Without its files, or with files that nobody takes: refused before anything is made."""
    cell = Cell(configuration=Configuration.ENVIRONMENT_FILES, workspace=WorkspaceSource.MANAGED, placement=Placement.DEDICATED)
    request = daemon.request("good", "able", cell)
    assert by_interface(daemon, request.model_copy(update={"environment_files": ()}))[0] == "input.invalid"
    managed = {"configuration": Configuration.JAM_MANAGED}
    assert by_interface(daemon, request.model_copy(update=managed))[0] == "input.invalid"
    stored = request.model_copy(update={**managed, "environment_files": ()})
    assert b"environment_files" not in stored.canonical_json(), "the digest of a stored request never changes"
