"""A change request, cut at every boundary and cut again while it is finished: real git, real files, a real database (WS-12)."""

from __future__ import annotations

import errno
import hashlib
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import anyio
import pytest

from jamcore.daemon.change_sources import StoredSources
from jamcore.daemon.changes import Changes
from jamcore.daemon.enginehouse import EngineHouse
from jamcore.daemon.sweep import sweep
from jamcore.domain import layout
from jamcore.domain.cells import Cell, Configuration, Placement, WorkspaceSource
from jamcore.domain.changes import PATCH, ChangeRequest
from jamcore.domain.errors import ConflictError, JamError
from jamcore.domain.events import CommandFinished
from jamcore.domain.sandboxes import EngineUnavailableError
from jamcore.domain.sessions import (
    Agent,
    Binding,
    HostState,
    Room,
    RuntimeHost,
    RuntimeSession,
    SessionState,
    SessionWorkspace,
    Turn,
    TurnState,
    WorkspaceState,
)
from jamcore.journal.points import CrashPoints, NoCrash
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import ActionGivenUpError, Runner
from jamcore.runs.change_action import CHANGE_POINTS, TreeLostError, change_action, tree_name
from jamcore.runs.change_request import METADATA, TRANSCRIPT, ChangeBuilder, ChangePackageError
from jamcore.runtime.gate import StopGate
from jamcore.runtime.worktree import WorkTrees
from jamcore.store import Repos, Store, StoreJournal, open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files, StorageFullError
from jamcore.testing.crash import KillAt, Killed, Lives, Passed, SigkillAt
from jamcore.testing.doubles import plans
from jamcore.testing.doubles.engines import DirectoryEngine

pytestmark = [pytest.mark.crash, pytest.mark.needs("git")]

DAEMON, AGENT, HOST, SESSION, WORKSPACE, ROOM, OTHER_ROOM, TURN, CHANGE = (UUID(int=number) for number in range(1, 10))
NOW = datetime(2026, 1, 1, tzinfo=UTC)
FIRST, LATER = "the work as it was asked for", "what was written afterwards"
KEPT_FROM = CHANGE_POINTS.index("change-request.snapshot.recorded")
"""From this boundary on it is known which tree it is, and nothing that is written later belongs to the change request."""


@dataclass(frozen=True)
class Life:
    """One life of a daemon, as far as change requests need it."""

    app: Path
    store: Store
    changes: Changes
    registry: ActionRegistry
    journal: StoreJournal
    runner: Runner

    async def ask(self, room: UUID = ROOM) -> ChangeRequest:
        """Ask for the change request, as a client does."""
        return await self.changes.build(str(room), CHANGE)

    async def start_up(self) -> tuple[tuple[object, JamError], ...]:
        """Do what start-up does: sweep, then finish what was cut."""
        return (*sweep(self.app, Files()), *await self.registry.replay(self.journal, self.runner))


@asynccontextmanager
async def living(
    app: Path, crash: CrashPoints | None = None, files: Files | None = None, engine: str = "directory"
) -> AsyncIterator[Life]:
    """Live once."""
    files, crash, clock = files or Files(), crash or NoCrash(), SystemClock()
    async with open_store(app / layout.DATABASE, files=Files(), clock=clock, daemon_id=DAEMON) as store:
        engines = EngineHouse({engine: DirectoryEngine()}, preferred=None)
        sources = StoredSources(store=store, engines=engines, work_trees=WorkTrees(app=app, files=files), clock=clock)
        action = change_action(ChangeBuilder(app, files=files, crash=crash), sources)
        registry = ActionRegistry()
        registry.register(action)
        journal = StoreJournal(store)
        runner = Runner(journal, crash)
        changes = Changes(app, store=store, runner=runner, action=action, sources=sources, gate=StopGate())
        yield Life(app, store, changes, registry, journal, runner)


def write(app: Path, text: str) -> None:
    """Work in the session's tree, as an agent does."""
    (app / layout.session_workspace(HOST, SESSION) / "work.txt").write_text(text + "\n")


def records(repos: Repos) -> tuple[RuntimeHost, SessionWorkspace]:
    """Store a room with one completed turn, and another room."""
    cell = Cell(configuration=Configuration.JAM_MANAGED, workspace=WorkspaceSource.MANAGED, placement=Placement.DEDICATED)
    repos.agents.insert(Agent(id=AGENT, name="agent", provider="probe", created_at=NOW))
    host = repos.hosts.insert(
        RuntimeHost(
            id=HOST,
            agent_id=AGENT,
            provider="probe",
            engine="directory",
            cell=cell,
            sandbox="jam-0123456789abcdef",
            plan_json=plans.plan().canonical_json().decode(),
            state=HostState.ACTIVE,
            daemon_id=DAEMON,
            fence_epoch=0,
            created_at=NOW,
        )
    )
    repos.sessions.insert(
        RuntimeSession(
            id=SESSION, host_id=HOST, agent_id=AGENT, state=SessionState.LIVE, provider_identity="t", model=None, created_at=NOW
        )
    )
    workspace = repos.workspaces.insert(
        SessionWorkspace(
            id=WORKSPACE,
            session_id=SESSION,
            host_id=HOST,
            source=WorkspaceSource.MANAGED,
            path=None,
            commit=None,
            guest_path=f"/jam/work/{SESSION}",
            state=WorkspaceState.READY,
            created_at=NOW,
        )
    )
    for room in (ROOM, OTHER_ROOM):
        repos.rooms.insert(Room(id=room, name=f"room {room.int}", agent_id=AGENT, created_at=NOW))
    repos.bindings.insert(Binding(id=UUID(int=20), room_id=ROOM, session_id=SESSION, live=True))
    repos.bindings.insert(Binding(id=UUID(int=21), room_id=OTHER_ROOM, session_id=SESSION, live=True))
    repos.turns.accept(
        Turn(
            id=TURN,
            room_id=ROOM,
            session_id=SESSION,
            text="do it",
            state=TurnState.CAPTURED,
            provider_turn="p",
            detail="",
            checkpoint_id=None,
            workspace_digest=None,
            process_epoch=1,
            accepted_at=NOW,
            ended_at=NOW,
        )
    )
    repos.events.append(ROOM, TURN, [CommandFinished(item="i", command="true", output="", exit_code=0)])
    return host, workspace


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An app directory with a session whose base tree is kept and whose work tree was changed since."""
    app = tmp_path_factory.mktemp("worked") / "app"
    Files().make_private(app)
    tree = Files().make_private(app / layout.session_workspace(HOST, SESSION))
    (tree / "README").write_text("before\n")

    async def prepare() -> None:
        async with living(app) as life:
            host, workspace = await life.store.transact(records)
            await WorkTrees(app=app, files=Files()).keep_base(host, workspace, DirectoryEngine())

    anyio.run(prepare)
    write(app, FIRST)
    return app


@pytest.fixture
def new_app(worked: Path, tmp_path: Path) -> Callable[[], Path]:
    """Return copies of it."""
    made: list[Path] = []

    def copy() -> Path:
        made.append(tmp_path / f"app-{len(made)}")
        return shutil.copytree(worked, made[-1], symlinks=True)

    return copy


def never_half(app: Path) -> None:
    """What has the package's name is whole, at every moment."""
    package = app / layout.change(CHANGE)
    if not package.exists():
        return
    change = ChangeRequest.model_validate_json((package / METADATA).read_bytes())
    for file in change.files:
        assert hashlib.sha256((package / file.name).read_bytes()).hexdigest() == file.sha256


async def finished(life: Life, *, kept: bool) -> ChangeRequest:
    """Check that there is one whole change request and nothing besides it; ``kept``: it must hold the first work alone."""
    change = await life.ask()
    assert await life.changes.list() == (change,)
    assert await life.journal.running() == ()
    assert [path.name for path in (life.app / layout.CHANGES).iterdir()] == [str(CHANGE)]
    never_half(life.app)
    patch = (life.app / layout.change(CHANGE) / PATCH).read_text()
    assert change.complete
    assert (FIRST in patch) != (LATER in patch)
    if kept:
        assert FIRST in patch
    assert (life.app / layout.change(CHANGE) / TRANSCRIPT).read_text().count("command.finished") == 1
    return change


async def test_a_run_passes_every_boundary_in_order(new_app: Callable[[], Path]) -> None:
    """What the matrix names is what a run really passes; asking again passes none and gives the same."""
    passed = Passed()
    async with living(new_app(), passed) as life:
        change = await finished(life, kept=True)
        assert tuple(passed.points) == CHANGE_POINTS
        assert await life.ask() == change
        assert len(passed.points) == len(CHANGE_POINTS)


@pytest.mark.guarantee("WS-12", "WS-11", "START-1")
@pytest.mark.parametrize("point", CHANGE_POINTS)
async def test_killed_at_any_boundary_and_again_while_it_is_finished(point: str, new_app: Callable[[], Path]) -> None:
    """By a request, then by start-up at each of its boundaries: the third life has exactly one, of the tree that was named first."""
    place = CHANGE_POINTS.index(point)
    for again in (*CHANGE_POINTS[place + 1 :], "nowhere"):
        app = new_app()
        async with living(app, KillAt(point)) as life:
            with pytest.raises(Killed):
                await life.ask()
        never_half(app)
        write(app, LATER)
        async with living(app, KillAt(again)) as life:
            try:
                assert await life.start_up() == ()
            except Killed:
                never_half(app)
        async with living(app) as life:
            assert await life.start_up() == ()
            await finished(life, kept=place >= KEPT_FROM)
        shutil.rmtree(app)


@pytest.mark.guarantee("WS-12")
@pytest.mark.parametrize("point", CHANGE_POINTS)
def test_sigkill(point: str, new_app: Callable[[], Path], lives: Lives) -> None:
    """The same with a process that is really killed, and one that is killed when it finishes what the first began."""
    app = new_app()
    assert lives.run(living_to, app, point) == -signal.SIGKILL
    never_half(app)
    write(app, LATER)
    later = CHANGE_POINTS[CHANGE_POINTS.index(point) + 1 :][:2]
    for again in later:
        assert lives.run(living_to, app, again) in (0, -signal.SIGKILL)
        never_half(app)

    async def restart() -> None:
        async with living(app) as life:
            assert await life.start_up() == ()
            await finished(life, kept=point in CHANGE_POINTS[KEPT_FROM:])

    anyio.run(restart)


async def living_to(app: Path, point: str) -> None:
    """Be the process that is killed at a boundary."""
    async with living(app, SigkillAt(point)) as life:
        await life.start_up()
        await life.ask()


class Failing(Files):
    """A disk that refuses the ``number``-th flush below the change requests."""

    def __init__(self, number: int) -> None:
        self.left = number

    def sync(self, descriptor: int) -> None:
        """Refuse one."""
        if layout.CHANGES in Path(f"/proc/self/fd/{descriptor}").readlink().parts:
            self.left -= 1
            if self.left == 0:
                raise OSError(errno.ENOSPC, "no space left on device")
        super().sync(descriptor)


@pytest.mark.guarantee("WS-12")
async def test_a_full_disk_at_every_write(new_app: Callable[[], Path]) -> None:
    """The error is typed, its class is noted, nothing half has the name, and a retry finishes with the tree of the first time."""
    for number in range(1, 100):
        app = new_app()
        disk = Failing(number)
        async with living(app, files=disk) as life:
            with suppress(StorageFullError):
                await life.ask()
            if disk.left > 0:
                break
            assert await life.store.read(lambda repos: repos.operations.failures(CHANGE)) == (("package", "os.enospc"),)
            never_half(app)
            write(app, LATER)
            await finished(life, kept=True)
        shutil.rmtree(app)
    assert number > 8


@contextmanager
def hidden(path: Path) -> Iterator[None]:
    """Take a directory away for a while."""
    away = path.with_name("away")
    path.rename(away)
    try:
        yield
    finally:
        away.rename(path)


@pytest.mark.guarantee("WS-11")
async def test_an_id_belongs_to_one_room(new_app: Callable[[], Path]) -> None:
    """Half done or finished: another room's request under the id is a conflict, and the first goes on."""
    app = new_app()
    async with living(app, KillAt("change-request.package.intended")) as life:
        with pytest.raises(Killed):
            await life.ask()
    async with living(app) as life:
        with pytest.raises(ConflictError):
            await life.ask(OTHER_ROOM)
        await finished(life, kept=True)
        with pytest.raises(ConflictError):
            await life.ask(OTHER_ROOM)


async def test_an_unreachable_work_tree_is_refused_before_anything_is_begun(new_app: Callable[[], Path]) -> None:
    """No later start builds what was refused."""
    async with living(new_app(), engine="another") as life:
        with pytest.raises(EngineUnavailableError):
            await life.ask()
        assert await life.journal.running() == ()


async def test_a_damaged_package_is_kept_and_named(new_app: Callable[[], Path]) -> None:
    """Neither overwritten nor recorded; start-up reports it and goes on."""
    app = new_app()
    async with living(app, KillAt("change-request.package.acted")) as life:
        with pytest.raises(Killed):
            await life.ask()
    metadata = app / layout.change(CHANGE) / METADATA
    whole = metadata.read_bytes()
    metadata.write_bytes(whole[:40])
    async with living(app) as life:
        assert [(identifier, type(error)) for identifier, error in await life.start_up()] == [(CHANGE, ChangePackageError)]
        assert await life.changes.list() == ()
        assert metadata.read_bytes() == whole[:40]
        metadata.write_bytes(whole)
        await finished(life, kept=True)


async def test_a_package_that_was_taken_away_is_not_recorded(new_app: Callable[[], Path]) -> None:
    """Between its name and its row a person may move it; the row is written only for what is there."""
    app = new_app()
    async with living(app, KillAt("change-request.package.recorded")) as life:
        with pytest.raises(Killed):
            await life.ask()
    async with living(app) as life:
        with hidden(app / layout.change(CHANGE)), pytest.raises(ChangePackageError):
            await life.ask()
        assert await life.changes.list() == ()
        await finished(life, kept=True)


@pytest.mark.guarantee("WS-12", "START-2")
def test_a_tree_that_lost_its_name_ends_the_action_for_good(new_app: Callable[[], Path], lives: Lives) -> None:
    """Another tree under the same id would be another change request: start-up gives up, also when it is killed at that, and only once."""
    app = new_app()
    assert lives.run(living_to, app, "change-request.keep.recorded") == -signal.SIGKILL
    write(app, LATER)
    (app / layout.review_repository(HOST, SESSION) / "refs" / "jam" / tree_name(CHANGE)).unlink()
    for point in ("change-request.package.failed", "change-request.package.given-up"):
        assert lives.run(living_to, app, point) == -signal.SIGKILL

    async def restart() -> None:
        async with living(app) as life:
            assert await life.journal.running() == ()
            assert await life.start_up() == ()
            with pytest.raises(ActionGivenUpError) as over:
                await life.ask()
            assert (over.value.step, over.value.failure) == ("package", TreeLostError.code)
            assert over.value.stays
            assert await life.changes.list() == ()

    anyio.run(restart)
    assert LATER in (app / layout.session_workspace(HOST, SESSION) / "work.txt").read_text()


async def test_what_git_cannot_take_is_named(new_app: Callable[[], Path]) -> None:
    """A change request that lacks something of the work tree is not complete and says what, also when its building was cut."""
    app = new_app()
    nested = app / layout.session_workspace(HOST, SESSION) / "nested"
    await anyio.run_process(["git", "init", "--quiet", str(nested)])  # a repository without a commit
    async with living(app, KillAt("change-request.snapshot.recorded")) as life:
        with pytest.raises(Killed):
            await life.ask()
    shutil.rmtree(nested)
    async with living(app) as life:
        assert await life.start_up() == ()
        change = await life.ask()
    assert not change.complete
    assert any("nested" in words for words in change.skipped)
    assert FIRST in (app / layout.change(CHANGE) / PATCH).read_text()
