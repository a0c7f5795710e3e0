"""Deleting exports on a person's word: what stands against it, what goes, and what never goes without a word of its own (WS-7, WS-10)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import anyio
import pytest

from jamcore.daemon.export_deletions import ExportDeletions
from jamcore.daemon.services import Services
from jamcore.domain import layout
from jamcore.domain.export_deletions import ExportDeletionPlan, ExportDeletionRequest
from jamcore.domain.keeping import RoomExportRequest
from jamcore.domain.kept_exports import ExportState
from jamcore.store import StoreUnusableError
from jamcore.testing.crash import KillAt, Killed
from jamcore.testing.parked_world import SIBLING, SUBJECT, World, install_plugin, living, make_world
from jamcore.testing.rooms import new_id, refused
from jamcore.workspace.keeping.deleting import ExportDeletionIntent, Payload
from tests.unit.daemon.clearing import archive, confirmed, taken

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.guarantee("WS-7")]


async def make_two_exports(world: World, kept: Path) -> None:
    """Make the world, export the subject, archive it into a second export, and keep that state."""
    await make_world(world)
    async with living(world) as services:
        await services.exports.new(SUBJECT, RoomExportRequest(id=new_id()))
        await services.exports.new(SIBLING, RoomExportRequest(id=new_id()))
        await archive(services, SUBJECT)
    world.keep(kept)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Path]]:
    """That world, made once, and where its state is kept."""
    root = tmp_path_factory.mktemp("deletions")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(install_plugin(root / "site")))
        world = World(root / "world")
        anyio.run(make_two_exports, world, root / "kept")
        yield world, root / "kept"


@pytest.fixture
def world(kept: tuple[World, Path]) -> World:
    """That world, as it was kept."""
    world, state = kept
    world.bring_back(state)
    return world


async def exports_of(services: Services, room: str) -> tuple[UUID, ...]:
    """Return a room's exports, newest first."""
    return tuple(row.export.id for row in await services.exports.list(room))


def reasons(plan: ExportDeletionPlan) -> list[str]:
    """Return what stands against it."""
    return [each.reason.value for each in plan.evidence.blockers]


async def older_confirmed(services: Services) -> ExportDeletionRequest:
    """Look at the older export, and return the request that confirms what was seen."""
    _, older = await exports_of(services, SUBJECT)
    return ExportDeletionRequest(id=new_id(), confirmed=(await services.export_deletions.plan(str(older))).digest)


async def delete_older(services: Services, request: ExportDeletionRequest) -> None:
    """Delete the older export."""
    _, older = await exports_of(services, SUBJECT)
    await services.export_deletions.delete(str(older), request)


async def require_older_gone(services: Services, world: World) -> None:
    """Require that the older export is gone by its record and from the disk, and that nothing is under way."""
    newest, older = await exports_of(services, SUBJECT)
    assert (await services.exports.show(str(older))).export.state is ExportState.DELETED
    assert not [path for path in (world.app / layout.EXPORTS).iterdir() if str(older) in path.name]
    assert (await services.exports.verify(str(newest))).sound
    assert world.unfinished() == []


@pytest.mark.guarantee("WS-10", "WS-11")
async def test_one_export_goes_and_the_others_stay(world: World) -> None:
    """Bytes shown are bytes freed; its record stays; once more is the same, or refused; it cannot be restored from any more."""
    async with living(world) as services:
        newest, older = await exports_of(services, SUBJECT)
        plan = await services.export_deletions.plan(str(older))
        assert (reasons(plan), plan.evidence.last_of_workspace) == ([], False)
        before = taken(world.app, layout.EXPORTS)
        request = ExportDeletionRequest(id=new_id(), confirmed=plan.digest)
        done = await services.export_deletions.delete(str(older), request)
        assert before - taken(world.app, layout.EXPORTS) == done.bytes_freed == plan.evidence.bytes_freed
        assert (await services.exports.show(str(older))).export.state is ExportState.DELETED
        assert (await services.exports.verify(str(newest))).sound
        rows = world.digest()
        assert await services.export_deletions.delete(str(older), request) == done
        assert world.digest() == rows
        with refused("conflict.changed_record"):
            await services.export_deletions.delete(str(older), request.model_copy(update={"lose_workspace": True}))
        assert reasons(await services.export_deletions.plan(str(older))) == ["deleted"]


async def test_the_export_of_files_that_are_not_archived_stays(world: World) -> None:
    """Whatever digest is shown for it."""
    async with living(world) as services:
        (export,) = await exports_of(services, SIBLING)
        plan = await services.export_deletions.plan(str(export))
        assert (reasons(plan), plan.digest) == (["not-archived"], "")
        with refused("export.deletion_refused"):
            request = ExportDeletionRequest(id=new_id(), confirmed=plan.evidence.content_digest(), lose_workspace=True)
            await services.export_deletions.delete(str(export), request)
        assert (await services.exports.verify(str(export))).sound


async def test_the_only_sound_export_of_archived_files_goes_with_a_word_of_its_own(world: World) -> None:
    """An older one does not hold what it does, and one that is damaged nothing at all."""
    async with living(world) as services:
        newest, older = await exports_of(services, SUBJECT)
        assert (await services.export_deletions.plan(str(newest))).evidence.last_of_workspace
        assert not (await services.export_deletions.plan(str(older))).evidence.last_of_workspace
        (world.app / layout.export_root(older) / "workspace" / "work.txt").write_bytes(b"other")
        plan = await services.export_deletions.plan(str(newest))
        assert plan.evidence.last_of_workspace
        request = ExportDeletionRequest(id=new_id(), confirmed=plan.digest)
        with refused("export.last_of_workspace"):
            await services.export_deletions.delete(str(newest), request)
        assert (await services.exports.verify(str(newest))).sound
        await services.export_deletions.delete(str(newest), request.model_copy(update={"lose_workspace": True}))
        assert await exports_of(services, SUBJECT) == (newest, older)


async def test_what_changed_since_it_was_shown_is_refused(world: World) -> None:
    """Also where it is the export itself that somebody changed."""
    async with living(world) as services:
        _, older = await exports_of(services, SUBJECT)
        plan = await services.export_deletions.plan(str(older))
        (world.app / layout.export_root(older) / "workspace" / "more").write_bytes(b"more")
        before = world.digest()
        with refused("export.deletion_refused"):
            await services.export_deletions.delete(str(older), ExportDeletionRequest(id=new_id(), confirmed=plan.digest))
        assert world.digest() == before


async def test_no_digest_is_good_for_another_action(world: World) -> None:
    """What confirms a deletion cleans no host up, and the other way about."""
    async with living(world) as services:
        newest, _ = await exports_of(services, SUBJECT)
        deletion, cleanup = await services.export_deletions.plan(str(newest)), await confirmed(services)
        with refused("host.cleanup_refused"):
            await services.cleanups.clean_up(SUBJECT, cleanup.model_copy(update={"confirmed": deletion.digest}))
        with refused("export.deletion_refused"):
            await services.export_deletions.delete(str(newest), ExportDeletionRequest(id=new_id(), confirmed=cleanup.confirmed))


async def test_exports_of_a_host_that_was_cleaned_up_can_go(world: World) -> None:
    """They are all that is left of it, so the last one needs the word."""
    async with living(world) as services:
        await services.cleanups.clean_up(SUBJECT, await confirmed(services))
        for number, export in enumerate(reversed(await exports_of(services, SUBJECT))):
            plan = await services.export_deletions.plan(str(export))
            assert plan.evidence.last_of_workspace is bool(number)
            request = ExportDeletionRequest(id=new_id(), confirmed=plan.digest, lose_workspace=bool(number))
            await services.export_deletions.delete(str(export), request)
        assert [path.name for path in (world.app / layout.EXPORTS).iterdir()] == [
            str(each) for each in await exports_of(services, SIBLING)
        ]


@pytest.mark.guarantee("WS-12", "START-1")
async def test_a_deletion_that_a_start_cannot_look_at_goes_on_with_the_next(world: World) -> None:
    """Its record says that the export goes: it is never given up with the bytes still there."""
    with pytest.raises(Killed):
        async with living(world, crash=KillAt("export-deletion.mark.acted")) as services:
            await delete_older(services, await older_confirmed(services))
    exports, away = world.app / layout.EXPORTS, world.root / "away"
    exports.rename(away)
    async with living(world):
        assert len(world.unfinished()) == 1
    for made in exports.iterdir() if exports.exists() else ():
        made.rmdir()
    away.rename(exports)
    async with living(world) as services:
        await require_older_gone(services, world)


@pytest.mark.guarantee("WS-11", "WS-12")
async def test_a_deletion_whose_record_was_made_and_nobody_told_is_finished(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks again in the same words has it done."""
    mark = ExportDeletions.mark

    async def lost(deletions: ExportDeletions, intent: ExportDeletionIntent) -> Payload:
        await mark(deletions, intent)
        monkeypatch.undo()
        raise StoreUnusableError(detail="nobody was told")

    async with living(world) as services:
        monkeypatch.setattr(ExportDeletions, "mark", lost)
        request = await older_confirmed(services)
        with refused("store.unusable"):
            await delete_older(services, request)
        await delete_older(services, request)
        await require_older_gone(services, world)
