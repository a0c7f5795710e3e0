"""A new conversation is begun on a host that holds others: their state is put in place first, databases with it (CONT-1, CONT-5)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from jamcore.continuity.coordinator import Coordinators
from jamcore.continuity.generations.looking import Look
from jamcore.continuity.generations.publish import Generations
from jamcore.continuity.resuming.databases import DatabaseActivator
from jamcore.domain import layout
from jamcore.domain.continuity import (
    CaptureEntry,
    CaptureKind,
    CaptureList,
    CheckpointReason,
    ContinuityRefusedError,
    ObservationOutcome,
)
from jamcore.runtime.seat import Seat
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds
from jamcore.testing.databases import Conversation, host_databases

if TYPE_CHECKING:
    from pathlib import Path

    from jamcore.runtime.continuity import HostContinuity
    from tests.unit.resets.conftest import Life, Stage

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

DATABASE = CaptureEntry(pattern="chat.db", kind=CaptureKind.DATABASE)


class Declares:
    """A provider's hooks, with a database declared besides."""

    def __init__(self, hooks: Any) -> None:  # noqa: ANN401 - everything else is theirs
        self._hooks = hooks

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - everything else is theirs
        return getattr(self._hooks, name)

    async def declare_capture(self) -> CaptureList:
        """Declare."""
        theirs = await self._hooks.declare_capture()
        return cast("CaptureList", theirs.model_copy(update={"entries": (*theirs.entries, DATABASE)}))


def with_database(stage: Stage, life: Life, home: Path) -> HostContinuity:
    """Return a host's continuity as a worker makes it for such a provider."""
    continuity = life.continuity(stage.host)
    continuity.hooks = cast("Any", Declares(continuity.hooks))
    generations = Generations(stage.world.app, files=Files())
    activator = DatabaseActivator(generations, coordinators=Coordinators(), ids=SystemIds())
    continuity.databases = cast("Any", SimpleNamespace(guest=host_databases(home), activator=activator, let_wake=lambda: None))
    return continuity


async def new_one(stage: Stage, life: Life) -> Seat:
    """Return the second room's seat, as one whose conversation is not begun."""
    made = stage.rooms[1]
    session = await life.store.read(lambda repos: repos.sessions.get(made.session.id))
    unbound = session.model_copy(update={"provider_identity": None})
    return Seat(session=unbound, workspace=made.workspace, room_id=made.room.id, room_name=made.room.name)


@pytest.mark.guarantee("CONT-1", "CONT-5", "CONT-11")
async def test_a_database_that_lost_others_conversations_is_restored_before_a_new_one_is_begun(
    stage: Stage, tmp_path: Path
) -> None:
    """Otherwise the new one's first checkpoint would be the newest, without what read as safe."""
    await stage.make(rooms=2)
    chat = Conversation(tmp_path / "home" / "chat.db")
    chat.say("captured")
    async with stage.living() as life:
        await with_database(stage, life, tmp_path / "home").capture(CheckpointReason.AFTER_TURN)
        chat.path.unlink()
        Conversation(chat.path)
        seat = await new_one(stage, life)
        coming_up = with_database(stage, life, tmp_path / "home")
        await coming_up.activate(seat)
        assert seat.session.id not in coming_up.expectations, "it begins afresh itself"
        assert await coming_up.place_databases()
        assert chat.texts() == ["captured"]
        await coming_up.capture(CheckpointReason.FIRST_TURN)


@pytest.mark.guarantee("CONT-1", "CONT-5", "CONT-7")
@pytest.mark.parametrize("damage", ["corrupt", "incomplete"])
async def test_none_is_begun_beside_others_that_cannot_come_back(stage: Stage, tmp_path: Path, damage: str) -> None:
    """Its first checkpoint would be the newest, and would make whatever the database holds by then look like what was captured."""
    await stage.make(rooms=2)
    chat = Conversation(tmp_path / "home" / "chat.db")
    async with stage.living() as life:
        row = await with_database(stage, life, tmp_path / "home").capture(CheckpointReason.AFTER_TURN)
        assert row is not None
        if damage == "corrupt":
            stage.corrupt()
        else:
            (stage.world.app / layout.checkpoint_root(stage.host.id, row.id) / "complete.json").unlink()
        chat.path.unlink()
    async with stage.living() as life:
        seat = await new_one(stage, life)
        with pytest.raises(ContinuityRefusedError, match="another conversation of its sandbox cannot be brought back") as refused:
            await with_database(stage, life, tmp_path / "home").activate(seat)
        assert refused.value.room == seat.room_name


@pytest.mark.guarantee("CONT-1", "CONT-5", "CONT-11")
async def test_beside_damage_the_databases_must_be_the_captured_ones(stage: Stage, tmp_path: Path) -> None:
    """The live files hold all of it; a database that went on proves nothing, and a damaged checkpoint is not restored over it."""
    await stage.make(rooms=2)
    chat = Conversation(tmp_path / "home" / "chat.db")
    chat.say("captured")
    async with stage.living() as life:
        await with_database(stage, life, tmp_path / "home").capture(CheckpointReason.AFTER_TURN)
        stage.damage_log()
    async with stage.living() as life:
        seat = await new_one(stage, life)
        same = with_database(stage, life, tmp_path / "home")
        await same.activate(seat)
        assert not await same.place_databases()
        chat.say("later")
        other = with_database(stage, life, tmp_path / "home")
        await other.activate(seat)
        with pytest.raises(ContinuityRefusedError, match="is not what was captured"):
            await other.place_databases()
        assert chat.texts() == ["captured", "later"]
        (failed,) = await life.store.read(lambda repos: repos.observations.of_session(stage.rooms[0].session.id))
        assert failed.outcome is ObservationOutcome.FAILED


@pytest.mark.guarantee("CONT-5", "CONT-9", "CONT-13")
async def test_the_last_checkpoint_before_a_fresh_start_has_the_databases(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of the old conversations is kept whole, files and databases."""
    await stage.make(rooms=2)
    chat = Conversation(tmp_path / "home" / "chat.db")
    chat.say("captured")
    async with stage.living() as life:
        await with_database(stage, life, tmp_path / "home").capture(CheckpointReason.AFTER_TURN)
        stage.corrupt()
        chat.say("later")
    async with stage.living() as life:
        with_one = with_database(stage, life, tmp_path / "home")
        monkeypatch.setattr(life, "continuity", lambda _host: with_one)
        room = stage.rooms[0].room.id
        done = await life.start_fresh(room, (await life.resets.inspect(str(room))).digest)
        reset = await life.store.read(lambda repos: repos.continuity_resets.find_id(done.id))
        assert reset is not None
        assert done.checkpoint == f"what is left of it is in checkpoint {reset.checkpoint_id}"
        held = Look(Generations(stage.world.app, files=Files())).entries(stage.host.id, reset.checkpoint_id)
        assert b"//chat.db" in held
        assert held[b"//chat.db"].content.size == copied(chat, tmp_path)


def copied(chat: Conversation, where: Path) -> int:
    """Return the size of a fresh copy of a database."""
    with closing(sqlite3.connect(chat.path)) as live, closing(sqlite3.connect(where / "copy.db")) as copy:
        live.backup(copy)
    return (where / "copy.db").stat().st_size
