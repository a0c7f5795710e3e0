"""Looks at a host as a whole: can its conversations be brought back, and if not, on which evidence may they be given up (CONT-9)?

A plain resume decides about one session and does not ask what came of the attempts before it: it is how a failed one is mended, since a
later success supersedes it. This inspection does ask, so it is where RESUME_FAILED comes from.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from jamcore.continuity.resuming.activate import Activator
from jamcore.continuity.resuming.newest import AcceptsVersion, Newest
from jamcore.continuity.resuming.observe import Observer
from jamcore.domain.continuity import Activation, ActivationPlan, CaptureList, CheckpointCorruptError
from jamcore.domain.resets import ContinuityEvidence, ResetRefusedError, SessionEvidence, failure_of, worst
from jamcore.domain.sessions import RuntimeHost, RuntimeSession


@dataclass(frozen=True, slots=True)
class BoundSession:
    """A session of a host with the room and the binding that hold it."""

    session: RuntimeSession
    room_id: UUID
    binding_id: UUID


@dataclass(frozen=True, slots=True)
class ResumeRules:
    """What a resume on this host would go by: the provider's declarations, the program, and where its state lies."""

    accepts_version: AcceptsVersion
    current_version: str
    state_root: Path
    capture_list: CaptureList
    activation_plan: ActivationPlan


@dataclass(frozen=True, slots=True)
class Looked:
    """The evidence, and in words what is wrong with the generation where that is known."""

    evidence: ContinuityEvidence
    problem: str


class RecoveryInspector:
    """Collects the evidence on a host. One object per daemon; changes nothing."""

    def __init__(self, activator: Activator, observer: Observer) -> None:
        self._activator = activator
        self._observer = observer

    async def look(self, host: RuntimeHost, bound: tuple[BoundSession, ...], rules: ResumeRules) -> Looked:
        """Read the newest generation whole and return what is known of every session.

        Raises:
            CheckpointFailedError: The machine could not read something, which is no evidence of anything.
        """
        newest = await self._activator.newest(
            host, accepts_version=rules.accepts_version, current_version=rules.current_version, state_root=rules.state_root
        )
        sessions = tuple([await self._session(each, newest, rules) for each in bound])
        evidence = ContinuityEvidence(
            host_id=host.id,
            agent_id=host.agent_id,
            provider=host.provider,
            engine=host.engine,
            sandbox=host.sandbox,
            checkpoint=newest.row,
            generation_state=newest.state,
            current_version=rules.current_version,
            failure=worst(session.failure for session in sessions),
            sessions=sessions,
        )
        return Looked(evidence, newest.problem)

    async def _session(self, bound: BoundSession, newest: Newest, rules: ResumeRules) -> SessionEvidence:
        session, row = bound.session, newest.row
        decision = newest.decide(session)
        observation = await self._observer.latest(row.id, session.id) if row else None
        lacking = ""
        if decision.outcome is Activation.EXACT_RESUME:
            try:
                lacking = await self._activator.lacking(
                    decision,
                    session,
                    state_root=rules.state_root,
                    capture_list=rules.capture_list,
                    activation_plan=rules.activation_plan,
                )
            except CheckpointCorruptError as error:
                lacking = error.detail  # it was whole a moment ago
        held = next((held for held in row.sessions if held.session_id == session.id), None) if row else None
        return SessionEvidence(
            session_id=session.id,
            room_id=bound.room_id,
            binding_id=bound.binding_id,
            provider_identity=session.provider_identity,
            captured_identity=held.provider_identity if held else None,
            last_turn_id=held.last_turn_id if held else None,
            failure=failure_of(decision, observation, lacking),
            observation=observation,
        )


def require_confirmed(evidence: ContinuityEvidence, confirmed: str) -> None:
    """Accept a fresh start only from a failure, and on exactly the evidence that was confirmed.

    Raises:
        ResetRefusedError: There is no failure, or the evidence is another one now.
    """
    if evidence.failure is None:
        raise ResetRefusedError(host=str(evidence.host_id), problem="its conversations can be brought back: `jam room resume ROOM`")
    if not hmac.compare_digest(evidence.checksum(), confirmed):
        raise ResetRefusedError(host=str(evidence.host_id), problem="the evidence is no longer what was confirmed")
