"""A room's workspace and conversation become plain files that can be read and checked without Jam (WS-5, SEC-7)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from anyio import to_thread

from jamcore.domain import layout
from jamcore.domain.keeping import RoomExportRequest
from jamcore.domain.retention import Blocker
from jamcore.testing.daemon import DaemonChild, running_daemon
from jamcore.testing.rooms import ask, managed, new_id, refused, running
from jamcore.testing.servers.responses import ResponsesServer, Script, say

pytestmark = [pytest.mark.anyio, pytest.mark.needs("bubblewrap", "codex"), pytest.mark.guarantee("WS-5")]

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
RULES = (*running("mkfifo pipe; echo mine > made.txt", said="Write"), say("Yes."))


@pytest.mark.guarantee("SEC-7", "WS-11", "WS-9")
async def test_a_live_room_is_exported(daemon: DaemonChild, app: Path) -> None:
    """Files and conversation, held still, verified; the same again changes nothing; the checkpoint in it cannot be removed."""
    async with ResponsesServer(Script(rules=RULES)) as model, running_daemon(daemon) as client:
        room = await client.create_room(managed("codex", model.base_url))
        ref = str(room.room.id)
        await ask(client, room, "Write")
        (app / layout.session_workspace(room.host.id, room.session.id) / "token.txt").write_text(SECRET[:40])
        request = RoomExportRequest(id=new_id())
        made = await client.exports.new(ref, request)
        assert made.manifest is not None
        assert (made.manifest.left_out.first, made.manifest.credentials.total) == (("pipe: a FIFO",), 1)
        assert made.export.verified_at is not None
        root = app / layout.export_root(request.id)
        assert made.path == str(root)
        assert (root / "workspace" / "made.txt").read_text() == "mine\n"
        assert made.manifest.checkpoint is not None
        assert [held.provider_identity for held in made.manifest.checkpoint.sessions] == [
            (await client.room(ref)).session.provider_identity
        ]
        checked = await to_thread.run_sync(
            lambda: subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=root, capture_output=True, check=False)
        )
        assert checked.returncode == 0, checked.stdout
        again = await client.exports.new(ref, request)
        assert again.export == made.export
        with refused("conflict.changed_record"):
            await client.exports.new(ref, request.model_copy(update={"leave_out": ("made.txt",)}))
        await ask(client, room, "And more")
        kept = {each.checkpoint.id: each.kept_because for each in await client.removals.standings(ref)}
        assert kept[made.manifest.checkpoint.checkpoint_id] is Blocker.REFERENCED
        assert [row.room for row in await client.exports.list(ref)] == [room.room.name]
        (root / "workspace" / "made.txt").write_text("yours\n")
        verdict = await client.exports.verify(str(request.id))
        assert (verdict.sound, verdict.total) == (False, 2)
        assert "workspace/made.txt" in verdict.named[0]
        with refused("export.damaged"):
            await client.exports.new(ref, request)


async def test_what_was_left_out_and_what_changed_is_said(daemon: DaemonChild, app: Path, model: ResponsesServer) -> None:
    """A parked room is exported; what cannot be kept is named and nothing is there, unless it may be left out."""
    async with running_daemon(daemon) as client:
        room = await client.create_room(managed("codex", model.base_url))
        ref = str(room.room.id)
        await client.stop(ref)
        tree = app / layout.session_workspace(room.host.id, room.session.id)
        (tree / "kept").write_text("k")
        deep = tree / "deep"
        for _ in range(140):
            deep /= "d"
        deep.mkdir(parents=True)
        with refused("export.refused") as caught:
            await client.exports.new(ref, RoomExportRequest(id=new_id()))
        assert "deep" in str(caught.value.context())
        assert not list((app / layout.EXPORTS).iterdir())
        made = await client.exports.new(ref, RoomExportRequest(id=new_id(), leave_out=("deep",)))
        assert made.manifest is not None
        assert made.manifest.left_out.total == 1
        assert made.manifest.checkpoint is None, "nothing was said yet, so there is no conversation"
