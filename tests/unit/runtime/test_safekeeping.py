"""Captures of a host whose sessions end their turns at the same time: as few as hold everything, and never one too few (CONT-2)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import anyio
import pytest

from jamcore.continuity.coordinator import HostBusyError
from jamcore.domain import limits
from jamcore.domain.continuity import Checkpoint, CheckpointReason
from jamcore.domain.errors import ConflictError
from jamcore.domain.limits import Limits
from jamcore.domain.safekeeping import CaptureTrouble
from jamcore.domain.sessions import TurnState
from jamcore.runtime.safekeeping import Safekeeping
from jamcore.runtime.seat import Seat
from jamcore.runtime.seating import Seating
from jamcore.system.clock import SystemClock

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]
AFTER = CheckpointReason.AFTER_TURN


class Captures:
    """What a worker's continuity does: each capture waits until it may, and is counted when it was made."""

    def __init__(self) -> None:
        self.may = anyio.Event()
        self.made: list[CheckpointReason] = []
        self.failing = 0
        self.clock = SystemClock()
        self.bounds: list[float] = []
        self.busy: str = ""

    async def capture(self, reason: CheckpointReason, _opened: object, *, bound_s: float) -> Checkpoint:
        """See ``HostContinuity``."""
        self.bounds.append(bound_s)
        await self.may.wait()
        if self.busy:
            raise HostBusyError(host="jam-x", wanted="checkpoint", holders=(self.busy,), limit_s=bound_s)
        if self.failing:
            self.failing -= 1
            raise ConflictError(kind="checkpoint", ref="r", problem="full")
        self.made.append(reason)
        return cast("Checkpoint", SimpleNamespace(number=len(self.made)))


@pytest.fixture
def captures() -> Captures:
    """Scripted captures."""
    return Captures()


@pytest.fixture
def kept(captures: Captures) -> Safekeeping:
    """A host's safekeeping over them."""
    return Safekeeping(cast("Any", captures))


@pytest.mark.guarantee("CONT-2")
async def test_turns_that_end_together_share_a_capture(kept: Safekeeping, captures: Captures) -> None:
    """The first was begun before the others ended, so it proves nothing for them; the second holds all of them."""
    async with anyio.create_task_group() as tasks:
        for _ in range(16):
            kept.changed()
            tasks.start_soon(kept.capture, AFTER)
            await anyio.wait_all_tasks_blocked()
        captures.may.set()
    assert len(captures.made) == 2
    assert not kept.dirty


@pytest.mark.guarantee("CONT-2")
async def test_what_happens_during_a_capture_is_in_no_generation(kept: Safekeeping, captures: Captures) -> None:
    """It stays to be kept, and the next capture is made."""
    kept.changed()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(kept.capture, AFTER)
        await anyio.wait_all_tasks_blocked()
        kept.changed()
        captures.may.set()
    assert kept.dirty
    await kept.capture(AFTER)
    assert len(captures.made) == 2
    assert not kept.dirty


async def test_a_first_turn_and_a_stop_have_a_capture_of_their_own(kept: Safekeeping, captures: Captures) -> None:
    """They name what no change tells: a thread that was just opened, a state that is the last."""
    captures.may.set()
    kept.changed()
    for reason in (AFTER, CheckpointReason.FIRST_TURN, CheckpointReason.BEFORE_STOP):
        await kept.capture(reason)
    assert captures.made == [AFTER, CheckpointReason.FIRST_TURN, CheckpointReason.BEFORE_STOP]


@pytest.mark.guarantee("CONT-2")
async def test_a_capture_that_fails_is_nobody_elses(kept: Safekeeping, captures: Captures) -> None:
    """Whoever waited behind it makes one."""
    captures.failing = 1
    failed: list[str] = []

    async def capture() -> None:
        try:
            await kept.capture(AFTER)
        except ConflictError as error:
            failed.append(error.code)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            kept.changed()
            tasks.start_soon(capture)
            await anyio.wait_all_tasks_blocked()
        captures.may.set()
    assert len(failed) == 1
    assert len(captures.made) == 1
    assert not kept.dirty


def trouble_of(kept: Safekeeping) -> CaptureTrouble | None:
    """Return what stands in the way now."""
    return kept.trouble


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are short here."""
    monkeypatch.setattr(limits, "CAPTURE_RETRY_S", 0.01)
    monkeypatch.setattr(limits, "CAPTURE_RETRY_MAX_S", 0.02)


@pytest.mark.guarantee("CONT-2")
async def test_a_capture_after_a_turn_steps_back_from_the_turns_of_other_rooms(kept: Safekeeping, captures: Captures) -> None:
    """It asks shortly and says whose turn runs; it is made when that turn ends, and then nothing stands in the way any more."""
    captures.may.set()
    captures.busy = "the turn of room red"
    kept.changed()
    trouble = await kept.after_turn()
    assert trouble is not None
    assert trouble == trouble_of(kept)
    assert (trouble.deferred, trouble.why, trouble.code) == (True, "the turn of room red is running", "continuity.host_busy")
    assert captures.bounds == [limits.CAPTURE_ASK_S]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(kept.keep_trying)
        await anyio.wait_all_tasks_blocked()
        captures.busy = ""
        kept.turn_ended()
        await anyio.wait_all_tasks_blocked()
        assert captures.made == [AFTER]
        assert trouble_of(kept) is None
        tasks.cancel_scope.cancel()


class Runner:
    """Runs turns that end at once, as they are told to."""

    def __init__(self, state: TurnState) -> None:
        self.state = state

    async def run(self, *_arguments: object, **_more: object) -> TurnState:
        """See ``TurnRunner``."""
        return self.state


@pytest.mark.guarantee("CONT-2")
@pytest.mark.parametrize("state", [TurnState.COMPLETED, TurnState.FAILED])
async def test_a_turns_end_asks_once_while_others_run(kept: Safekeeping, captures: Captures, state: TurnState) -> None:
    """The turn's own capture is what asks; one that asks for none lets what stepped back before it ask."""
    captures.may.set()
    captures.busy = "the turn of room red"
    kept.changed()
    assert await kept.after_turn() is not None

    async def nothing(*_arguments: object) -> None:
        return None

    bring_up = SimpleNamespace(
        continuity=SimpleNamespace(note_files=nothing), files_of=nothing, standing=SimpleNamespace(say=nothing)
    )
    seating = Seating(cast("Any", bring_up), cast("Any", Runner(state)), kept, Limits(), lambda *_: None)
    seat = Seat(session=cast("Any", None), workspace=cast("Any", None), room_id=UUID(int=1))
    seat.runtime, seat.identity = cast("Any", object()), cast("Any", "thread-1")
    seat.submit(cast("Any", object()))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(kept.keep_trying)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(seating.serve, seat)
        await anyio.wait_all_tasks_blocked()
        assert len(captures.bounds) == 2, "one for the turn before, and one"
        tasks.cancel_scope.cancel()


@pytest.mark.guarantee("CONT-2")
async def test_a_capture_that_stepped_back_for_long_queues_like_everybody(kept: Safekeeping, captures: Captures) -> None:
    """Turns that always overlap do not starve it. What failed for another reason never queues, however long ago."""
    captures.may.set()
    captures.busy = "the turn of room red"
    kept.changed()
    await kept.after_turn()
    kept._deferred_since -= limits.CAPTURE_DEFERRED_S
    await kept.after_turn()
    assert captures.bounds == [limits.CAPTURE_ASK_S, limits.CHECKPOINT_WAIT_S]
    captures.busy, captures.failing = "", 1
    await kept.after_turn()
    kept._deferred_since -= limits.CAPTURE_DEFERRED_S
    await kept.after_turn()
    assert captures.bounds[-1] == limits.CAPTURE_ASK_S


@pytest.mark.guarantee("CONT-2", "CONT-7")
@pytest.mark.parametrize("reason", [CheckpointReason.FIRST_TURN, CheckpointReason.BEFORE_STOP])
async def test_a_capture_that_cannot_be_put_off_waits_without_keeping_others(
    kept: Safekeeping, captures: Captures, reason: CheckpointReason
) -> None:
    """It asks again when a turn ends, each time shortly, and says once why it waits; its caller goes on when it is made."""
    captures.may.set()
    captures.busy = "the turn of room red"
    told: list[str] = []

    async def waits(why: str) -> None:
        told.append(why)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(kept.capture, reason, waits)
        await anyio.wait_all_tasks_blocked()
        kept.turn_ended()
        await anyio.wait_all_tasks_blocked()
        captures.busy = ""
        kept.turn_ended()
    assert captures.made == [reason]
    assert captures.bounds == [limits.CAPTURE_ASK_S] * 3
    assert told == ["the turn of room red is running"]


@pytest.mark.guarantee("CONT-2", "START-5")
@pytest.mark.usefixtures("hurried")
async def test_a_failed_capture_is_tried_again_until_it_is_made(kept: Safekeeping, captures: Captures) -> None:
    """With what failed, since when and when it is next tried; the pauses grow to their largest; success takes the trouble away."""
    captures.may.set()
    captures.failing = 5
    kept.changed()
    first = await kept.after_turn()
    assert first is not None
    assert (first.deferred, first.attempts, first.code) == (False, 1, "conflict.changed_record")
    assert first.next_try > first.since
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(kept.keep_trying)
        with anyio.fail_after(10):
            while kept.trouble is not None:
                assert kept.trouble.since == first.since
                await anyio.sleep(0.001)
        tasks.cancel_scope.cancel()
    assert captures.made == [AFTER]
    assert len(captures.bounds) == 6


@pytest.mark.guarantee("CONT-2")
async def test_whatever_holds_the_turn_takes_its_trouble_away(kept: Safekeeping, captures: Captures) -> None:
    """A sibling's capture does; one that was begun before the turn ended does not."""
    captures.may.set()
    captures.failing = 1
    kept.changed()
    assert await kept.after_turn() is not None
    await kept.capture(CheckpointReason.FIRST_TURN)
    assert trouble_of(kept) is None
    captures.may = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(kept.capture, CheckpointReason.FIRST_TURN)
        await anyio.wait_all_tasks_blocked()
        kept.changed()
        kept._note(ConflictError(kind="checkpoint", ref="r", problem="full"))
        captures.may.set()
    assert trouble_of(kept) is not None
    assert await kept.after_turn() is None
    assert trouble_of(kept) is None
