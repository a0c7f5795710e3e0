"""A new conversation is begun on a host that holds others: their state is put in place first, databases with it (CONT-1, CONT-5)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from jamcore.continuity.coordinator import Coordinators
from jamcore.continuity.generations.publish import Generations
from jamcore.continuity.resuming.databases import DatabaseActivator
from jamcore.domain.continuity import CaptureEntry, CaptureKind, CaptureList, CheckpointReason
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
    continuity.databases = cast("Any", SimpleNamespace(guest=host_databases(home), activator=activator))
    return continuity


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
        made = stage.rooms[1]
        session = (await life.store.read(lambda repos: repos.sessions.get(made.session.id))).model_copy(
            update={"provider_identity": None}
        )
        seat = Seat(session=session, workspace=made.workspace, room_id=made.room.id, room_name=made.room.name)
        coming_up = with_database(stage, life, tmp_path / "home")
        await coming_up.activate(seat)
        assert session.id not in coming_up.expectations, "it begins afresh itself"
        assert await coming_up.place_databases()
        assert chat.texts() == ["captured"]
        await coming_up.capture(CheckpointReason.FIRST_TURN)
