"""The fake's conversations that cannot be brought back: those of parked rooms."""

from __future__ import annotations

from jamcore.domain.continuity import ContinuityFailure, Observation, ObservationOutcome, ResumeSource
from jamcore.domain.resets import (
    MEANING,
    ContinuityEvidence,
    ContinuityView,
    ResetRefusedError,
    RoomStanding,
    SessionEvidence,
    StartFreshRequest,
    StartFreshResult,
)
from jamcore.testing.fake_daemon.records import AT, Conversation, checkpoint
from jamcore.testing.fake_daemon.state import Part


class FakeContinuity(Part):
    """Answers about one room: a live one is sound, a parked one's last resume failed."""

    async def inspect(self, ref: str) -> ContinuityView:
        """See :class:`~jamcore.daemon.services.ContinuityService`."""
        await self.fake.note("inspect_continuity", ref)
        found = self.fake.find(ref)
        evidence = _evidence(found)
        room = RoomStanding(
            room_id=found.room.id,
            name=found.room.name,
            failure=evidence.failure,
            turns=2,
            captured=1,
            files="/jam/w\x1b[2J",
            carried="left" if found.room.name.startswith("bare") else "copied",
        )
        return ContinuityView(
            evidence=evidence,
            digest=evidence.checksum(),
            meaning=MEANING[evidence.failure] if evidence.failure else f"it can be brought back{_beside(found)}",
            rooms=(room,),
            can_start_fresh=evidence.failure is not None,
            blocked="a room of it is live" if found.live else "",
        )

    async def start_fresh(self, ref: str, request: StartFreshRequest) -> StartFreshResult:
        """See :class:`~jamcore.daemon.services.ContinuityService`."""
        await self.fake.note("start_fresh", (ref, request))
        found = self.fake.find(ref)
        if request.evidence != _evidence(found).checksum():
            raise ResetRefusedError(host=str(found.host.id), problem="the evidence is no longer what was confirmed")
        return StartFreshResult(
            id=request.id,
            source_host_id=found.host.id,
            source_sandbox=found.host.sandbox,
            host_id=request.id,
            sandbox="jam-2",
            rooms=(found.room.name,),
            checkpoint="what is left of it is in checkpoint 01a2 \x1b[2J",
            files=("it goes on with a copy of its files \x1b[2J",),
            live=True,
        )


def _beside(found: Conversation) -> str:
    """Of a room that is called so, the last checkpoint is damaged, and its live state holds all of it."""
    return ": a block is damaged \x1b[2J" if found.room.name.startswith("beside") else ""


def _evidence(found: Conversation) -> ContinuityEvidence:
    failure = None if found.live or _beside(found) else ContinuityFailure.RESUME_FAILED
    row = checkpoint(found)
    seen = Observation(
        id=found.room.id,
        session_id=found.session.id,
        checkpoint_id=row.id,
        outcome=ObservationOutcome.FAILED if failure else ObservationOutcome.SUCCEEDED,
        source=ResumeSource.LIVE,
        expected_identity="thread-1",
        reported_identity=None,
        detail="it said \x1b[2J",
        observed_at=AT,
    )
    session = SessionEvidence(
        session_id=found.session.id,
        room_id=found.room.id,
        binding_id=found.room.id,
        provider_identity="thread-1",
        captured_identity="thread-1",
        last_turn_id=None,
        failure=failure,
        observation=seen,
    )
    return ContinuityEvidence(
        host_id=found.host.id,
        agent_id=found.host.agent_id,
        provider=found.host.provider,
        engine=found.host.engine,
        sandbox=found.host.sandbox,
        checkpoint=row,
        generation_state="corrupt" if _beside(found) else "verified",
        current_version="0.163.0",
        failure=failure,
        sessions=(session,),
    )
