"""A person looks at the checkpoints of a room with the real program's state in them (CONT-4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.testing.rooms import ask, managed, refused
from jamcore.testing.servers.responses import ResponsesServer

pytestmark = [pytest.mark.anyio, pytest.mark.needs("bubblewrap", "codex"), pytest.mark.guarantee("CONT-4")]


async def test_listed_shown_compared_and_verified(client: JamClient, app: Path, model: ResponsesServer) -> None:
    """Newest first; the thread's log is there and grows from one to the next; a damaged pack is named; another room's is no pair."""
    room = await client.create_room(managed("codex", model.base_url))
    ref = str(room.room.id)
    await ask(client, room, "Write the file")
    await ask(client, room, "and then")
    newest, older, *_ = await client.checkpoints(ref)
    assert newest.generation == older.generation + 1
    view = await client.checkpoint(str(newest.id))
    assert view.entries_total == len(view.entries)
    logs = [entry.path for entry in view.entries if entry.path.endswith(".jsonl")]
    assert len(logs) == 1
    diff = await client.diff_checkpoints(str(older.id), str(newest.id))
    assert logs[0] in [entry.path for entry in diff.changed]
    assert not diff.removed
    assert (await client.verify_checkpoint(str(newest.id))).sound

    other = await client.create_room(managed("codex", model.base_url))
    await ask(client, other, "hello")
    theirs = (await client.checkpoints(str(other.room.id)))[0]
    with refused("continuity.checkpoints_apart") as apart:
        await client.diff_checkpoints(str(theirs.id), str(newest.id))
    assert apart.value.context()["problem"] == "they are of different rooms"

    pack = app / layout.packs(room.host.id) / f"{newest.id}.pack"
    data = bytearray(pack.read_bytes())
    data[-1] ^= 1
    pack.write_bytes(data)
    verdict = await client.verify_checkpoint(str(newest.id))
    assert not verdict.sound
    assert verdict.problem
    assert (await client.verify_checkpoint(str(older.id))).sound
    kept = {each.checkpoint.id: each.kept_because for each in await client.removals.standings(ref)}
    assert (kept[newest.id], kept[older.id]) == ("corrupt", None), "what a whole reading showed is listed"
    with refused("input.not_found"):
        await client.checkpoint("01234567-0000-7000-8000-000000000000")
