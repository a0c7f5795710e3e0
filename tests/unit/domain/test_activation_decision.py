"""The one decision about how a session may start, over all its inputs (CONT-7)."""

from __future__ import annotations

from itertools import product
from typing import Any
from uuid import UUID

import pytest

from jamcore.domain.continuity import Activation, ActivationDecision, ActivationEvidence, ContinuityFailure, decide_activation

IDENTITIES = (None, "thread-1")
CAPTURED = (None, "thread-1", "thread-2")
GENERATIONS = ("none", "verified", "incomplete", "corrupt")
VERSIONS = (None, "1.0")
CHECKPOINTS = (None, UUID(int=7))

EVERY = [
    ActivationEvidence(
        provider_identity=identity,
        checkpoint_id=checkpoint,
        generation_state=generation,  # type: ignore[arg-type]
        session_captured=session,
        captured_identity=captured,
        version_compatible=compatible,
        captured_version=old,
        current_version=new,
    )
    for identity, checkpoint, generation, session, captured, compatible, old, new in product(
        IDENTITIES, CHECKPOINTS, GENERATIONS, (False, True), CAPTURED, (False, True), VERSIONS, VERSIONS
    )
]


def described(evidence: ActivationEvidence) -> tuple[Activation, ContinuityFailure | None]:
    """The guarantee's sentences in their order, said once more."""
    bound = evidence.provider_identity is not None
    same = evidence.session_captured and evidence.captured_identity == evidence.provider_identity
    rules: tuple[tuple[bool, Activation, ContinuityFailure | None], ...] = (
        (not bound, Activation.FRESH_START, None),
        (evidence.generation_state == "none", Activation.REFUSE_NO_CHECKPOINT, ContinuityFailure.MISSING),
        (evidence.generation_state == "incomplete", Activation.REFUSE_NO_CHECKPOINT, ContinuityFailure.MISSING),
        (evidence.generation_state == "corrupt", Activation.REFUSE_NO_CHECKPOINT, ContinuityFailure.CORRUPT),
        (not same, Activation.REFUSE_UNUSABLE, ContinuityFailure.SESSION_NOT_CAPTURED),
        (not evidence.version_compatible, Activation.REFUSE_UNUSABLE, ContinuityFailure.PROVIDER_VERSION_MISMATCH),
        (True, Activation.EXACT_RESUME, None),
    )
    return next((outcome, failure) for holds, outcome, failure in rules if holds)


@pytest.mark.guarantee("CONT-7")
def test_every_combination_of_evidence() -> None:
    """Each of the 768 gets the outcome that the guarantee names, with its kind of failure, and keeps the evidence it was made from."""
    assert len(EVERY) == 768
    for evidence in EVERY:
        decision = decide_activation(evidence)
        assert (decision.outcome, decision.failure) == described(evidence), evidence
        assert decision.evidence == evidence


@pytest.mark.guarantee("CONT-7")
def test_each_outcome_occurs() -> None:
    """All four are real, and each refusal says why."""
    decisions = [decide_activation(evidence) for evidence in EVERY]
    assert {decision.outcome for decision in decisions} == set(Activation)
    refusals = {Activation.REFUSE_NO_CHECKPOINT, Activation.REFUSE_UNUSABLE}
    assert all((decision.failure is not None) == (decision.outcome in refusals) for decision in decisions)


@pytest.mark.guarantee("CONT-1")
def test_nothing_but_an_unbound_session_starts_fresh() -> None:
    """Whatever is missing or broken, a session that ever bound an identity is not given a new thread."""
    for evidence in EVERY:
        fresh = decide_activation(evidence).outcome is Activation.FRESH_START
        assert fresh == (evidence.provider_identity is None)


@pytest.mark.guarantee("CONT-1")
def test_an_exact_resume_needs_every_proof() -> None:
    """Taking any one proof away ends in a refusal."""
    whole: dict[str, Any] = {
        "provider_identity": "thread-1",
        "checkpoint_id": UUID(int=7),
        "generation_state": "verified",
        "session_captured": True,
        "captured_identity": "thread-1",
        "version_compatible": True,
        "captured_version": "1.0",
        "current_version": "1.0",
    }
    assert decide_activation(ActivationEvidence(**whole)).outcome is Activation.EXACT_RESUME
    for name, value in {
        "generation_state": "incomplete",
        "session_captured": False,
        "captured_identity": "thread-2",
        "version_compatible": False,
    }.items():
        assert decide_activation(ActivationEvidence(**whole | {name: value})).failure is not None, name


def test_a_stored_decision_reads_back() -> None:
    """Through its canonical text."""
    decision = decide_activation(EVERY[-1])
    assert ActivationDecision.model_validate_json(decision.canonical_json()) == decision
