"""What a plugin may declare of its state (CONT-3)."""

from __future__ import annotations

import pytest

from jamcore.domain.continuity import ActivationPlan, CaptureEntry, CaptureKind, CaptureList
from jamcore.domain.provider_rules import capture_problems

pytestmark = [pytest.mark.unprivileged, pytest.mark.guarantee("CONT-3", "CAP-6")]

ENTRIES = (CaptureEntry(pattern="sessions/**/*.jsonl", kind=CaptureKind.APPEND_ONLY),)


@pytest.mark.parametrize("pattern", ["sessions/**/*-{identity}.jsonl", "{identity}/**", "{identity}"])
def test_a_pattern_of_a_conversation_names_it(pattern: str) -> None:
    """Its id stands anywhere in the pattern."""
    assert capture_problems(CaptureList(entries=ENTRIES, conversation_patterns=(pattern,)), ActivationPlan()) == ()


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("sessions/**/*.jsonl", "names no conversation"),
        ("/sessions/{identity}.jsonl", "is no relative glob"),
        ("../{identity}.jsonl", "is no relative glob"),
    ],
)
def test_a_pattern_that_would_find_others_or_lead_out_is_a_problem(pattern: str, problem: str) -> None:
    """One without the id would hand out everybody's files with one conversation."""
    (found,) = capture_problems(CaptureList(entries=ENTRIES, conversation_patterns=(pattern,)), ActivationPlan())
    assert problem in found
