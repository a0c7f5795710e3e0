"""Codex with a real account, on whichever engine: stock Codex in both topologies, and back after anything (LIVE-2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from jamcore.testing.live_rooms import Placement, Words, live_jam, turn_and_exact_resume

pytestmark = [
    pytest.mark.live("JAM_LIVE_CODEX"),
    pytest.mark.needs("provider:codex", "account:codex", "engine:any"),
    pytest.mark.anyio,
    pytest.mark.timeout(3600),
]

ONE, TWO, THREE = Words("quetzal-7731", "ocelot-2290"), Words("marmot-4418", "heron-5527"), Words("tapir-9032", "lynx-6614")


async def test_a_turn_and_exact_resume_with_the_real_account(tmp_path: Path) -> None:
    """A turn changes a file, everything is killed, and the same thread answers from the conversation alone."""
    await turn_and_exact_resume(tmp_path, "codex")


async def test_stock_codex_in_shared_and_dedicated_topology(tmp_path: Path) -> None:
    """The pinned program as its vendor built it: one room alone, two that share a sandbox, each its own thread before and after a kill."""
    async with live_jam(tmp_path, "codex") as jam:
        alone = await jam.open()
        shared = [await jam.open(placement=Placement.SHARED) for _ in range(2)]
        assert shared[0].host.id == shared[1].host.id != alone.host.id
        rooms = dict(zip((ONE, TWO, THREE), (alone, *shared), strict=True))
        for words, room in rooms.items():
            await jam.tell(room, words)
        await jam.killed()
        for words, room in rooms.items():
            await jam.resume(room)
            await jam.require_recall(room, words, *(other for other in rooms if other != words))


async def test_a_dedicated_room_resumes_after_its_sandbox_was_made_anew(tmp_path: Path) -> None:
    """The engine removes the sandbox behind Jam's back: a new one is made, and in it the exact conversation goes on."""
    async with live_jam(tmp_path, "codex") as jam:
        room = await jam.open()
        await jam.tell(room, ONE)
        await jam.client.stop(str(room.room.id))
        await jam.remove_sandbox(room)
        await jam.resume(room)
        await jam.require_recall(room, ONE)
        assert f"+{ONE.written}\n" in await jam.patch(room)
