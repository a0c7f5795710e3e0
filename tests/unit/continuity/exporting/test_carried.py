"""A checkpoint goes into an export and comes back on another host, in another app directory, to the byte (WS-5, WS-6, CONT-1)."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest
from hypothesis import given, settings

from jamcore.continuity.exporting.building import origin_of
from jamcore.continuity.resuming.databases import DatabaseActivator
from jamcore.domain.checkpoint_exports import CheckpointScope, unspelled
from jamcore.domain.continuity import (
    Activation,
    ActivationPlan,
    CaptureEntry,
    CaptureKind,
    CaptureList,
    Checkpoint,
    CheckpointReason,
    ResumeSource,
)
from jamcore.domain.errors import ConflictError
from jamcore.domain.sessions import TurnState
from jamcore.testing.databases import Conversation, host_databases
from tests.unit.continuity.exporting.carrying import Carried, asked, builder, carry, on_disk, seats
from tests.unit.continuity.test_round_trip import ALL, build, trees

if TYPE_CHECKING:
    from tests.unit.continuity.conftest import MakeWorld, World

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

DATABASE = ".local/share/chat/chat.db"
CHAT = CaptureList(
    entries=(
        CaptureEntry(pattern="home/sessions/**/*.jsonl", kind=CaptureKind.APPEND_ONLY),
        CaptureEntry(pattern=DATABASE, kind=CaptureKind.DATABASE),
    )
)


def fill(world: World) -> None:
    """Give the provider some state: logs of several blocks, an empty file, a link that leads nowhere, a hole, odd modes and names."""
    world.log().write_bytes(b"".join(b'{"line": %d}\n' % number for number in range(6000)))
    world.log("old/b.jsonl").parent.mkdir()
    world.log("old/b.jsonl").write_bytes(b"{}\n")
    world.write("home/config/empty", b"").chmod(0o640)
    world.write("home/config/run", b"#!/bin/sh\n").chmod(0o755)
    os.truncate(world.write("home/config/holes", b"x"), 200_000)
    (world.state / "home/config/link").symlink_to("/nowhere/at/all")
    (Path(os.fsdecode(os.fsencode(world.state / "home/config") + b"/\xff\nname"))).write_bytes(b"raw")
    os.utime(world.state / "home/config", ns=(1, 1_000_000_000_123_456_789))


async def come_back(world: World) -> None:
    """Resume on the new host, which has no live state."""
    shutil.rmtree(world.state)
    decision = await world.inspect()
    assert decision.outcome is Activation.EXACT_RESUME
    assert (await world.place(decision)).source is ResumeSource.GENERATION


@pytest.mark.guarantee("WS-5", "WS-6", "CONT-1", "CONT-4")
async def test_another_host_resumes_from_the_same_bytes(make_world: MakeWorld, tmp_path: Path) -> None:
    """Content, links, names, modes and times are those that were captured; and the new host goes on from there."""
    async with make_world(tmp_path / "here") as here, make_world(tmp_path / "there") as there:
        fill(here)
        row = await here.capture()
        shutil.copytree(carry(here, row, tmp_path / "export").directory, tmp_path / "moved", symlinks=True)
        carried = Carried(tmp_path / "moved", carry(here, row, tmp_path / "again").summary)
        shutil.rmtree(here.app / "runtime-hosts" / str(here.host.id) / "recovery")
        assert await builder(there).inspect(carried.directory, captures=there.captures) == carried.summary
        made = await builder(there).build(asked(there, carried))
        assert (made.reason, made.files, made.bytes_total) == (CheckpointReason.FROM_EXPORT, row.files, row.bytes_total)
        there.restart()
        await come_back(there)
        assert on_disk(there.state) == on_disk(here.state)
        with there.log().open("ab") as stream:
            stream.write(b"{}\n")
        assert (await there.place()).source is ResumeSource.LIVE
        assert (await there.capture()).generation == made.generation + 1


@pytest.mark.guarantee("WS-5", "SEC-7")
async def test_the_files_are_plain_and_private(world: World, tmp_path: Path) -> None:
    """Whoever has the export reads them with any program; nobody else on the machine does."""
    fill(world)
    carried = carry(world, await world.capture(), tmp_path / "export")
    state, files = on_disk(world.state, private=True), on_disk(carried.directory / "files", private=True)
    assert state.pop(b"home/config/link")[2] == b"/nowhere/at/all"
    assert files == state
    assert carried.entry(carried.read(), "home/config/link")["target"] == "/nowhere/at/all"
    modes = {path.lstat().st_mode for path in carried.directory.rglob("*")}
    assert modes == {stat.S_IFREG | 0o600, stat.S_IFDIR | 0o700}
    assert sorted(path.name for path in carried.directory.iterdir()) == ["checkpoint.json", "files"]
    assert (carried.directory / "files/home/config/holes").stat().st_blocks < 200


@pytest.mark.guarantee("WS-5")
async def test_equal_checkpoints_make_equal_exports(world: World, tmp_path: Path) -> None:
    """Made twice it is the same, to the byte."""
    fill(world)
    row = await world.capture()
    one, two = carry(world, row, tmp_path / "one"), carry(world, row, tmp_path / "two")
    assert (one.summary, on_disk(one.directory / "files")) == (two.summary, on_disk(two.directory / "files"))
    assert one.listing.read_bytes() == two.listing.read_bytes()


@pytest.mark.guarantee("WS-13", "WS-5", "CONT-1")
@settings(max_examples=10, deadline=None)
@given(tree=trees)
def test_any_captured_tree_comes_back_elsewhere(make_world: MakeWorld, tree: dict[bytes, object]) -> None:
    """Whatever names, links, modes and directories were captured."""
    with tempfile.TemporaryDirectory() as directory:
        anyio.run(_any_tree, make_world, Path(directory), tree)


async def _any_tree(make_world: MakeWorld, directory: Path, tree: dict[bytes, object]) -> None:
    bare = ActivationPlan()
    async with (
        make_world(directory / "here", captures=ALL, plan=bare) as here,
        make_world(directory / "there", captures=ALL, plan=bare) as there,
    ):
        (here.state / "home/sessions").rmdir()
        (here.state / "home").rmdir()
        build(os.fsencode(here.state), tree)
        carried = carry(here, await here.capture(), directory / "export")
        await builder(there).build(asked(there, carried))
        shutil.rmtree(there.state)
        await there.place()
        kept = {unspelled(entry["path"]) for entry in carried.read()["entries"]}  # locks are not captured
        assert on_disk(there.state) == {path: found for path, found in on_disk(here.state).items() if path in kept}


@pytest.mark.guarantee("WS-5", "WS-6", "CONT-5")
async def test_a_conversation_in_a_database_comes_back(make_world: MakeWorld, tmp_path: Path) -> None:
    """It lies in the export as a whole database, which any program opens, and on the new guest's disk before anything starts."""
    bare = ActivationPlan()
    async with (
        make_world(tmp_path / "here", captures=CHAT, plan=bare) as here,
        make_world(tmp_path / "there", captures=CHAT, plan=bare) as there,
    ):
        here.log().write_bytes(b"{}\n")
        chat = Conversation(here.home / DATABASE)
        chat.fill(1 << 20)
        with chat.opened() as held:
            held.execute("INSERT INTO message (text) VALUES ('only in the log')")
            row = await here.capture(databases=host_databases(here.home))
        carried = carry(here, row, tmp_path / "export")
        shutil.copy(carried.directory / "databases" / DATABASE, tmp_path / "chat.db")
        assert Conversation(tmp_path / "chat.db").texts()[-1] == "only in the log"
        await builder(there).build(asked(there, carried))
        there.restart()
        decision = await there.inspect()
        assert decision.outcome is Activation.EXACT_RESUME
        assert decision.evidence.checkpoint_id is not None
        guest = host_databases(there.home)
        placed = await DatabaseActivator(there.generations, coordinators=there.coordinators, ids=there.ids).place(
            await there.place(decision),
            host=there.host.id,
            checkpoint=decision.evidence.checkpoint_id,
            guest=guest,
            captures=CHAT,
            restore_files=lambda why: there.place(decision, why_not_live=why),
        )
        assert placed.source is ResumeSource.GENERATION
        assert Conversation(there.home / DATABASE).texts() == chat.texts()
        assert (await there.capture(databases=guest)).bytes_written < 3000, "the same pages are in it already"


@pytest.mark.guarantee("CONT-1", "CONT-3")
async def test_the_new_session_is_bound_to_the_conversation(make_world: MakeWorld, tmp_path: Path) -> None:
    """A session that had none has the export's identity before the generation is there, and what it was made from is kept beside."""
    async with make_world(tmp_path / "here") as here, make_world(tmp_path / "there") as there:
        second = here.add_session("thread-2")
        turn = here.add_turn(second, TurnState.COMPLETED)
        fill(here)
        carried = carry(here, await here.capture(), tmp_path / "export")
        assert [one.last_turn_id for one in carried.summary.sessions] == [None, turn]
        wanted = asked(there, carried)
        made = await builder(there).build(wanted)
        new = wanted.sessions[second.id].session_id
        bound = there.store.now(lambda repos: repos.sessions.get(new))
        assert bound.provider_identity == "thread-2"
        assert (await there.inspect(bound)).outcome is Activation.EXACT_RESUME
        assert {(one.session_id, one.provider_identity, one.last_turn_id) for one in made.sessions} == {
            (there.session.id, "thread-1", None),
            (new, "thread-2", None),
        }
        origin = origin_of(there.generations, there.host.id, made.id)
        assert origin is not None
        assert (origin.checkpoint.host_id, origin.checkpoint.checkpoint_id) == (here.host.id, carried.summary.checkpoint_id)
        assert set(origin.sessions) == {(here.session.id, there.session.id), (second.id, new)}


@pytest.mark.guarantee("WS-6")
async def test_a_host_gets_its_own_conversation_back(world: World, tmp_path: Path) -> None:
    """Restored where it came from, under the same ids, it is the newest checkpoint, and what was captured stays so."""
    fill(world)
    turn = world.add_turn(world.session, TurnState.COMPLETED)
    row = await world.capture()
    carried = carry(world, row, tmp_path / "export")
    before = on_disk(world.state)
    shutil.rmtree(world.recovery)
    made = await builder(world).build(asked(world, carried))
    world.restart()
    await come_back(world)
    assert (made.generation, on_disk(world.state)) == (row.generation + 1, before)
    assert world.store.turns[turn].checkpoint_id == row.id


@pytest.mark.guarantee("WS-11", "CONT-4")
async def test_an_exact_retry_changes_nothing_and_a_changed_one_is_refused(make_world: MakeWorld, tmp_path: Path) -> None:
    """Also by a process that has just started, and when the export is gone meanwhile."""
    async with make_world(tmp_path / "here") as here, make_world(tmp_path / "there") as there:
        fill(here)
        carried = carry(here, await here.capture(), tmp_path / "export")
        wanted = asked(there, carried)
        made = await builder(there).build(wanted)
        shutil.rmtree(carried.directory)
        there.restart()
        before = on_disk(there.recovery)
        assert await builder(there).build(wanted) == made
        assert (on_disk(there.recovery), list(there.store.checkpoints)) == (before, [made.id])
        with here.log().open("ab") as stream:
            stream.write(b"{}\n")
        other = carry(here, await here.capture(), tmp_path / "other")
        with pytest.raises(ConflictError, match="made from something else"):
            await builder(there).build(asked(there, other, wanted.sessions, checkpoint_id=made.id))
        await come_back(there)
        captured = await there.capture()
        with pytest.raises(ConflictError, match="made from something else"):
            await builder(there).build(asked(there, other, checkpoint_id=captured.id))
        assert len(there.packs) == 2


@pytest.mark.guarantee("CONT-3")
async def test_seats_are_held_against_the_store(make_world: MakeWorld, tmp_path: Path) -> None:
    """No conversation is lost, taken twice, or given to a session that has another; and nothing is written."""
    async with make_world(tmp_path / "here") as here, make_world(tmp_path / "there") as there:
        second = here.add_session("thread-2")
        fill(here)
        carried = carry(here, await here.capture(), tmp_path / "export")
        fitting = seats(there, carried)
        elsewhere = {**fitting, second.id: seats(here, carried)[second.id]}
        twice = {**fitting, second.id: fitting[here.session.id]}
        swapped = dict(zip(fitting, reversed(fitting.values()), strict=True))
        missing = {old: seat for old, seat in fitting.items() if old != second.id}
        for wrong in (elsewhere, twice, swapped, missing):
            with pytest.raises(ConflictError):
                await builder(there).build(asked(there, carried, wrong))
        there.add_session("a third conversation")
        with pytest.raises(ConflictError, match="not the export's"):
            await builder(there).build(asked(there, carried, fitting))
        assert (there.packs, there.store.checkpoints) == ([], {})


@pytest.mark.guarantee("WS-5")
async def test_a_dedicated_host_is_exported_whole(world: World, tmp_path: Path) -> None:
    """With one conversation there is nothing to tell apart; a session that never began one does not count."""
    world.add_session(None)
    fill(world)
    row: Checkpoint = await world.capture()
    carried = carry(world, row, tmp_path / "export", frozenset({world.session.id}))
    assert (carried.summary.scope, carried.summary.files, carried.summary.left_out) == (CheckpointScope.HOST, row.files, 0)
    assert [one.session_id for one in carried.summary.sessions] == [world.session.id]
