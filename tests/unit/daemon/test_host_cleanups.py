"""The clean-up of a whole host: what is shown, what stands against it, and that exactly that goes (WS-8, WS-10, WS-17)."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from jamcore.daemon.host_cleanups import HostCleanups
from jamcore.domain import layout
from jamcore.domain.cleanup_plans import CleanupEvidence, CleanupQuestion, CleanupReason, CleanupRequest
from jamcore.domain.errors import JamError
from jamcore.domain.host_cleanups import CleanupStage, HostCleanup
from jamcore.domain.keeping import ArchiveQuestion, ArchiveRequest, RestoreRequest, RoomExportRequest
from jamcore.domain.ownership import GUEST_MARKER
from jamcore.domain.retention import Blocker
from jamcore.domain.sandboxes import EngineHealth, EngineUnknownError, InventoryItem, Presence
from jamcore.domain.sessions import HostState
from jamcore.domain.workspace_care import RecoverRequest, RecoveryWay
from jamcore.engines.local.engine import LocalEngine
from jamcore.sandbox.cleanup import CleanupIntent
from jamcore.testing.parked_world import SIBLING, SUBJECT, World, install_plugin, living, say
from jamcore.testing.rooms import new_id, refused
from tests.unit.daemon.clearing import confirmed, look, make_archived, reasons, taken

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.guarantee("WS-8")]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Path]]:
    """A world whose subject is archived, made once, and where that state is kept."""
    root = tmp_path_factory.mktemp("cleanups")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(install_plugin(root / "site")))
        world = World(root / "world")
        anyio.run(make_archived, world, root / "kept")
        yield world, root / "kept"


@pytest.fixture
def world(kept: tuple[World, Path]) -> World:
    """That world, as it was kept."""
    world, state = kept
    world.bring_back(state)
    return world


@pytest.mark.guarantee("WS-10", "WS-11", "WS-17")
async def test_exactly_what_was_shown_goes_and_the_rest_stays(world: World) -> None:
    """Bytes shown are bytes freed; rows, exports and the sibling stay; the room says it; once more is the same, or refused."""
    async with living(world) as services:
        sibling = world.host_digest(SIBLING)
        plan = await look(services)
        assert plan.standing == ()
        assert {"sandbox", "owner marker", "checkpoints", "provider state", "manifest"} <= {i.what for i in plan.evidence.items}
        before = taken(world.app)
        request = CleanupRequest(id=new_id(), confirmed=plan.digest)
        done = await services.cleanups.clean_up(SUBJECT, request)
        assert before - taken(world.app) == plan.planned_bytes == done.cleanup.removed_bytes
        assert (done.cleanup.stage, done.cleanup.retained_bytes) == (CleanupStage.SUCCEEDED, plan.retained_bytes)
        assert world.host_digest(SIBLING) == sibling
        room = await services.rooms.get(SUBJECT)
        assert room.host.state is HostState.REMOVED
        (export,) = await services.exports.list(SUBJECT)
        assert (await services.exports.verify(str(export.export.id))).sound
        assert {each.kept_because for each in await services.removals.standings(SUBJECT)} <= {Blocker.REMOVED}
        async with services.rooms.events(SUBJECT, after=0, follow=False) as events:
            said = [event.payload.code async for event in events if event.payload.kind == "session.notice"]
        assert said.count("host.removed") == 1
        with refused("host.removed"):
            await services.rooms.resume(SUBJECT)
        rows = world.digest()
        assert await services.cleanups.clean_up(SUBJECT, request) == done
        assert world.digest() == rows
        with refused("conflict.changed_record"):
            await services.cleanups.clean_up(SUBJECT, request.model_copy(update={"confirmed": "0" * 64}))
        assert reasons(await look(services)) == ["removed"]
        with refused("host.cleanup_refused"):
            await services.cleanups.clean_up(SUBJECT, request.model_copy(update={"id": new_id()}))


async def test_whatever_is_asked_of_a_room_whose_host_is_gone_is_told_that_first(world: World) -> None:
    """Its files are archived too, and nothing of that can be undone any more: what is left are its exports."""
    async with living(world) as services:
        await services.cleanups.clean_up(SUBJECT, await confirmed(services))
        for ask in (
            lambda: services.rooms.resume(SUBJECT),
            lambda: services.changes.build(SUBJECT, new_id()),
            lambda: services.exports.new(SUBJECT, RoomExportRequest(id=new_id())),
            lambda: services.archives.plan(SUBJECT, ArchiveQuestion()),
            lambda: services.archives.archive(SUBJECT, ArchiveRequest(id=new_id(), confirmed="0" * 64)),
            lambda: services.restores.restore(SUBJECT, RestoreRequest(id=new_id())),
            lambda: services.workspaces.recover(SUBJECT, RecoverRequest(id=new_id(), way=RecoveryWay.RETRY)),
        ):
            with pytest.raises(JamError) as raised:
                await ask()
            assert raised.value.code == "host.removed"
            assert "jam export ls ROOM" in raised.value.hint
            assert "jam export import DIRECTORY" in raised.value.hint
        view = await services.workspaces.inspect(SUBJECT)
        assert view.next == ("jam export ls ROOM", "jam export import DIRECTORY")


async def test_a_room_whose_files_are_not_archived_keeps_its_host(world: World) -> None:
    """So does one that is live; both are named, and nothing of them goes by a digest that was made before."""
    async with living(world) as services:
        plan = await services.cleanups.plan(SIBLING, CleanupQuestion())
        assert (reasons(plan), plan.digest) == (["not-archived"], "")
        await say(services, SIBLING, "and on")
        live = await services.cleanups.plan(SIBLING, CleanupQuestion())
        assert {"live", "not-archived", "not-dormant", "not-parked", "sandbox"} <= set(reasons(live))
        with refused("conflict.host_in_use"):
            await services.cleanups.clean_up(SIBLING, CleanupRequest(id=new_id(), confirmed=plan.evidence.content_digest()))


async def test_an_export_is_read_whole_before_anything_goes(world: World) -> None:
    """One that was damaged since it was made holds nobody's files; another sound one of the workspace is enough."""
    async with living(world) as services:
        request = await confirmed(services)
        (export,) = await services.exports.list(SUBJECT)
        file = world.app / layout.export_root(export.export.id) / "workspace" / "work.txt"
        file.write_bytes(file.read_bytes()[::-1])
        assert reasons(await look(services)) == ["no-export"]
        before = world.digest()
        with refused("host.cleanup_refused"):
            await services.cleanups.clean_up(SUBJECT, request)
        assert world.digest() == before


async def test_what_changed_since_it_was_shown_is_refused(world: World) -> None:
    """One byte, of whatever is below the host's directory, also where no size changes."""
    async with living(world) as services:
        request = await confirmed(services)
        manifest = world.app / layout.manifest(world.room().host.id)
        manifest.write_bytes(manifest.read_bytes())
        before = world.digest()
        with refused("host.cleanup_refused"):
            await services.cleanups.clean_up(SUBJECT, request)
        assert world.digest() == before


@pytest.mark.guarantee("OWN-3")
async def test_a_marker_that_proves_nothing_keeps_everything(world: World) -> None:
    """Damaged, or gone while the sandbox is there."""
    async with living(world) as services:
        request = await confirmed(services)
        marker = world.app / layout.owner_marker(world.room().host.sandbox)
        whole = marker.read_bytes()
        for text in (b"{}", None):
            marker.unlink()
            if text is not None:
                marker.write_bytes(text)
            assert "sandbox" in reasons(await look(services))
            with refused("host.cleanup_refused"):
                await services.cleanups.clean_up(SUBJECT, request)
            marker.write_bytes(whole)
        assert (world.app / layout.host_root(world.room().host.id)).exists()


async def _errs(*_: object) -> None:
    raise EngineUnknownError(engine="local", operation="test", detail="it does not say")


async def _hangs(*_: object) -> None:
    await anyio.sleep_forever()


async def _nothing(*_: object) -> tuple[InventoryItem, ...]:
    return ()


async def _absent(*_: object) -> Presence:
    return Presence.ABSENT


async def _running(*_: object) -> Presence:
    return Presence.RUNNING


async def _sick(*_: object) -> EngineHealth:
    return EngineHealth(engine="local", usable=False, findings=())


LIES = [
    ("inventory", _errs),
    ("inventory", _hangs),
    ("inventory", _nothing),
    ("presence", _errs),
    ("presence", _hangs),
    ("presence", _absent),
    ("presence", _running),
    ("probe", _sick),
    ("probe", _hangs),
]


@pytest.mark.guarantee("OWN-6", "WS-17")
@pytest.mark.parametrize(("call", "lie"), LIES, ids=[f"{call}-{lie.__name__[1:]}" for call, lie in LIES])
async def test_an_engine_that_errs_or_lies_never_leads_to_a_removal(
    world: World, monkeypatch: pytest.MonkeyPatch, call: str, lie: object
) -> None:
    """Whatever one of its answers says alone: the plan names it, and a confirmation that was made before is refused."""
    limits = replace(world.options().limits, read_s=1.0)
    async with living(world, limits=limits) as services:
        request = await confirmed(services)
        before = world.digest()
        monkeypatch.setattr(LocalEngine, call, lie)
        plan = await look(services)
        assert set(reasons(plan)) <= {"engine", "sandbox"}
        assert plan.standing
        with refused("host.cleanup_refused"):
            await services.cleanups.clean_up(SUBJECT, request)
        monkeypatch.undo()
        assert world.digest() == before
        assert (await services.cleanups.clean_up(SUBJECT, request)).cleanup.stage is CleanupStage.SUCCEEDED


@pytest.mark.guarantee("WS-17")
async def test_of_two_at_once_one_wins(world: World) -> None:
    """The other one is told so, and there is one record."""
    async with living(world) as services:
        request = await confirmed(services)
        ended: list[str] = []

        async def ask(asked: CleanupRequest) -> None:
            try:
                await services.cleanups.clean_up(SUBJECT, asked)
            except JamError as error:
                ended.append(error.code)
            else:
                ended.append("done")

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(ask, request.model_copy(update={"id": new_id()}))
        assert sorted(ended) == ["done"] + ["host.cleanup_refused"] * 4
        assert len(world.rows("SELECT id FROM host_cleanups")) == 1


@pytest.mark.guarantee("WS-17")
async def test_a_sandbox_that_was_absent_must_be_so_still(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is there after all stops the clean-up with a conflict and nothing is gone; a new one looks at everything again."""
    (record,) = (world.app / layout.engine_root("local")).glob(f"{world.room().host.sandbox}*")
    whole = record.read_bytes()
    record.unlink()
    prepare = HostCleanups.prepare

    async def then_it_appears(self: HostCleanups, intent: CleanupIntent, evidence: CleanupEvidence) -> None:
        await prepare(self, intent, evidence)
        record.write_bytes(whole)

    async with living(world) as services:
        plan = await look(services)
        assert (plan.evidence.presence, plan.standing) == ("absent", ())
        hosts, request = world.host_digest(SUBJECT), CleanupRequest(id=new_id(), confirmed=plan.digest)
        with monkeypatch.context() as patch, refused("host.cleanup_conflict"):
            patch.setattr(HostCleanups, "prepare", then_it_appears)
            await services.cleanups.clean_up(SUBJECT, request)
        assert world.host_digest(SUBJECT) == hosts
        assert record.read_bytes() == whole
        with refused("journal.given_up"):
            await services.cleanups.clean_up(SUBJECT, request)
        again = await confirmed(services)
        assert again.confirmed != request.confirmed
        done = await services.cleanups.clean_up(SUBJECT, again)
        assert not done.cleanup.sandbox_absent
        assert len(world.rows("SELECT id FROM host_cleanups")) == 1


@pytest.mark.guarantee("WS-17", "WS-10")
async def test_one_that_was_cut_goes_on_and_nothing_of_it_is_used(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk refuses when the sandbox is gone: it is said how far it is, no room comes up, and the same word finishes it."""

    def broken(*_: object, **__: object) -> bool:
        raise OSError(errno.EIO, "Input/output error")

    async with living(world) as services:
        plan = await look(services)
        request = CleanupRequest(id=new_id(), confirmed=plan.digest)
        with monkeypatch.context() as patch, refused("host.cleanup_unfinished"):
            patch.setattr("jamcore.workspace.keeping.aside.remove_tree", broken)
            await services.cleanups.clean_up(SUBJECT, request)
        cut = (await look(services)).unfinished
        assert cut is not None
        assert (cut.id, cut.stage, cut.confirmed) == (request.id, CleanupStage.SANDBOX_REMOVED, request.confirmed)
        with refused("host.cleanup_unfinished"):
            await services.rooms.resume(SUBJECT)
        with refused("host.cleanup_refused"):
            await services.cleanups.clean_up(SUBJECT, CleanupRequest(id=new_id(), confirmed="0" * 64))
    async with living(world) as services:
        assert (await services.rooms.get(SUBJECT)).host.state is HostState.REMOVED, "the start went on with it"
        done = await services.cleanups.clean_up(SUBJECT, request)
        assert done.cleanup.removed_bytes == plan.planned_bytes
        assert not list((world.app / layout.HOSTS).glob(".*"))


@pytest.mark.guarantee("WS-17")
async def test_the_same_word_finishes_one_that_was_cut(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a new id it is the same clean-up, not a second one."""

    def broken(*_: object, **__: object) -> bool:
        raise OSError(errno.EIO, "Input/output error")

    async with living(world) as services:
        request = await confirmed(services)
        with monkeypatch.context() as patch, refused("host.cleanup_unfinished"):
            patch.setattr("jamcore.workspace.keeping.aside.remove_tree", broken)
            await services.cleanups.clean_up(SUBJECT, request)
        done = await services.cleanups.clean_up(SUBJECT, request.model_copy(update={"id": new_id()}))
        assert (done.cleanup.id, done.cleanup.stage) == (request.id, CleanupStage.SUCCEEDED)


@pytest.mark.guarantee("OWN-3", "WS-17")
async def test_what_was_put_into_the_directory_when_the_sandbox_was_gone_stops_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what was confirmed goes; once it is taken out again, the start goes on."""
    root = world.app / layout.host_root(world.room().host.id)
    advance = HostCleanups.advance

    async def then_somebody_writes(self: HostCleanups, intent: CleanupIntent, stage: CleanupStage) -> HostCleanup:
        (root / "mine").write_text("put here by a person")
        return await advance(self, intent, stage)

    async with living(world) as services:
        request = await confirmed(services)
        with monkeypatch.context() as patch, refused("host.cleanup_unfinished"):
            patch.setattr(HostCleanups, "advance", then_somebody_writes)
            await services.cleanups.clean_up(SUBJECT, request)
        assert (root / "mine").read_text() == "put here by a person"
    async with living(world) as services:
        assert (root / "mine").exists()
        (root / "mine").unlink()
        assert (await services.cleanups.clean_up(SUBJECT, request)).cleanup.stage is CleanupStage.SUCCEEDED


@pytest.mark.guarantee("OWN-3", "OWN-6")
async def test_another_sandbox_of_the_same_name_keeps_everything(world: World) -> None:
    """It holds another nonce, and the engine does not vouch for it: nothing of it or of the host goes."""
    async with living(world) as services:
        request = await confirmed(services)
        (record,) = (world.app / layout.engine_root("local")).glob(f"{world.room().host.sandbox}*")
        stored = json.loads(record.read_bytes())
        stored["spec"]["proof"] = "another"
        record.write_text(json.dumps(stored))
        home = world.app / layout.guest_disk(world.room().host.id) / "home"
        (home / GUEST_MARKER.rpartition("/")[2]).write_text('{"nonce":"another"}')
        plan = await look(services)
        assert "sandbox" in reasons(plan)
        with refused("host.cleanup_refused"):
            await services.cleanups.clean_up(SUBJECT, request)
        assert record.exists()
        assert home.is_dir()


@pytest.mark.guarantee("REAP-3")
async def test_capacity_tells_what_each_host_takes(world: World) -> None:
    """Figures that add up, and no advice about what is new or the newest."""
    async with living(world) as services:
        report = await services.capacity.report()
        assert {name for host in report.hosts for name in host.rooms} == {SUBJECT, SIBLING}
        assert sum(host.below_root for host in report.hosts) <= taken(world.app, layout.HOSTS)
        assert report.whole
        assert report.candidates == ()
        assert all(not host.checkpoints_that_may_go for host in report.hosts)
        plan = await look(services)
        (subject,) = (host for host in report.hosts if SUBJECT in host.rooms)
        assert subject.below_root == sum(item.bytes for item in plan.evidence.items if item.in_root)


async def test_a_mount_below_its_directory_stands_against_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is bound there is not the host's, so nothing is removed around it either."""
    async with living(world) as services:
        request = await confirmed(services)
        monkeypatch.setattr("jamcore.daemon.host_files.mounts_below", lambda path: (f"{path}/guest-disk/other",))
        assert CleanupReason.MOUNTED in {each.reason for each in (await look(services)).standing}
        with refused("host.cleanup_refused"):
            await services.cleanups.clean_up(SUBJECT, request)
