"""What an agent asks before it acts, in a session that asks; and what it hears: this once, or no."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from jam_acp.calls import Call as AgentCall
from jam_acp.questions import CANCELLED, reply
from jamcore.api import ApprovalRequested, ProviderEvent
from jamcore.testing.providers.approvals import ALLOW, DENY, ProviderApprovals, questions_in


@pytest.mark.needs("opencode")
@pytest.mark.unprivileged
@pytest.mark.slow
class TestApprovals(ProviderApprovals):
    """OpenCode's. It ends a turn at the first denial, without asking the model again."""

    denied = ""

    def look_at_the_turn(self, events: Sequence[ProviderEvent], work: Path) -> None:
        """A command's question says where it would run, and a change's what it would be."""
        command, change = questions_in(events)
        assert command.preview == f"in {work}"
        assert "+one" in change.preview


OPTIONS = [
    {"optionId": "1", "name": "Always", "kind": "allow_always"},
    {"optionId": "2", "name": "Yes", "kind": "allow_once"},
    {"optionId": "3", "name": "Never", "kind": "reject_always"},
    {"optionId": "4", "name": "No", "kind": "reject_once"},
]


def test_an_option_is_chosen_by_its_kind_and_never_for_good() -> None:
    """Whatever the options are called and wherever they stand; without a "once" the question is cancelled."""
    assert reply(OPTIONS, ALLOW) == {"outcome": {"outcome": "selected", "optionId": "2"}}
    assert reply(OPTIONS, DENY) == {"outcome": {"outcome": "selected", "optionId": "4"}}
    for options in (OPTIONS[::2], [], None, "once", [7], [{"kind": "allow_once"}], [{"optionId": 2, "kind": "allow_once"}]):
        assert reply(options, ALLOW) == CANCELLED
        assert reply(options, DENY) == CANCELLED
    assert reply(OPTIONS, None) == CANCELLED
    assert reply([{"optionId": "5"}], None) == CANCELLED


def call_of(**told: object) -> AgentCall:
    """Return a call of which this was told."""
    call = AgentCall("i")
    call.learn(told)
    return call


def test_a_question_says_all_that_would_be_done() -> None:
    """A command is its words; a change names each file and how; what cannot be said whole is something that no rule covers."""
    command = call_of(kind="execute", rawInput={"command": "ls", "cwd": "/w"}).question()
    assert command == ApprovalRequested(item="i", subject="command", detail="ls", preview="in /w")
    listed = call_of(kind="execute", rawInput={"command": ["echo", "a b"]}).question()
    assert (listed.subject, listed.detail) == ("command", "echo 'a b'")
    diffs = [
        {"type": "diff", "path": "/w/a", "oldText": None, "newText": "x\n"},
        {"type": "diff", "path": "/w/b", "oldText": "y\n", "newText": "z\n"},
    ]
    change = call_of(kind="edit", content=diffs).question()
    assert (change.subject, change.detail) == ("file-change", "add /w/a\nupdate /w/b")
    assert change.preview == "add /w/a\n@@ -1,0 +1,1 @@\n+x\nupdate /w/b\n@@ -1,1 +1,1 @@\n-y\n+z"
    gone = call_of(kind="delete", locations=[{"path": "/w/c"}]).question()
    assert (gone.subject, gone.detail) == ("file-change", "delete /w/c")


@pytest.mark.parametrize(
    "told",
    [
        {"kind": "execute", "title": "run it"},
        {"kind": "execute", "rawInput": {"command": "x" * (1 << 20)}},
        {"kind": "edit", "title": "edit"},
        {"kind": "move", "title": "move", "locations": [{"path": "/a"}, {"path": "/b"}]},
        {"kind": "fetch", "title": "get it", "rawInput": {"url": "https://example.org"}},
        {"kind": "edit", "locations": [{"path": f"/{n}" + "x" * 4_000} for n in range(200)]},
        {},
    ],
    ids=["no command", "too long", "no path", "a move", "another kind", "too many", "nothing"],
)
def test_what_is_neither_a_command_nor_a_change_is_something_else(told: dict[str, object]) -> None:
    """Then no rule of a person covers it."""
    assert call_of(**told).question().subject == "other"
