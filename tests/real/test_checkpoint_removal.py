"""A person frees the bytes of old checkpoints of a room with the real program's state in them (WS-9)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from anyio import to_thread

from jamcore.cli.exits import Exit
from jamcore.cli.words import exact_size
from jamcore.domain import layout
from jamcore.domain.retention import RemovalQuestion, RemovalRequest
from jamcore.domain.sessions import TurnState
from jamcore.testing.daemon import DaemonChild, running_daemon
from jamcore.testing.jam_program import Done, program
from jamcore.testing.rooms import ask, managed, new_id, refused
from jamcore.testing.servers.history import UserText, conversation
from jamcore.testing.servers.responses import ResponsesServer

pytestmark = [pytest.mark.anyio, pytest.mark.needs("bubblewrap", "codex"), pytest.mark.guarantee("WS-9")]


async def test_old_checkpoints_go_and_the_conversation_stays(
    daemon: DaemonChild, app: Path, tmp_path: Path, model: ResponsesServer
) -> None:
    """Shown, confirmed and removed by ``jam`` while the room is live; another daemon then restores the exact conversation."""

    async def jam(*words: str) -> Done:
        private = {"XDG_RUNTIME_DIR": str(tmp_path / "private"), "TMPDIR": str(tmp_path / "private")}
        return await to_thread.run_sync(lambda: program(app, *words, env=private))

    async with running_daemon(daemon) as client:
        room = await client.create_room(managed("codex", model.base_url))
        ref = str(room.room.id)
        for number in range(3):
            await ask(client, room, f"Say {number}")
        packs = app / layout.packs(room.host.id)
        rows = await client.checkpoints(ref)
        assert len(rows) >= 4
        with refused("continuity.removal_refused"):
            await client.removals.remove(RemovalRequest(id=new_id(), checkpoints=(str(rows[0].id),), confirmed="a" * 64))
        plan = await client.removals.plan(RemovalQuestion(checkpoints=tuple(str(row.id) for row in rows[1:])))
        before = _size(packs)
        shown = await jam("checkpoint", "rm", "--room", ref)
        freed = exact_size(plan.evidence.bytes_freed)
        assert f"{freed} would be freed" in shown.out
        done = await jam("checkpoint", "rm", "--room", ref, "--confirm", plan.digest)
        assert (done.status, done.out) == (Exit.OK, f"{len(rows) - 1} removed, {freed} freed\n")
        assert before - _size(packs) == plan.evidence.bytes_freed
        assert (await client.verify_checkpoint(str(rows[0].id))).sound
        gone = await jam("checkpoint", "verify", str(rows[1].id))
        assert (gone.status, "payload removed on" in gone.out) == (Exit.NOT_WELL, True)
        assert (await jam("checkpoint", "ls", ref)).out.count("payload removed on") == len(rows) - 1
        with refused("continuity.payload_removed"):
            await client.diff_checkpoints(str(rows[1].id), str(rows[0].id))
        assert (await ask(client, room, "And then?")).state is TurnState.CAPTURED
    state = app / layout.provider_state(room.host.id, "codex")
    for log in state.rglob("*.jsonl"):
        log.unlink()
    async with running_daemon(daemon) as client:
        assert (await ask(client, room, "And now?")).state is TurnState.CAPTURED
    heard = conversation(model.model_requests[-1].body)
    assert [item.text for item in heard if isinstance(item, UserText)] == ["Say 0", "Say 1", "Say 2", "And then?", "And now?"]


def _size(packs: Path) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(packs))
