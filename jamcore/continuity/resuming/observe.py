"""What came of each attempt to resume: one record that never changes (CONT-7, CONT-12)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar
from uuid import UUID

from jamcore.continuity.ports import CheckpointStore
from jamcore.domain.continuity import Observation, ObservationOutcome, ResumeFailedError, ResumeSource
from jamcore.domain.errors import FaultError, JamError
from jamcore.domain.sessions import RuntimeSession


@dataclass(eq=False)
class ObservationLostError(FaultError):
    """The observation of a resume could not be stored, so nothing of the provider may be shown (CONT-7)."""

    code: ClassVar[str] = "continuity.observation_lost"
    hint: ClassVar[str] = "Make room for the database or repair it, then resume again; the session is as it was."

    session: str
    problem: str


class Observer:
    """Writes observations, and reads the one that counts. One object per daemon."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store

    async def record(self, observation: Observation) -> None:
        """Store an observation. Until this returned, nothing that the provider says may go out.

        Raises:
            ObservationLostError: It could not be stored; the turn must fail.
        """
        try:
            await self._store.transact(lambda rows: rows.observations.insert(observation))
        except (JamError, OSError) as error:
            raise ObservationLostError(session=str(observation.session_id), problem=str(error)) from error

    async def latest(self, checkpoint_id: UUID, session_id: UUID) -> Observation | None:
        """Return the newest observation for this checkpoint and session: it alone counts, a later success supersedes a failure."""
        return await self._store.read(lambda rows: rows.observations.latest(checkpoint_id, session_id))


def observation_of(
    session: RuntimeSession,
    checkpoint_id: UUID,
    *,
    observation_id: UUID,
    observed_at: datetime,
    source: ResumeSource,
    reported: str | None,
    detail: str = "",
    lost: bool = False,
) -> Observation:
    """Build the observation of one attempt: it succeeded only if the provider reports exactly the bound identity, and lost nothing.

    Args:
        session: The session, which is bound.
        checkpoint_id: The generation that the resume was decided on.
        observation_id: A new id.
        observed_at: When.
        source: Which bytes the provider found.
        reported: What the provider says it resumed; ``None`` when it said nothing, because it failed.
        detail: Why it failed, or which bytes were set aside.
        lost: Whether it came back without a turn that was captured.
    """
    expected = session.provider_identity
    if expected is None:
        raise ValueError(f"session {session.id} is bound to nothing, so nothing can be resumed")
    return Observation(
        id=observation_id,
        session_id=session.id,
        checkpoint_id=checkpoint_id,
        outcome=ObservationOutcome.SUCCEEDED if reported == expected and not lost else ObservationOutcome.FAILED,
        source=source,
        expected_identity=expected,
        reported_identity=reported,
        detail=detail,
        observed_at=observed_at,
    )


def require_success(observation: Observation, *, room: str = "") -> None:
    """Accept a stored observation of success; ``room`` is the name by which a person knows the session.

    Raises:
        ResumeFailedError: The provider came back as somebody else, with less than was captured, or not at all.
    """
    if observation.outcome is ObservationOutcome.FAILED:
        raise ResumeFailedError(
            session=str(observation.session_id),
            expected=observation.expected_identity,
            reported=observation.said,
            room=room,
        )
