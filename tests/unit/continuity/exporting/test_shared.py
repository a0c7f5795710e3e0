"""One session of a shared host exports its own conversation, or is refused: a sibling's is never handed out with it (WS-5, SEC-7)."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jamcore.domain.checkpoint_exports import CheckpointExportRefusedError, CheckpointScope
from jamcore.domain.continuity import Activation, CaptureEntry, CaptureKind, CaptureList, ContinuityRefusedError
from jamcore.testing.databases import Conversation, host_databases
from tests.unit.continuity.exporting.carrying import asked, builder, carry, on_disk

if TYPE_CHECKING:
    from jamcore.domain.sessions import RuntimeSession
    from tests.unit.continuity.conftest import MakeWorld, World

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.guarantee("WS-5")]

ENTRIES = (
    CaptureEntry(pattern="home/sessions/**/*.jsonl", kind=CaptureKind.APPEND_ONLY),
    CaptureEntry(pattern="home/config/**", kind=CaptureKind.WHOLE),
)
TELLS = CaptureList(entries=ENTRIES, conversation_patterns=("home/sessions/**/*-{identity}.jsonl",))


class Shared:
    """A host with two conversations, what both use, and a log that is nobody's."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.other: RuntimeSession = world.add_session("thread-2")
        for name in ("day/one-thread-1", "day/two-thread-1", "one-thread-2", "left-thread-3"):
            world.write(f"home/sessions/{name}.jsonl", name.encode() * 9000)
        world.write("home/config/history", b"what both typed")


@pytest.fixture
async def shared(make_world: MakeWorld, tmp_path: Path) -> AsyncIterator[Shared]:
    async with make_world(tmp_path / "app", captures=TELLS) as world:
        yield Shared(world)


async def test_one_conversation_goes_alone(shared: Shared, make_world: MakeWorld, tmp_path: Path) -> None:
    """Its logs go along, in their directories, and nothing else; and it comes back from them."""
    world = shared.world
    carried = carry(world, await world.capture(), tmp_path / "export", frozenset({world.session.id}))
    files = on_disk(carried.directory / "files")
    day = b"home/sessions/day"
    assert sorted(files) == [b"home", b"home/sessions", day, day + b"/one-thread-1.jsonl", day + b"/two-thread-1.jsonl"]
    assert (carried.summary.scope, carried.summary.files, carried.summary.left_out) == (CheckpointScope.SESSIONS, 2, 3)
    assert [one.provider_identity for one in carried.summary.sessions] == ["thread-1"]
    assert b"thread-2" not in carried.listing.read_bytes()
    async with make_world(tmp_path / "there", captures=TELLS) as there:
        await builder(there).build(asked(there, carried))
        shutil.rmtree(there.state)
        decision = await there.inspect()
        assert decision.outcome is Activation.EXACT_RESUME
        await there.place(decision)
        assert {path: found[2] for path, found in on_disk(there.state).items()} == {path: found[2] for path, found in files.items()}


async def test_all_conversations_go_together(shared: Shared, tmp_path: Path) -> None:
    """Asked for each, or for the host, it is the whole state."""
    row = await shared.world.capture()
    each = carry(shared.world, row, tmp_path / "each", frozenset({shared.world.session.id, shared.other.id}))
    host = carry(shared.world, row, tmp_path / "host")
    assert each.summary == host.summary
    assert (host.summary.scope, host.summary.files) == (CheckpointScope.HOST, row.files)


async def test_a_provider_that_cannot_tell_exports_the_whole_host_or_nothing(shared: Shared, tmp_path: Path) -> None:
    """It is refused, and the caller decides; nothing goes along silently."""
    row = await shared.world.capture()
    shared.world.captures = CaptureList(entries=ENTRIES)
    with pytest.raises(CheckpointExportRefusedError, match="cannot tell"):
        carry(shared.world, row, tmp_path / "one", frozenset({shared.other.id}))
    assert carry(shared.world, row, tmp_path / "host").summary.scope is CheckpointScope.HOST


async def test_a_database_is_everybodys(make_world: MakeWorld, tmp_path: Path) -> None:
    """No conversation can be taken out of it, whatever the provider says of its files."""
    captures = TELLS.model_copy(update={"entries": (*ENTRIES, CaptureEntry(pattern="chat.db", kind=CaptureKind.DATABASE))})
    async with make_world(tmp_path / "app", captures=captures) as world:
        shared = Shared(world)
        Conversation(world.home / "chat.db").say("ours")
        row = await world.capture(databases=host_databases(world.home))
        with pytest.raises(CheckpointExportRefusedError, match=r"~/chat\.db"):
            carry(world, row, tmp_path / "one", frozenset({shared.other.id}))


@pytest.mark.parametrize("identity", ["*", "thread-?", "[a-z]*", "../config", ".."])
async def test_an_identity_stands_for_itself_alone(make_world: MakeWorld, tmp_path: Path, identity: str) -> None:
    """What a program calls its conversation cannot reach another's files."""
    async with make_world(tmp_path / "app", captures=TELLS) as world:
        shared = Shared(world)
        wild = world.add_session(identity)
        with pytest.raises(CheckpointExportRefusedError):
            carry(world, await world.capture(), tmp_path / "wild", frozenset({wild.id}))
        assert shared.world.log("one-thread-2.jsonl").exists()


async def test_a_file_that_could_be_two_conversations_is_refused_by_name(shared: Shared, tmp_path: Path) -> None:
    """Guessing would hand out a sibling's."""
    session = shared.world.add_session("1")
    with pytest.raises(CheckpointExportRefusedError, match=r"one-thread-1\.jsonl.*two conversations"):
        carry(shared.world, await shared.world.capture(), tmp_path / "one", frozenset({session.id}))


async def test_a_session_that_is_not_in_it_is_refused(shared: Shared, tmp_path: Path) -> None:
    """One that came later, one that never began, and one whose log is gone."""
    silent = shared.world.add_session(None)
    row = await shared.world.capture()
    later = shared.world.add_session("thread-3")
    for session in (silent, later):
        with pytest.raises(ContinuityRefusedError, match="session-not-captured"):
            carry(shared.world, row, tmp_path / str(session.id), frozenset({session.id}))
    lost = shared.world.add_session("thread-9")
    with pytest.raises(CheckpointExportRefusedError, match="no captured file"):
        carry(shared.world, await shared.world.capture(), tmp_path / "lost", frozenset({lost.id}))
