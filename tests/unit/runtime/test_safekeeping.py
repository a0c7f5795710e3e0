"""Captures of a host whose sessions end their turns at the same time: as few as hold everything, and never one too few (CONT-2)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from jamcore.domain.continuity import Checkpoint, CheckpointReason
from jamcore.domain.errors import ConflictError
from jamcore.runtime.safekeeping import Safekeeping

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]
AFTER = CheckpointReason.AFTER_TURN


class Captures:
    """What a worker's continuity does: each capture waits until it may, and is counted when it was made."""

    def __init__(self) -> None:
        self.may = anyio.Event()
        self.made: list[CheckpointReason] = []
        self.failing = 0

    async def capture(self, reason: CheckpointReason, _opened: object) -> Checkpoint:
        """See ``HostContinuity``."""
        await self.may.wait()
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
