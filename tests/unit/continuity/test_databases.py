"""Databases in a generation: copied by the helper as a program of its own, stored page by page, compared and put back (CONT-5, CONT-10)."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from jamcore.continuity.databases.guest.place import OWN
from jamcore.continuity.generations.restoring import MARKER
from jamcore.continuity.resuming.activate import Placement
from jamcore.continuity.resuming.compare import RestoredOtherwiseError
from jamcore.continuity.resuming.databases import DatabaseActivator
from jamcore.domain.continuity import (
    Activation,
    ActivationPlan,
    CaptureEntry,
    CaptureKind,
    CaptureList,
    CaptureRefusedError,
    Checkpoint,
    ContinuityFailure,
    DatabaseBusyError,
    DatabaseHelperError,
    DatabaseRefusedError,
    EntryKind,
    ResumeSource,
    SecretInStateError,
)
from jamcore.domain.errors import InvalidInputError
from jamcore.testing.databases import Conversation, host_databases
from tests.unit.continuity.removing import Removals

if TYPE_CHECKING:
    from tests.unit.continuity.conftest import MakeWorld, World

DATABASE = ".local/share/chat/chat.db"
LOG = CaptureEntry(pattern="home/sessions/**/*.jsonl", kind=CaptureKind.APPEND_ONLY)
CAPTURES = CaptureList(entries=(LOG, CaptureEntry(pattern=DATABASE, kind=CaptureKind.DATABASE)))
PAGES_AND_MORE = 64 << 10
"""What a generation with one changed row may write: its pages, the index above them, and what every generation has."""


@dataclass(frozen=True)
class Chat:
    """A host whose provider keeps its conversation in a database."""

    world: World
    chat: Conversation

    async def capture(self, **more: Any) -> Checkpoint:
        """Make a generation."""
        return await self.world.capture(databases=host_databases(self.world.home), **more)

    async def place(self) -> Placement:
        """Place files, then databases, as a bring-up does."""
        world = self.world
        decision = await world.inspect()
        placement = await world.place(decision)
        checkpoint = decision.evidence.checkpoint_id
        assert checkpoint is not None
        activator = DatabaseActivator(world.generations, coordinators=world.coordinators, ids=world.ids)
        return await activator.place(
            placement,
            host=world.host.id,
            checkpoint=checkpoint,
            guest=host_databases(world.home),
            captures=world.captures,
            restore_files=lambda why: world.place(decision, why_not_live=why),
        )

    def lose(self) -> None:
        """Remove the database with everything beside it."""
        for path in self.chat.path.parent.iterdir():
            path.unlink()


@pytest.fixture
async def chat(make_world: MakeWorld, tmp_path: Path) -> AsyncIterator[Chat]:
    async with make_world(tmp_path / "app", captures=CAPTURES, plan=ActivationPlan()) as world:
        world.log().write_bytes(b"{}\n")
        made = Conversation(world.home / DATABASE)
        made.say("one")
        yield Chat(world, made)


@pytest.mark.guarantee("CONT-5")
async def test_a_database_comes_back_with_what_was_in_its_log_alone(chat: Chat) -> None:
    """What a program has committed and not yet moved into the database itself is in the copy."""
    with chat.chat.opened() as held:
        held.execute("INSERT INTO message (text) VALUES ('only in the log')")
        await chat.capture()
    chat.lose()
    placement = await chat.place()
    assert (placement.source, "it is not there" in placement.why_restored) == (ResumeSource.GENERATION, True)
    assert chat.chat.texts() == ["one", "only in the log"]


@pytest.mark.guarantee("CONT-5", "CONT-11")
async def test_a_live_database_that_is_the_captured_one_is_left_alone(chat: Chat) -> None:
    """Equal databases have equal copies, whatever lies in their logs."""
    await chat.capture()
    before = chat.chat.path.stat().st_ino
    assert (await chat.place()).source is ResumeSource.LIVE
    assert chat.chat.path.stat().st_ino == before


@pytest.mark.guarantee("CONT-5", "CONT-11")
async def test_a_live_database_that_went_on_is_replaced_with_the_files_of_the_same_moment(chat: Chat) -> None:
    """A database that changed proves nothing, and a generation is one moment."""
    await chat.capture()
    with chat.chat.opened() as held:
        held.execute("INSERT INTO message (text) VALUES ('never captured')")
        chat.world.log().write_bytes(b"{}\nlater\n")
        placement = await chat.place()
    assert (placement.source, placement.why_restored) == (ResumeSource.GENERATION, f"~/{DATABASE} is not what was captured")
    assert (chat.chat.texts(), chat.world.log().read_bytes()) == (["one"], b"{}\n")
    kept = sorted(path.name.partition("-")[2] for path in chat.world.home.rglob("replaced/*/*"))
    assert kept == ["chat.db", "chat.db-shm", "chat.db-wal"]


@pytest.mark.guarantee("CONT-5")
async def test_restored_twice_it_is_the_same(chat: Chat) -> None:
    """A restored database is taken for what it is, and the next checkpoint writes nothing of it."""
    await chat.capture()
    chat.lose()
    await chat.place()
    assert (await chat.place()).source is ResumeSource.LIVE
    assert (await chat.capture()).bytes_written < 2000
    assert list((chat.world.home / OWN.decode() / "staged").iterdir()) == []


@pytest.mark.guarantee("CONT-1", "CONT-5", "CONT-11")
@pytest.mark.parametrize("captured", [0, 1], ids=["it has none", "it has one"])
async def test_a_restore_that_was_cut_before_the_databases_is_done_again(
    make_world: MakeWorld, tmp_path: Path, captured: int
) -> None:
    """Files of one moment are never used beside a database of a later one, also where the generation does not know that database."""
    captures = CaptureList(entries=(LOG, CaptureEntry(pattern="chats/*.db", kind=CaptureKind.DATABASE)))
    async with make_world(tmp_path / "app", captures=captures, plan=ActivationPlan()) as world:
        world.log().write_bytes(b"{}\n")
        for number in range(captured):
            Conversation(world.home / "chats" / f"{number}.db")
        chat = Chat(world, Conversation(tmp_path / "unused.db"))
        await chat.capture()
        later = world.home / "chats" / "later.db"
        Conversation(later)
        world.log().write_bytes(b"other\n")
        assert (await world.place()).source is ResumeSource.GENERATION
        world.restart()  # killed before any database was looked at
        with pytest.raises(CaptureRefusedError, match="interrupted"):
            await chat.capture()
        placement = await chat.place()
        assert (placement.source, placement.why_restored) == (ResumeSource.GENERATION, "a restore was interrupted")
        assert not later.exists()
        assert (await chat.place()).source is ResumeSource.LIVE
        await chat.capture()


@pytest.mark.guarantee("CONT-5")
async def test_a_directory_in_the_place_of_a_database_is_set_aside_as_often_as_it_comes(chat: Chat) -> None:
    """It is kept for as long as other replaced ones are; that it goes then, or cannot, keeps no conversation from coming back."""
    await chat.capture()
    replaced = chat.world.home / OWN.decode() / "replaced"
    for number in range(5):
        chat.lose()
        (chat.chat.path / "below" / str(number)).mkdir(parents=True)
        await chat.place()
        assert chat.chat.texts() == ["one"]
        (replaced / "0").touch()
    assert len([path for path in replaced.iterdir() if path.is_dir()]) == 3


@pytest.mark.guarantee("CONT-5", "CONT-11")
async def test_nothing_that_was_replaced_goes_before_the_restore_is_proven(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore after which the databases are still other ones leaves every earlier one, and the marker; the next one thins out."""
    await chat.capture()
    replaced = chat.world.home / OWN.decode() / "replaced"
    for number in range(3):
        chat.chat.say(f"never captured {number}")
        await chat.place()
    first = sorted(path.name for path in replaced.iterdir())

    async def differs(*_arguments: object) -> str:
        return f"~/{DATABASE} is not what was captured"

    chat.chat.say("never captured 3")
    with monkeypatch.context() as disturbed:
        disturbed.setattr("jamcore.continuity.resuming.databases.differs", differs)
        with pytest.raises(RestoredOtherwiseError):
            await chat.place()
    assert len(first) == 3
    assert sorted(path.name for path in replaced.iterdir())[:3] == first
    assert (chat.world.recovery / MARKER).exists()
    chat.chat.say("never captured 4")
    await chat.place()
    assert len(list(replaced.iterdir())) == 3
    assert not (chat.world.recovery / MARKER).exists()


@pytest.mark.guarantee("CONT-5")
async def test_the_newest_replaced_databases_are_kept_though_the_clock_was_set_back(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which restore came last is told by their order; what a guest put beside them decides nothing."""
    await chat.capture()
    replaced = chat.world.home / OWN.decode() / "replaced"
    replaced.mkdir(parents=True)
    (replaced / ("z" * 36)).touch()
    for number in range(5):
        early = UUID(int=(1000 - number) << 80 | 7 << 76 | 2 << 62)
        monkeypatch.setattr(chat.world.ids, "uuid", lambda early=early: early)
        chat.chat.say(f"never captured {number}")
        await chat.place()
        (replaced / ("z" * 36)).touch()
    kept = [Conversation(path).texts()[-1] for path in sorted(replaced.rglob("*-chat.db"))]
    assert kept == ["never captured 3", "never captured 4"]


@pytest.mark.guarantee("CONT-5")
async def test_a_directory_that_a_star_finds_is_no_database(make_world: MakeWorld, tmp_path: Path) -> None:
    """It is not captured, so a restore leaves it where it is."""
    captures = CaptureList(entries=(CaptureEntry(pattern="chats/*", kind=CaptureKind.DATABASE),))
    async with make_world(tmp_path / "app", captures=captures, plan=ActivationPlan()) as world:
        chat = Chat(world, Conversation(world.home / "chats" / "one.db"))
        (world.home / "chats" / "pictures").mkdir()
        await chat.capture()
        chat.chat.say("more")
        assert (await chat.place()).source is ResumeSource.GENERATION
        assert sorted(path.name for path in chat.chat.path.parent.iterdir()) == ["one.db", "pictures"]


@pytest.mark.guarantee("CONT-10")
@pytest.mark.parametrize("page", [512, 4096, 65536])
async def test_a_changed_row_costs_its_pages(make_world: MakeWorld, tmp_path: Path, page: int) -> None:
    """Pages that did not change are in earlier packs, and so is the index above them."""
    async with make_world(tmp_path / "app", captures=CAPTURES, plan=ActivationPlan()) as world:
        chat = Chat(world, Conversation(world.home / DATABASE, page=page))
        chat.chat.fill(2 << 20)
        first = await chat.capture()
        chat.chat.change_one()
        second = await chat.capture()
        assert first.bytes_written > 1 << 20
        assert second.bytes_written < page + PAGES_AND_MORE
        assert second.bytes_total >= 2 << 20


@pytest.mark.guarantee("WS-9", "CONT-5")
async def test_pages_that_a_later_checkpoint_needs_survive_the_removal_of_earlier_ones(chat: Chat) -> None:
    """What shares a database's pages with a checkpoint that goes still comes back from what is left."""
    chat.chat.fill(1 << 20)
    first = await chat.capture()
    for text in ("two", "three"):
        chat.chat.say(text)
        await chat.capture()
    removals = Removals(chat.world)
    await removals.remove(first)
    chat.world.restart()
    chat.lose()
    assert (await chat.place()).source is ResumeSource.GENERATION
    assert (await chat.place()).source is ResumeSource.LIVE


@pytest.mark.guarantee("CONT-1", "CONT-5")
async def test_a_damaged_page_of_the_generation_is_found_before_anything_starts(chat: Chat) -> None:
    """The pages of a database are verified with everything else, and the database is named."""
    chat.chat.fill(1 << 20)
    await chat.capture()
    (pack,) = chat.world.packs
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 1
    pack.write_bytes(data)
    chat.world.restart()
    decision = await chat.world.inspect()
    assert (decision.outcome, decision.failure) == (Activation.REFUSE_NO_CHECKPOINT, ContinuityFailure.CORRUPT)
    assert f"~/{DATABASE}" in decision.evidence.problem


@pytest.mark.guarantee("CONT-5")
async def test_a_damaged_database_is_refused_by_path(chat: Chat) -> None:
    """It is checked before it is published."""
    chat.chat.fill(1 << 20)
    with closing(sqlite3.connect(chat.chat.path)) as held:
        held.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with chat.chat.path.open("r+b") as stream:
        stream.seek(20 * 4096)
        stream.write(b"\xff" * 4096)
    with pytest.raises(DatabaseRefusedError, match=r"chat\.db.*damaged"):
        await chat.capture()
    assert chat.world.packs == []


@pytest.mark.guarantee("CONT-5")
async def test_a_database_that_is_declared_exactly_must_be_there(chat: Chat) -> None:
    """A generation without what a resume needs would read as safe."""
    chat.lose()
    with pytest.raises(DatabaseRefusedError, match="it is not there"):
        await chat.capture()


@pytest.mark.guarantee("CONT-1", "CONT-5")
async def test_a_database_that_a_generation_has_may_not_vanish_from_the_next(make_world: MakeWorld, tmp_path: Path) -> None:
    """Also one that only a star finds: what read as safe must stay so."""
    captures = CaptureList(entries=(CaptureEntry(pattern="chats/*.db", kind=CaptureKind.DATABASE),))
    async with make_world(tmp_path / "app", captures=captures, plan=ActivationPlan()) as world:
        chat = Chat(world, Conversation(world.home / "chats" / "one.db"))
        (world.home / "chats" / "empty.db").touch()
        await chat.capture()
        chat.lose()
        with pytest.raises(DatabaseRefusedError, match="the last checkpoint holds it"):
            await chat.capture()


@pytest.mark.guarantee("CONT-5")
async def test_a_locked_database_is_tried_again_and_then_named(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next attempts come after pauses, since a guest that stands still unlocks nothing."""
    monkeypatch.setattr("jamcore.continuity.databases.capture.LOCKED_S", 0.0)
    monkeypatch.setattr("jamcore.continuity.capturing.broker.LOCKED_PAUSE_S", 0.0)
    with closing(sqlite3.connect(chat.chat.path, isolation_level=None)) as held:
        held.execute("PRAGMA journal_mode=DELETE")
        held.execute("BEGIN EXCLUSIVE")
        with pytest.raises(DatabaseBusyError, match="locked"):
            await chat.capture()
        held.execute("COMMIT")
    assert (await chat.capture()).files == 2


@pytest.mark.guarantee("SEC-7")
async def test_a_credential_in_a_database_refuses_the_checkpoint(chat: Chat) -> None:
    """Pages are looked through as files are."""
    chat.chat.say("the key is ghp_" + "A1b2" * 9)
    with pytest.raises(SecretInStateError, match=r"chat\.db"):
        await chat.capture()


@pytest.mark.guarantee("CONT-4")
async def test_people_see_databases_in_a_generation(chat: Chat) -> None:
    """They are listed below the guest's home, and verified and compared with everything else."""
    from jamcore.continuity.generations.looking import Look, differing, shown

    one = await chat.capture()
    chat.chat.say("two")
    two = await chat.capture()
    look = Look(chat.world.generations)
    old, new = (look.entries(chat.world.host.id, each.id) for each in (one, two))
    _, (changed,), _ = differing(old, new)
    seen = shown(changed, new[changed])
    assert (seen.path, seen.kind, seen.bytes) == (f"~/{DATABASE}", EntryKind.DATABASE, 8192)
    assert look.verify(chat.world.host.id, two.id).files == 2


@pytest.mark.guarantee("CONT-3")
async def test_a_pattern_for_databases_has_a_bound(chat: Chat) -> None:
    """Two stars would have the whole home walked while the guest stands still."""
    endless = CaptureList(entries=(CaptureEntry(pattern="**/*.db", kind=CaptureKind.DATABASE),))
    with pytest.raises(InvalidInputError, match="known depth"):
        await chat.world.broker.capture(
            chat.world.host,
            reason=(await chat.capture()).reason,
            state_root=chat.world.state,
            capture_list=endless,
            provider_version="1",
        )


@pytest.mark.guarantee("CONT-5")
async def test_without_a_way_into_the_guest_nothing_is_published(chat: Chat) -> None:
    """A generation that silently lacked the databases would read as safe."""
    with pytest.raises(DatabaseHelperError, match="nothing can be started"):
        await chat.world.capture()
    assert chat.world.packs == []
