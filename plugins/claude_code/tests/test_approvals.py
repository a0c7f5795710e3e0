"""What the real Claude Code asks before it acts, in a thread that asks; and what it hears: this once, or no."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from jam_claude_code.questions import DENIED, question, reply
from jamcore.api import EVENT_TEXT, ApprovalRequested, ProviderEvent
from jamcore.testing.providers.approvals import ALLOW, DENY, ProviderApprovals, questions_in


@pytest.mark.needs("claude_code")
@pytest.mark.unprivileged
class TestApprovals(ProviderApprovals):
    """Claude Code's."""

    change = "update"
    denied = DENIED

    def look_at_the_turn(self, events: Sequence[ProviderEvent], work: Path) -> None:
        """The path that a command is about lies in the workspace, and is not said to lie outside."""
        assert questions_in(events)[0].preview == f"touches {work / 'made.txt'}"


def asked(tool: str, **given: object) -> dict[str, object]:
    """Return a question as Claude Code asks it."""
    return {"subtype": "can_use_tool", "tool_use_id": "i", "tool_name": tool, "input": given}


def test_a_command_that_wants_more_is_something_else() -> None:
    """With an option that changes how it is run, no rule that covers the command covers it."""
    plain = asked("Bash", command="ls", description="look", timeout=5)
    because = {**plain, "decision_reason": "it is new", "blocked_path": "/etc"}
    assert question(because, "/w") == ApprovalRequested(
        item="i", subject="command", detail="ls", preview="because it is new\noutside /etc"
    )
    assert question(asked("Bash", command="ls", dangerouslyDisableSandbox=True)).subject == "other"
    assert question(asked("Bash", command="x" * (EVENT_TEXT + 1))).subject == "other"
    assert question(asked("Bash")).subject == "other"
    assert question({"tool_use_id": "i"}).subject == "other"


@pytest.mark.parametrize(
    ("path", "label"),
    [
        ("/w/a", "touches"),
        ("/w", "touches"),
        ("a", "touches"),
        ("/w/../etc", "outside"),
        ("/wide/a", "outside"),
        ("/etc", "outside"),
    ],
)
def test_a_path_is_called_outside_only_where_it_is(path: str, label: str) -> None:
    """Claude Code names the path that it asks about also where that lies in the workspace: a person must not read the opposite."""
    about = {**asked("Bash", command="echo hello >> a"), "blocked_path": path}
    assert question(about, "/w").preview == f"{label} {path}"


def test_a_change_of_a_file_names_it() -> None:
    """What a rule would compare is which file; what would be in it is to look at."""
    for tool, place in (("Write", "file_path"), ("Edit", "file_path"), ("NotebookEdit", "notebook_path")):
        about = question(asked(tool, **{place: "/w/a", "content": "x"}))
        assert (about.subject, about.detail) == ("file-change", "update /w/a")
        assert '"content": "x"' in about.preview
    assert question(asked("Write", content="x")).subject == "other"
    assert question(asked("Write", file_path="/" + "x" * EVENT_TEXT)).subject == "other"


def test_anything_else_is_shown_whole() -> None:
    """Reading outside the workspace, an unknown tool: its name and all that it was given."""
    about = question(asked("Read", file_path="/etc/hostname"))
    assert (about.subject, about.detail) == ("other", 'Read {"file_path": "/etc/hostname"}')


def test_only_this_once_or_no_is_ever_said() -> None:
    """Exactly what was asked about, none of the rules, directories and modes that are suggested with it."""
    suggested = {**asked("Bash", command="ls"), "permission_suggestions": [{"type": "setMode", "mode": "acceptEdits"}]}
    assert reply(suggested, ALLOW) == {"behavior": "allow", "updatedInput": {"command": "ls"}}
    assert reply(suggested, DENY) == {"behavior": "deny", "message": DENIED}


def test_what_nobody_could_see_whole_is_not_granted() -> None:
    """A question whose words were cut is denied, whatever the answer; one that was shown whole is granted as it is."""
    hidden = asked("Read", file_path="/" + "a" * EVENT_TEXT)
    assert reply(hidden, ALLOW)["behavior"] == "deny"
    assert reply(asked("Read", file_path="/a"), ALLOW)["updatedInput"] == {"file_path": "/a"}
