"""A host of whose sessions one was refused, and whose provider cannot tell conversations apart, makes no checkpoint of it (CONT-7)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from jamcore.continuity.resuming.activate import Placement
from jamcore.domain.continuity import (
    CaptureEntry,
    CaptureKind,
    CaptureList,
    CheckpointReason,
    ResumeFailedError,
    ResumeSource,
    SiblingRefusedError,
)
from jamcore.runtime.continuity import HostContinuity
from jamcore.runtime.proof import Lineage
from jamcore.runtime.seat import Seat
from jamcore.system.clock import SystemClock
from jamcore.system.ids import SystemIds

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.guarantee("CONT-7")]

SESSION, CHECKPOINT = UUID(int=1), UUID(int=2)
WHOLE = CaptureEntry(pattern="state/**", kind=CaptureKind.WHOLE)
LOGS = CaptureEntry(pattern="logs/*", kind=CaptureKind.APPEND_ONLY)
DATABASE = CaptureEntry(pattern="all.db", kind=CaptureKind.DATABASE)


class Parts:
    """What a host's continuity is made of; ``made`` counts the checkpoints."""

    def __init__(self, captures: CaptureList) -> None:
        self.captures = captures
        self.made = 0
        self._observed: object = ((), 1, Lineage({}, ()))

    async def declare_capture(self) -> CaptureList:
        """See :class:`ProviderHooks`."""
        return self.captures

    async def capture(self, *_: object, **__: object) -> object:
        """See :class:`CheckpointBroker`."""
        self.made += 1
        return SimpleNamespace(id=CHECKPOINT)

    async def record(self, _observation: object) -> None:
        """See :class:`Observer`."""

    async def read(self, work: object) -> object:
        """See :class:`Store`: what is known of a session, and no turn that a checkpoint made safe."""
        return self._observed if hasattr(work, "func") else ()

    async def append(self, *_: object) -> None:
        """See :class:`RoomFeed`."""

    @property
    def description(self) -> object:
        """See :class:`ProviderHooks`."""
        return SimpleNamespace(continuity=True)


def continuity(parts: Parts) -> HostContinuity:
    """Return a host's continuity, with one session that is brought back."""
    part = cast("Any", parts)
    made = HostContinuity(
        host=part,
        hooks=part,
        state_root=part,
        scratch_root=None,
        program_version="1",
        freeze=None,
        broker=part,
        activator=part,
        observer=part,
        store=part,
        feed=part,
        clock=SystemClock(),
        ids=SystemIds(),
    )
    decision = SimpleNamespace(evidence=SimpleNamespace(checkpoint_id=CHECKPOINT))
    made.expectations[SESSION] = (cast("Any", decision), Placement(ResumeSource.LIVE))
    return made


def seat() -> Seat:
    """Return the seat of that session."""
    session = SimpleNamespace(id=SESSION, provider_identity="thread-1")
    return Seat(session=cast("Any", session), workspace=cast("Any", None), room_id=SESSION, room_name="red")


@pytest.mark.parametrize(
    "captures",
    [
        CaptureList(entries=(WHOLE,)),
        CaptureList(entries=(LOGS, DATABASE), conversation_patterns=("logs/{identity}",)),
    ],
    ids=["no patterns", "a database"],
)
async def test_no_checkpoint_takes_the_place_of_what_a_refused_session_comes_back_from(captures: CaptureList) -> None:
    """It says whose conversation that is; once that is back, the next one is made."""
    parts = Parts(captures)
    host, red = continuity(parts), seat()
    with pytest.raises(ResumeFailedError):
        await host.observe(red, reported="thread-9", detail="")
    with pytest.raises(SiblingRefusedError) as refused:
        await host.capture(CheckpointReason.AFTER_TURN)
    assert (refused.value.concerns, parts.made) == ("room red", 0)
    await host.observe(red, reported="thread-1", detail="", remembered=())
    await host.capture(CheckpointReason.AFTER_TURN)
    assert parts.made == 1


async def test_a_session_that_did_not_come_back_at_all_keeps_nobody_from_a_checkpoint() -> None:
    """Its program said nothing of it, or the person gave up waiting: nothing shows that it was made anew."""
    parts = Parts(CaptureList(entries=(WHOLE,)))
    host = continuity(parts)
    with pytest.raises(ResumeFailedError):
        await host.observe(seat(), reported=None, detail="no answer")
    await host.capture(CheckpointReason.AFTER_TURN)
    assert parts.made == 1


async def test_a_conversation_that_can_be_told_is_kept_by_the_checkpoint_itself() -> None:
    """Its files stay as the generation before has them, so the siblings' turns become safe."""
    parts = Parts(CaptureList(entries=(LOGS,), conversation_patterns=("logs/{identity}",)))
    host = continuity(parts)
    with pytest.raises(ResumeFailedError):
        await host.observe(seat(), reported="thread-9", detail="")
    await host.capture(CheckpointReason.AFTER_TURN)
    assert parts.made == 1
