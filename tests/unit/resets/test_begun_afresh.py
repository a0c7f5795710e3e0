"""What is told of a room that began afresh: when, why and from where; and that what lies before it cannot be compared (CONT-9)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from jamcore.daemon.checkpoints import Checkpoints, CheckpointsApartError
from jamcore.daemon.views import room_records
from jamcore.domain.continuity import CheckpointReason, ContinuityFailure
from jamcore.domain.resets import FreshStart
from jamcore.store import Repos
from jamcore.system.ids import SystemIds

if TYPE_CHECKING:
    from uuid import UUID

    from tests.unit.resets.conftest import Life, Stage

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.guarantee("CONT-9")]


async def begin_afresh(life: Life, stage: Stage) -> UUID:
    """Begin afresh, and return the new host."""
    room = stage.rooms[0].room.id
    seen = await life.resets.inspect(str(room))
    return (await life.start_fresh(room, seen.digest)).host_id


async def starts(life: Life, room: UUID) -> tuple[FreshStart, ...]:
    """What clients are shown."""
    return await life.store.read(lambda repos: room_records(repos, repos.rooms.get(room)).fresh_starts)


async def test_each_room_is_told_its_own_source(stage: Stage) -> None:
    """When, why, and which session of which sandbox was given up; before it there was nothing to tell."""
    await stage.make()
    stage.corrupt()
    async with stage.living() as life:
        assert [await starts(life, each.room.id) for each in stage.rooms] == [()] * len(stage.rooms)
        await begin_afresh(life, stage)
        for each in stage.rooms:
            (told,) = await starts(life, each.room.id)
            assert (told.failure, told.source_session_id) == (ContinuityFailure.CORRUPT, each.session.id)
            assert (told.source_host_id, told.source_sandbox) == (stage.host.id, stage.host.sandbox)


async def test_what_lies_on_two_sides_of_it_cannot_be_compared(stage: Stage) -> None:
    """In either order it is said that a fresh start lies between, with the room whose list shows both."""
    await stage.make()
    stage.corrupt()
    async with stage.living() as life:
        host = await begin_afresh(life, stage)

        def publish(repos: Repos) -> UUID:
            row = repos.checkpoints.of_host(stage.host.id)[-1]
            session = repos.bindings.live_of_room(stage.rooms[0].room.id).session_id
            held = row.sessions[0].model_copy(update={"session_id": session})
            changed = {"id": SystemIds().uuid(), "host_id": host, "sessions": (held,), "reason": CheckpointReason.AFTER_TURN}
            return repos.checkpoints.insert(row.model_copy(update={**changed, "created_at": datetime.now(UTC)})).id

        before = str((await life.store.read(lambda repos: repos.checkpoints.of_host(stage.host.id)))[0].id)
        after = str(await life.store.transact(publish))
        checkpoints = Checkpoints(stage.world.app, store=life.store, files=stage.world.files)
        for pair in ((before, after), (after, before)):
            with pytest.raises(CheckpointsApartError, match="a fresh start lies between them") as apart:
                await checkpoints.diff(*pair)
            assert apart.value.room == stage.rooms[0].room.name
