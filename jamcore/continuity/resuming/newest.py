"""The newest generation of a host as a decision sees it (CONT-7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable
from typing import Literal

from jamcore.domain.continuity import (
    ActivationDecision,
    ActivationEvidence,
    Checkpoint,
    ContinuityRefusedError,
    decide_activation,
    why_refused,
)
from jamcore.domain.errors import bounded
from jamcore.domain.sessions import RuntimeSession

AcceptsVersion = Callable[[str, str], bool | Awaitable[bool]]
"""``accepts(captured, current)``: whether the current program may resume what the captured version wrote."""

GenerationState = Literal["none", "verified", "incomplete", "corrupt"]


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest generation of a host, or none: what reading it whole has shown, and whether ``current_version`` may resume it.

    ``live_holds``: it is damaged, and the live state was found to hold all of it.
    """

    row: Checkpoint | None
    state: GenerationState
    current_version: str | None
    compatible: bool = False
    problem: str = ""
    live_holds: bool = False

    def decide(self, session: RuntimeSession) -> ActivationDecision:
        """Decide how a session of the host may start."""
        current = self.current_version
        if session.provider_identity is None:
            return decide_activation(evidence_of(session, None, "none", compatible=False, current=current))
        evidence = evidence_of(session, self.row, self.state, compatible=self.compatible, current=current)
        found = {"problem": bounded(self.problem), "live_holds": self.live_holds}
        return decide_activation(evidence.model_copy(update=found))


def refusal(session: RuntimeSession, decision: ActivationDecision) -> ContinuityRefusedError:
    """Return the error that a decision not to resume is reported by."""
    failure = decision.failure.value if decision.failure else decision.outcome.value
    return ContinuityRefusedError(session=str(session.id), failure=failure, detail=why_refused(decision) or decision.outcome.value)


def evidence_of(
    session: RuntimeSession, row: Checkpoint | None, state: GenerationState, *, compatible: bool, current: str | None
) -> ActivationEvidence:
    """Return what is known before a decision; what is wrong with a generation comes besides."""
    captured = next((held for held in row.sessions if held.session_id == session.id), None) if row else None
    return ActivationEvidence(
        provider_identity=session.provider_identity,
        checkpoint_id=row.id if row else None,
        generation_state=state,
        session_captured=captured is not None,
        captured_identity=captured.provider_identity if captured else None,
        version_compatible=compatible,
        captured_version=row.provider_version if row else None,
        current_version=current,
    )


async def accepts(accepts_version: AcceptsVersion, captured: str, current: str) -> bool:
    """Ask the provider's own rule, which may have to be waited for."""
    answer = accepts_version(captured, current)
    return await answer if isawaitable(answer) else answer
