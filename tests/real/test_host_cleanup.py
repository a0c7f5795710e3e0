"""A whole sandbox of the real engine is cleaned up: exactly what was shown goes, the export stays sound, the room says so (WS-8, WS-17)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jamcore.domain import layout
from jamcore.domain.cleanup_plans import CleanupQuestion, CleanupRequest
from jamcore.domain.export_deletions import ExportDeletionRequest
from jamcore.domain.host_cleanups import CleanupStage
from jamcore.domain.keeping import ArchiveQuestion, ArchiveRequest
from jamcore.domain.removal import RemovalOverride
from jamcore.domain.sessions import HostState
from jamcore.testing.daemon import DaemonChild, running_daemon
from jamcore.testing.rooms import ask, cloned, managed, new_id, refused, said_in_room
from jamcore.testing.servers.responses import ResponsesServer

pytestmark = [pytest.mark.anyio, pytest.mark.needs("bubblewrap", "codex"), pytest.mark.guarantee("WS-8")]


def taken(app: Path) -> int:
    """Return what hosts and owner records take on the disk."""
    paths = {path for root in (layout.HOSTS, layout.OWNERS) for path in (app / root, *(app / root).rglob("*"))}
    return sum({path.lstat().st_ino: path.lstat().st_blocks * 512 for path in paths}.values())


@pytest.mark.guarantee("WS-7", "OWN-3", "WS-10")
async def test_a_stopped_and_archived_sandbox_goes_with_its_files(daemon: DaemonChild, app: Path, model: ResponsesServer) -> None:
    """Bytes shown are bytes freed, in a sandbox in which an agent worked; the export outlives it and goes by its own word alone."""
    async with running_daemon(daemon) as client:
        room = await client.create_room(managed("codex", model.base_url))
        ref = str(room.room.id)
        await ask(client, room, "Write the file")
        live = {each.reason.value for each in (await client.clearing.plan_cleanup(ref, CleanupQuestion())).standing}
        assert {"live", "not-archived", "not-dormant", "not-parked", "sandbox"} <= live
        await client.stop(ref)
        found = await client.exports.plan_archive(ref, ArchiveQuestion())
        words = tuple(RemovalOverride(reason=each.reason, path=each.path) for each in found.standing)
        digest = (await client.exports.plan_archive(ref, ArchiveQuestion(overrides=words))).digest
        kept = await client.exports.archive(ref, ArchiveRequest(id=new_id(), confirmed=digest, overrides=words))
        plan = await client.clearing.plan_cleanup(ref, CleanupQuestion())
        assert plan.standing == ()
        before = taken(app)
        done = await client.clearing.clean_up(ref, CleanupRequest(id=new_id(), confirmed=plan.digest))
        assert before - taken(app) == plan.planned_bytes == done.cleanup.removed_bytes
        assert done.cleanup.stage is CleanupStage.SUCCEEDED
        assert not list((app / layout.engine_root("bubblewrap")).glob(f"{room.host.sandbox}*"))
        assert (await client.room(ref)).host.state is HostState.REMOVED
        assert [code for code, _ in await said_in_room(client, room)].count("host.removed") == 1
        with refused("host.removed"):
            await client.resume(ref)
        export = str(kept.export.id)
        assert (await client.exports.verify(export)).sound
        going = await client.clearing.plan_deletion(export)
        assert going.evidence.last_of_workspace
        with refused("export.last_of_workspace"):
            await client.clearing.delete_export(export, ExportDeletionRequest(id=new_id(), confirmed=going.digest))
        gone = ExportDeletionRequest(id=new_id(), confirmed=going.digest, lose_workspace=True)
        assert (await client.clearing.delete_export(export, gone)).bytes_freed == going.evidence.bytes_freed
        assert not list((app / layout.EXPORTS).iterdir())


@pytest.mark.guarantee("OWN-9")
async def test_work_in_a_private_clone_goes_with_a_word_of_its_own(
    daemon: DaemonChild, app: Path, model: ResponsesServer, repository: Callable[[Path], Path], tmp_path: Path
) -> None:
    """What the agent made and nobody committed is named; it needs no export, and it is lost on that word alone."""
    own = repository(tmp_path / "own")
    async with running_daemon(daemon) as client:
        room = await client.create_room(cloned("codex", model.base_url, str(own)))
        ref = str(room.room.id)
        await ask(client, room, "Write the file")
        await client.stop(ref)
        plan = await client.clearing.plan_cleanup(ref, CleanupQuestion())
        assert {each.reason.value for each in plan.standing} == {"work"}
        assert "made.txt" in plan.standing[0].detail
        with refused("host.cleanup_refused"):
            await client.clearing.clean_up(ref, CleanupRequest(id=new_id(), confirmed=plan.evidence.content_digest()))
        lossy = await client.clearing.plan_cleanup(ref, CleanupQuestion(discard_work=True))
        request = CleanupRequest(id=new_id(), confirmed=lossy.digest, discard_work=True)
        assert (await client.clearing.clean_up(ref, request)).cleanup.stage is CleanupStage.SUCCEEDED
        assert not (app / layout.host_root(room.host.id)).exists()
        assert (own / ".git").is_dir()
