"""What a person's "always" covers: the very same request, or plain commands that begin with the same words; never more."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jamcore.domain.approvals import (
    APPROVAL,
    DETAIL_CHARACTERS,
    Approval,
    ApprovalAnswer,
    ApprovalRule,
    ApprovalState,
    DecisionRequest,
    RuleScope,
    command_words,
    covers,
    digest_of,
    rule_from,
    shown,
)
from jamcore.domain.errors import InvalidInputError

pytestmark = pytest.mark.unprivileged
AT = datetime(2026, 1, 2, tzinfo=UTC)
ROOM, AGENT = UUID(int=1), UUID(int=2)


def approval(detail: str, subject: str = "command") -> Approval:
    """Return a pending approval as it would be stored."""
    return Approval.model_validate(
        {
            "id": UUID(int=3),
            "room_id": ROOM,
            "session_id": UUID(int=4),
            "turn_id": UUID(int=5),
            "process_epoch": 1,
            "request": "r",
            "item": "i",
            "subject": subject,
            "detail": shown(detail),
            "preview": "",
            "digest": digest_of(subject, detail),  # type: ignore[arg-type]
            "state": ApprovalState.PENDING,
            "decided_by": None,
            "decision_id": None,
            "rule_id": None,
            "asked_at": AT,
            "deadline_at": AT,
            "decided_at": None,
        }
    )


def rule(detail: str, *, prefix: str | None = None, scope: RuleScope = RuleScope.ROOM, subject: str = "command") -> ApprovalRule:
    """Return the rule that an "always" about ``detail`` makes."""
    request = DecisionRequest(id=UUID(int=6), decision=ApprovalAnswer.ALLOW, always=scope, prefix=prefix)
    made = rule_from(approval(detail, subject), request, identifier=UUID(int=7), agent=AGENT, created_at=AT)
    assert made is not None
    return made


def test_an_exact_rule_covers_the_same_request_alone() -> None:
    """One character more, or another kind of request with the same words, is another request."""
    made = rule("git status")
    assert covers(made, "command", "git status")
    assert not covers(made, "command", "git status ")
    assert not covers(made, "file-change", "git status")


def test_an_exact_rule_compares_what_is_not_shown() -> None:
    """Two requests that look alike once a secret is out, or beyond the cut, are still two."""
    long = "x" * (2 * DETAIL_CHARACTERS)
    for one, other in [("run TOKEN=aaaaaaaa", "run TOKEN=bbbbbbbb"), (f"{long}a", f"{long}b")]:
        assert shown(one) == shown(other)
        assert covers(rule(one), "command", one)
        assert not covers(rule(one), "command", other)


@pytest.mark.parametrize("asked", ["git status", "git status -s", "/bin/bash -lc 'git status -s'", "bash -c 'git   status'"])
def test_a_prefix_covers_plain_commands_that_begin_so(asked: str) -> None:
    """The words count, not the spaces; a shell's -c around one plain command is looked through."""
    assert covers(rule("/bin/bash -lc 'git status'", prefix="git status"), "command", asked)


@pytest.mark.parametrize(
    "asked",
    [
        "git",
        "git statusx",
        "git status; rm -rf /",
        "git status && rm x",
        "git status | sh",
        "git status > f",
        "git status `rm x`",
        "git status $(rm x)",
        "git status\nrm x",
        "/bin/bash -lc 'git status; rm x'",
        '/bin/bash -lc "git status $HOME"',
        "X=1 git status",
        "/tmp/git status",
        "git 'status",
    ],
)
def test_a_prefix_covers_nothing_that_a_shell_makes_more_of(asked: str) -> None:
    """Chains, redirections, expansions, assignments, another program of that name, an open quote: a person is asked."""
    assert not covers(rule("git status", prefix="git status"), "command", asked)


@given(st.text(max_size=40))
def test_what_follows_a_prefix_is_never_a_second_command(rest: str) -> None:
    """Whatever is appended: covered means that a shell would run one program whose first words are the prefix."""
    command = f"git status {rest}"
    if covers(rule("git status", prefix="git status"), "command", command):
        assert not set(rest) & set(";&|<>$`(){}*?\n")
        assert (command_words(command) or ())[:2] == ("git", "status")


@pytest.mark.parametrize(
    ("detail", "prefix"),
    [
        ("git status", "rm"),
        ("git status; rm x", "git status"),
        ("bash -c ls", "bash"),
        ("git status", ""),
        ("git status", "git; rm"),
    ],
)
def test_a_prefix_must_fit_what_was_asked(detail: str, prefix: str) -> None:
    """Nobody allows by a slip what was not on the table, nor a whole shell."""
    with pytest.raises(InvalidInputError):
        rule(detail, prefix=prefix)


def test_a_rule_only_allows_and_only_what_can_be_compared() -> None:
    """A denial makes no rule; permissions beyond commands and files are a person's each time."""
    deny = DecisionRequest(id=UUID(int=6), decision=ApprovalAnswer.DENY, always=RuleScope.ROOM)
    with pytest.raises(InvalidInputError):
        rule_from(approval("x"), deny, identifier=UUID(int=7), agent=AGENT, created_at=AT)
    with pytest.raises(InvalidInputError):
        rule("x", subject="other")
    with pytest.raises(InvalidInputError):
        rule("add f", subject="file-change", prefix="add")


@pytest.mark.parametrize(("scope", "holds_for"), [(RuleScope.ROOM, ROOM), (RuleScope.AGENT, AGENT)])
def test_a_rule_names_where_it_holds(scope: RuleScope, holds_for: UUID) -> None:
    """The room of the request, or its agent; no client chooses another."""
    assert rule("x", scope=scope).scope_id == holds_for


def test_a_decision_is_final() -> None:
    """Nothing follows an answer."""
    assert [new for old, new in APPROVAL.edges()] == ["allowed", "denied", "expired"]
    assert all(APPROVAL.is_terminal(state) for state in ApprovalState if state is not ApprovalState.PENDING)
