"""Which checkpoint of a session an export holds: the newest from which it could be resumed (WS-5). Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from jamcore.domain.continuity import (
    Activation,
    ActivationEvidence,
    Checkpoint,
    ContinuityFailure,
    decide_activation,
    why_refused,
)
from jamcore.domain.sessions import RuntimeSession


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A newer checkpoint that could not be used: which failure a resume from it would have, and why."""

    checkpoint_id: UUID
    failure: ContinuityFailure | None
    why: str


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen, or ``None``, and everything newer that was not, the newest first."""

    checkpoint: Checkpoint | None
    passed_over: tuple[PassedOver, ...] = ()


def latest_compatible(
    session: RuntimeSession,
    rows: Sequence[Checkpoint],
    *,
    accepts: Callable[[str], bool],
    unusable: Mapping[UUID, str],
) -> Choice:
    """Choose the newest checkpoint that a resume of the session would be decided on, by the very rule of a resume.

    Args:
        session: Whose it is. One that never bound an identity has none: there is nothing to bring back.
        rows: The checkpoints of its host, in any order.
        accepts: Whether the provider may resume what this version of its program wrote.
        unusable: What is wrong with those that are known to be damaged or gone.
    """
    if session.provider_identity is None:
        return Choice(None)
    passed: list[PassedOver] = []
    for row in sorted(rows, key=lambda row: row.generation, reverse=True):
        decision = decide_activation(_evidence(session, row, unusable.get(row.id), compatible=accepts(row.provider_version)))
        if decision.outcome is Activation.EXACT_RESUME:
            return Choice(row, tuple(passed))
        passed.append(PassedOver(row.id, decision.failure, why_refused(decision)))
    return Choice(None, tuple(passed))


def _evidence(session: RuntimeSession, row: Checkpoint, problem: str | None, *, compatible: bool) -> ActivationEvidence:
    held = next((held for held in row.sessions if held.session_id == session.id), None)
    return ActivationEvidence(
        provider_identity=session.provider_identity,
        checkpoint_id=row.id,
        generation_state="verified" if problem is None else "corrupt",
        session_captured=held is not None,
        captured_identity=held.provider_identity if held else None,
        version_compatible=compatible,
        captured_version=row.provider_version,
        current_version=None,
        problem=problem or "",
    )
