"""What an archive takes away is in its export, whatever happens to the work tree in between (WS-4, WS-10, WS-13)."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import anyio
import pytest

from jamcore.daemon.archive_sources import ArchiveMaking
from jamcore.daemon.restores import Restores
from jamcore.daemon.services import Services
from jamcore.domain import layout
from jamcore.domain.errors import JamError
from jamcore.domain.exports import README, Listed
from jamcore.domain.keeping import ArchiveQuestion, ArchiveRequest, OtherPlanError, RestoreRequest, RoomExportRequest
from jamcore.domain.operations import ExportRetention
from jamcore.domain.removal import RemovalOverride, RemovalReason
from jamcore.domain.resets import StartFreshRequest
from jamcore.domain.sessions import HostState, WorkspaceState
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.testing.crash import KillAt, Killed
from jamcore.testing.parked_world import SUBJECT, World, install_plugin, living, make_world
from jamcore.testing.rooms import new_id, refused
from jamcore.workspace.keeping.archiving import ArchiveIntent
from jamcore.workspace.keeping.restoring import RestoreIntent
from tests.unit.daemon.clearing import archive, confirmed, look

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

OUTSIDE = (RemovalOverride(reason=RemovalReason.OUTSIDE, path="."),)
"""The word on a file of no repository, which the subject has."""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Path]]:
    """A world with two parked rooms, made once, and where that state is kept."""
    root = tmp_path_factory.mktemp("archives")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(install_plugin(root / "site")))
        world = World(root / "world")
        anyio.run(make_world, world)
        world.keep(root / "kept")
        yield world, root / "kept"


@pytest.fixture
def world(kept: tuple[World, Path]) -> World:
    """That world, as it was kept."""
    world, state = kept
    world.bring_back(state)
    return world


def hook(tree: Path) -> None:
    """Write where no look at the work counts anything: a git directory's own files."""
    (tree / ".git" / "hooks" / "pre-push").write_text("written after the export\n")


def same_size_and_time(tree: Path) -> None:
    """Write other bytes, as many, under the same time, as programs do that keep times."""
    note = tree / "kept-time.txt"
    status = note.stat()
    note.write_bytes(b"B" * status.st_size)
    os.utime(note, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.guarantee("WS-4", "WS-10")
@pytest.mark.parametrize("change", [hook, same_size_and_time])
async def test_what_is_written_after_the_export_keeps_the_tree(
    world: World, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    """Also what alters no count, size or time: the tree is held against its export, byte for byte, before it goes."""
    tree = world.work()
    (tree / "kept-time.txt").write_bytes(b"AAAA")
    await anyio.run_process(["git", "init", "-q", str(tree)])
    (tree / ".git" / "hooks").mkdir(exist_ok=True)
    prune = ArchiveMaking.prune

    async def then_change(self: ArchiveMaking, intent: ArchiveIntent) -> None:
        await prune(self, intent)
        change(tree)

    monkeypatch.setattr(ArchiveMaking, "prune", then_change)
    async with living(world) as services:
        with refused("export.tree_changed"):
            await archive(services, SUBJECT)
        assert tree.is_dir()
        assert (await services.rooms.get(SUBJECT)).workspace.state is not WorkspaceState.ARCHIVED
        monkeypatch.undo()
        await archive(services, SUBJECT)
        assert not tree.exists()


@pytest.mark.guarantee("WS-13")
async def test_what_is_mounted_in_the_tree_keeps_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that is bound there lies elsewhere: nothing of it goes, also when it has the same file system."""
    tree = world.work()
    monkeypatch.setattr("jamcore.workspace.keeping.aside.mounts_below", lambda path: (f"{path}/bound",))
    async with living(world) as services:
        with refused("storage.failed"):
            await archive(services, SUBJECT)
    assert tree.is_dir()


@pytest.mark.guarantee("WS-13", "WS-16")
async def test_what_is_mounted_is_in_the_plan_and_in_nobodys_power(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is exported, by its path, and no override reaches it."""
    monkeypatch.setattr("jamcore.workspace.inspection.inspect.mounts_below", lambda path: (f"{path}/bound",))
    async with living(world) as services:
        word = RemovalOverride(reason=RemovalReason.MOUNTED, path="bound")
        plan = await services.archives.plan(SUBJECT, ArchiveQuestion(overrides=(word,)))
        assert plan.digest == ""
        assert (RemovalReason.MOUNTED, "bound") in {(each.reason, each.path) for each in plan.standing}
        request = ArchiveRequest(id=new_id(), overrides=(word, *OUTSIDE), confirmed=plan.evidence.content_digest())
        with refused("workspace.removal_blocked"):
            await services.archives.archive(SUBJECT, request)
        assert await services.exports.list(SUBJECT) == ()
    assert world.work().is_dir()


@pytest.mark.guarantee("WS-10", "WS-16")
async def test_an_option_that_names_nothing_is_refused_by_that_name(world: World) -> None:
    """A misspelled path would be exported after all, and a useless override is nobody's word on anything; what was found is said."""
    async with living(world) as services:
        seen = (await services.archives.plan(SUBJECT, ArchiveQuestion())).evidence.content_digest()
        for named, code in (
            ({"leave_out": ("nowhere", "work.txt")}, "export.not_left_out"),
            ({"leave_out": ("nowhere",), "overrides": OUTSIDE}, "export.not_left_out"),
            ({"overrides": (*OUTSIDE, RemovalOverride(reason=RemovalReason.UNPUSHED, path="x"))}, "workspace.nothing_to_override"),
        ):
            with pytest.raises(JamError) as raised:
                await services.archives.plan(SUBJECT, ArchiveQuestion.model_validate(named))
            assert raised.value.code == code
            if code == "export.not_left_out":
                assert raised.value.context()["named"] == "nowhere"
            else:
                assert (raised.value.context()["named"], raised.value.context()["found"]) == ("unpushed:x", "outside:.")
        with refused("export.not_left_out"):
            await services.exports.new(SUBJECT, RoomExportRequest(id=new_id(), leave_out=("nowhere",)))
        useless = RemovalOverride(reason=RemovalReason.STASHED, path=".")
        with refused("workspace.nothing_to_override"):
            await services.archives.archive(SUBJECT, ArchiveRequest(id=new_id(), overrides=(*OUTSIDE, useless), confirmed=seen))
        assert await services.exports.list(SUBJECT) == ()
        (world.work() / "build").mkdir()
        (world.work() / "build" / "lost").write_text("x")
        below = ArchiveQuestion(leave_out=("build", "build/nowhere"), overrides=OUTSIDE)
        assert (await services.archives.plan(SUBJECT, below)).digest, "what lies in what is left out is left out too"
    assert world.work().is_dir()


@pytest.mark.guarantee("WS-10")
@pytest.mark.parametrize("planned", [{"retention": ExportRetention.KEEP_LATEST}, {"leave_out": ()}])
async def test_the_digest_of_a_plan_with_other_options_is_called_that(world: World, planned: dict[str, object]) -> None:
    """Nothing has changed, so nobody is told that it has; after a change it is what that was."""
    async with living(world) as services:
        await services.exports.new(SUBJECT, RoomExportRequest(id=new_id()))
        asked = ArchiveQuestion(overrides=OUTSIDE, leave_out=("work.txt",) if "leave_out" in planned else ())
        plan = await services.archives.plan(SUBJECT, asked.model_copy(update=planned))
        words = asked.model_dump() | {"confirmed": plan.digest}
        with pytest.raises(OtherPlanError) as raised:
            await services.archives.archive(SUBJECT, ArchiveRequest(id=new_id(), **words))
        assert raised.value.planned == plan.evidence.options() != raised.value.asked
        (world.work() / "more").write_text("x")
        with refused("workspace.removal_evidence_changed"):
            await services.archives.archive(SUBJECT, ArchiveRequest(id=new_id(), **words))


@pytest.mark.guarantee("WS-6", "WS-13", "WS-16")
async def test_the_plan_the_archive_and_the_restore_count_the_same(world: World) -> None:
    """Git's own files among them; what no export holds is named before anybody confirms that it goes."""
    tree = world.work()
    await anyio.run_process(["git", "init", "-q", str(tree)])
    os.mkfifo(tree / "pipe")
    async with living(world) as services:
        seen = await services.archives.plan(SUBJECT, ArchiveQuestion())
        assert seen.left_out == Listed(total=1, first=("pipe: a FIFO",))
        assert seen.holds.files > seen.evidence.inspection.losses.files, "git has files of its own"
        words = tuple(RemovalOverride(reason=each.reason, path=each.path) for each in seen.standing)
        request = ArchiveRequest(id=new_id(), overrides=words, confirmed=seen.evidence.content_digest())
        gone = await services.archives.archive(SUBJECT, request)
        back = await services.restores.restore(SUBJECT, RestoreRequest(id=new_id()))
    counted = {(seen.holds.files, seen.holds.bytes_total), (gone.files, gone.bytes_removed), (back.files, back.bytes_total)}
    assert len(counted) == 1


class Turned(SystemClock):
    """A clock that a test turns back."""

    back = timedelta()

    def now(self) -> datetime:
        """Return the time on it."""
        return super().now() - self.back


@pytest.mark.guarantee("WS-6")
async def test_the_newest_export_is_the_one_that_was_made_last(world: World) -> None:
    """A clock that was set back between two exports does not bring older files back as the newest."""
    tree, clock = world.work(), Turned()
    async with living(world, clock=clock) as services:
        (tree / "state").write_text("older")
        await archive(services, SUBJECT)
        await services.restores.restore(SUBJECT, RestoreRequest(id=new_id()))
        (tree / "state").write_text("newer")
        clock.back = timedelta(hours=1)
        newest = await archive(services, SUBJECT)
        done = await services.restores.restore(SUBJECT, RestoreRequest(id=new_id()))
    assert done.export_id == newest
    assert (tree / "state").read_text() == "newer"


@pytest.mark.guarantee("WS-6", "WS-17")
async def test_nothing_comes_back_to_a_host_that_is_on_its_way_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clean-up that was cut goes on later, and would take along what came back, or never end because of it."""

    def broken(*_: object, **__: object) -> bool:
        raise OSError(errno.EIO, "Input/output error")

    async with living(world) as services:
        await archive(services, SUBJECT)
        request = await confirmed(services)
        with monkeypatch.context() as patch, refused("host.cleanup_unfinished"):
            patch.setattr("jamcore.workspace.keeping.aside.remove_tree", broken)
            await services.cleanups.clean_up(SUBJECT, request)
        with refused("host.cleanup_unfinished"):
            await services.restores.restore(SUBJECT, RestoreRequest(id=new_id()))
        assert not world.work().exists()
    async with living(world) as services:
        assert (await services.rooms.get(SUBJECT)).host.state is HostState.REMOVED


@pytest.mark.guarantee("CONT-9", "WS-6")
async def test_no_fresh_start_leaves_an_archived_workspace_behind(world: World) -> None:
    """The export is of the workspace that the room has; a new one could never be given its files back."""
    async with living(world) as services:
        await archive(services, SUBJECT)
        for path in (world.app / layout.host_root(world.room().host.id) / "recovery").rglob("*"):
            if path.is_file():
                path.chmod(0o600)  # Git's objects are read-only, also for their owner
                path.write_bytes(b"damaged")
        shutil.rmtree(world.app / layout.host_root(world.room().host.id) / "provider-state")
        seen = await services.continuity.inspect(SUBJECT)
        assert seen.evidence.failure is not None, "there is something to give up"
        assert "archived" in seen.blocked
        with refused("continuity.reset_refused"):
            await services.continuity.start_fresh(SUBJECT, StartFreshRequest(id=new_id(), evidence=seen.digest, confirm=True))
        done = await services.restores.restore(SUBJECT, RestoreRequest(id=new_id()))
        assert "cannot be brought back" in done.checkpoint, "the files come back, whatever became of the conversation"
        assert (await services.continuity.inspect(SUBJECT)).can_start_fresh


@pytest.mark.guarantee("OWN-7", "WS-8")
async def test_a_host_of_another_daemon_is_not_cleaned_up(world: World) -> None:
    """On one database this daemon's engine says of it that it is absent, and means nothing by that."""
    async with living(world) as services:
        await archive(services, SUBJECT)
    async with living(world) as services:
        with closing(sqlite3.connect(world.app / "jam.db")) as database, database:
            database.execute("UPDATE hosts SET fence_epoch = fence_epoch + 7 WHERE id = ?", [str(world.room().host.id)])
        request = await confirmed(services)
        with refused("store.fenced"):
            await services.cleanups.clean_up(SUBJECT, request)
        plan = await look(services)
        assert plan.unfinished is None
        assert (world.app / layout.host_root(world.room().host.id)).is_dir()


class Died(BaseException):
    """A daemon that is gone in the middle of a step."""


@pytest.mark.guarantee("WS-6", "WS-12")
@pytest.mark.parametrize("mine", [False, True])
async def test_what_somebody_put_in_the_place_meanwhile_is_not_what_came_back(
    world: World, monkeypatch: pytest.MonkeyPatch, *, mine: bool
) -> None:
    """A restore that was cut as it placed the files holds what it finds there against the export."""
    place = Restores.place

    async def died(self: Restores, intent: RestoreIntent) -> None:
        if mine:
            await place(self, intent)
        raise Died

    tree = world.work()
    async with living(world) as services:
        await archive(services, SUBJECT)
        with monkeypatch.context() as patch:
            patch.setattr(Restores, "place", died)
            with pytest.raises(Died):
                await services.restores.restore(SUBJECT, RestoreRequest(id=new_id()))
    if not mine:
        tree.mkdir()
        (tree / "foreign").write_text("x")
    async with living(world) as services:
        found = (await services.rooms.get(SUBJECT)).workspace.state
    assert found is (WorkspaceState.READY if mine else WorkspaceState.ARCHIVED)
    assert (tree / "foreign").exists() is not mine


def spoil(export: Path) -> None:
    """Make an export another one than was recorded."""
    (export / "manifest.json").write_bytes(b"{}")


@pytest.mark.guarantee("WS-12", "WS-16")
@pytest.mark.parametrize("point", ["archive.mark.acted", "archive.mark.recorded", "archive.prune.intended"])
@pytest.mark.parametrize("damage", [spoil, Files().remove_tree])
async def test_an_archive_that_gives_up_lets_go_of_the_older_exports(
    world: World, point: str, damage: Callable[[Path], None]
) -> None:
    """They were marked for their deletion, and the new one turned out damaged before any went: they may be restored, deleted, kept."""
    async with living(world) as services:
        older = [(await services.exports.new(SUBJECT, RoomExportRequest(id=new_id()))).export.id for _ in range(2)]
        (world.app / layout.export_root(older[1])).rename(world.app / layout.removed_export(older[1]))
        request = await keep_latest(services)
    with pytest.raises(Killed):
        async with living(world, crash=KillAt(point)) as services:
            await services.archives.archive(SUBJECT, request)
    damage(world.app / layout.export_root(request.id))
    async with living(world) as services:
        assert world.unfinished() == []
        assert await states(services) == {older[0]: "published", older[1]: "deleted", request.id: "published"}
        assert not (world.app / layout.removed_export(older[1])).exists(), "whose removal had begun is gone"
        assert (await services.exports.verify(str(older[0]))).sound
        assert world.work().is_dir()
        with refused("journal.given_up"):
            await services.archives.archive(SUBJECT, request)
        await archive(services, SUBJECT)
        assert not world.work().exists()


async def keep_latest(services: Services) -> ArchiveRequest:
    """Return the request that archives the subject and keeps the new export alone."""
    plan = await services.archives.plan(SUBJECT, ArchiveQuestion(retention=ExportRetention.KEEP_LATEST))
    words = tuple(RemovalOverride(reason=each.reason, path=each.path) for each in plan.standing)
    seen = plan.evidence.content_digest()
    return ArchiveRequest(id=new_id(), retention=ExportRetention.KEEP_LATEST, overrides=words, confirmed=seen)


@contextmanager
def cut_as_it_gives_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let no archive note that it has ended, whose states were put right."""
    give_up = ArchiveMaking.give_up

    async def cut(self: ArchiveMaking, intent: ArchiveIntent, error: Exception) -> None:
        await give_up(self, intent, error)
        raise OSError(errno.EIO, "the journal cannot note it")

    with monkeypatch.context() as patch:
        patch.setattr(ArchiveMaking, "give_up", cut)
        yield


@pytest.mark.guarantee("WS-12", "WS-16")
@pytest.mark.parametrize("point", ["archive.mark.acted", "archive.prune.intended"])
async def test_an_archive_that_let_go_of_older_exports_and_goes_on_takes_them_again(
    world: World, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """It gave up and could not note it, and the new export reads sound at the next start: no payload goes that a record says is kept."""
    async with living(world) as services:
        older = [(await services.exports.new(SUBJECT, RoomExportRequest(id=new_id()))).export.id for _ in range(2)]
        (world.app / layout.export_root(older[1])).rename(world.app / layout.removed_export(older[1]))
        request = await keep_latest(services)
    with pytest.raises(Killed):
        async with living(world, crash=KillAt(point)) as services:
            await services.archives.archive(SUBJECT, request)
    manifest = world.app / layout.export_root(request.id) / "manifest.json"
    sound = manifest.read_bytes()
    manifest.write_bytes(b"{}")
    with cut_as_it_gives_up(monkeypatch):
        async with living(world) as services:
            assert world.unfinished() == ["archive"]
            assert await states(services) == {older[0]: "published", older[1]: "deleted", request.id: "published"}
    manifest.write_bytes(sound)
    remove = ArchiveMaking._remove_export

    def checked(self: ArchiveMaking, export: UUID) -> None:
        assert ("published",) not in world.rows(f"SELECT state FROM exports WHERE id = '{export}'")
        remove(self, export)

    monkeypatch.setattr(ArchiveMaking, "_remove_export", checked)
    async with living(world) as services:
        assert world.unfinished() == []
        assert await states(services) == {older[0]: "deleted", older[1]: "deleted", request.id: "published"}
        assert (await services.rooms.get(SUBJECT)).workspace.state is WorkspaceState.ARCHIVED


@pytest.mark.guarantee("WS-12", "WS-16")
@pytest.mark.parametrize("lost", [False, True])
async def test_an_archive_whose_exports_are_all_missing_concludes_nothing(world: World, *, lost: bool) -> None:
    """Their disk is not there at one start: no record says for ever that they are gone before it is back, or a person says so."""
    async with living(world) as services:
        older = (await services.exports.new(SUBJECT, RoomExportRequest(id=new_id()))).export.id
        request = await keep_latest(services)
    with pytest.raises(Killed):
        async with living(world, crash=KillAt("archive.prune.intended")) as services:
            await services.archives.archive(SUBJECT, request)
    exports = world.app / layout.EXPORTS
    exports.rename(world.root / "disk")
    exports.mkdir(mode=0o700)
    async with living(world) as services:
        assert world.unfinished() == ["archive"]
        assert await states(services) == {older: "deleting", request.id: "published"}
        assert world.work().is_dir()
    if lost:
        (world.app / layout.export_root(request.id)).mkdir()
    else:
        exports.rmdir()
        (world.root / "disk").rename(exports)
    async with living(world) as services:
        assert world.unfinished() == []
        assert await states(services) == {older: "deleted", request.id: "published"}
        assert ((await services.rooms.get(SUBJECT)).workspace.state is WorkspaceState.ARCHIVED) is not lost
    assert world.work().exists() is lost


@pytest.mark.guarantee("WS-4", "WS-12")
@pytest.mark.parametrize("touched", [False, True])
async def test_files_that_came_back_are_not_called_archived(
    world: World, monkeypatch: pytest.MonkeyPatch, *, touched: bool
) -> None:
    """Their archive could not note that it had ended, and its export reads sound again: they go after all, if they are what it holds."""
    async with living(world) as services:
        seen = (await services.archives.plan(SUBJECT, ArchiveQuestion())).evidence.content_digest()
    request = ArchiveRequest(id=new_id(), overrides=OUTSIDE, confirmed=seen)
    with pytest.raises(Killed):
        async with living(world, crash=KillAt("archive.remove.intended")) as services:
            await services.archives.archive(SUBJECT, request)
    readme = world.app / layout.export_root(request.id) / README
    sound, status = readme.read_bytes(), readme.stat()
    readme.write_bytes(b"other")
    with cut_as_it_gives_up(monkeypatch):
        async with living(world):
            assert world.unfinished() == ["archive"]
            assert world.work().is_dir()
    readme.write_bytes(sound)
    os.utime(readme, ns=(status.st_mtime_ns, status.st_mtime_ns))
    if touched:
        (world.work() / "work.txt").write_text("a person went on")
    async with living(world) as services:
        archived = (await services.rooms.get(SUBJECT)).workspace.state is WorkspaceState.ARCHIVED
        assert world.unfinished() == (["archive"] if touched else [])
    assert archived is not touched
    assert world.work().exists() is touched


@pytest.mark.guarantee("WS-12")
@pytest.mark.parametrize(
    "point", ["archive.aside.acted", "archive.aside.recorded", "archive.remove.intended", "archive.remove.acted"]
)
async def test_files_that_were_set_aside_come_back_if_their_export_is_damaged(world: World, point: str) -> None:
    """Whole, and then the archive is over; what is not whole any more stays where it is, and so does the archive."""
    async with living(world) as services:
        seen = (await services.archives.plan(SUBJECT, ArchiveQuestion())).evidence.content_digest()
    request = ArchiveRequest(id=new_id(), overrides=OUTSIDE, confirmed=seen)
    with pytest.raises(Killed):
        async with living(world, crash=KillAt(point)) as services:
            await services.archives.archive(SUBJECT, request)
    held = world.app / layout.export_root(request.id) / "workspace" / "work.txt"
    data, status = held.read_bytes(), held.stat()
    held.write_bytes(data[::-1])
    gone = point == "archive.remove.acted"
    async with living(world) as services:
        assert world.unfinished() == (["archive"] if gone else [])
        assert world.work().exists() is not gone
        if not gone:
            assert (world.work() / "work.txt").read_bytes() == data
            assert await states(services) == {request.id: "published"}
            await archive(services, SUBJECT)
            return
    held.write_bytes(data)
    os.utime(held, ns=(status.st_mtime_ns, status.st_mtime_ns))
    async with living(world) as services:
        assert world.unfinished() == []
        assert (await services.rooms.get(SUBJECT)).workspace.state is WorkspaceState.ARCHIVED


async def states(services: Services) -> dict[UUID, str]:
    """Return the state of each of the subject's exports."""
    return {row.export.id: row.export.state.value for row in await services.exports.list(SUBJECT)}
