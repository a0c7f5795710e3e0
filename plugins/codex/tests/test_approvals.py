"""What the real Codex asks before it acts, in a thread that asks; and what it hears: this once, or no."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from jam_codex.questions import CHANGE, COMMAND, PERMISSIONS, change, command, permissions, reply
from jamcore.api import EVENT_TEXT, ApprovalAnswer, ApprovalRequested, ProviderEvent, RemoteError
from jamcore.testing.providers.approvals import ALLOW, DENY, ProviderApprovals, questions_in


@pytest.mark.needs("codex")
@pytest.mark.unprivileged
class TestApprovals(ProviderApprovals):
    """Codex's."""

    denied = "rejected"

    def look_at_the_turn(self, events: Sequence[ProviderEvent], work: Path) -> None:
        """A command's question says where it would run."""
        assert questions_in(events)[0].preview == f"in {work}"


def test_a_command_that_wants_more_is_something_else() -> None:
    """More permissions, a network host, input to a running terminal: no rule that covers the command covers that."""
    plain = {"command": "ls", "cwd": "/w", "reason": "need it"}
    assert command("i", plain) == ApprovalRequested(item="i", subject="command", detail="ls", preview="in /w\nbecause need it")
    for more in (
        {"additionalPermissions": {"network": {"enabled": True}}},
        {"networkApprovalContext": {"host": "h"}},
        {"kind": "writeStdin"},
    ):
        about = command("i", {**plain, **more})
        assert about.subject == "other"
        assert about.detail.startswith("ls\n{")
    assert command("i", {}).subject == "other"
    assert command("i", {"command": "x" * (EVENT_TEXT + 1)}).subject == "other"


def test_a_change_of_files_names_every_file() -> None:
    """What a rule would compare holds kinds and paths; what cannot be listed whole is something else."""
    changes = [{"path": "/w/a", "kind": {"type": "add"}, "diff": "x"}, {"path": "/w/b", "kind": {"type": "delete"}, "diff": "y"}]
    about = change("i", {}, changes)
    assert about is not None
    assert (about.subject, about.detail) == ("file-change", "add /w/a\ndelete /w/b")
    assert about.preview == "add /w/a\nx\ndelete /w/b\ny"
    for params, entries in (
        ({}, [{**changes[0], "path": f"/{n}" + "x" * 4000} for n in range(300)]),
        ({"grantRoot": "/"}, changes),
        ({}, [{"path": "/w/a", "kind": {"type": "update", "move_path": "/w/c"}, "diff": ""}]),
    ):
        about = change("i", params, entries)
        assert about is not None
        assert about.subject == "other"


@pytest.mark.parametrize(
    "announced", [None, [], {}, [{"path": "/w/a", "kind": {"type": "add"}}, "/w/b"], [{"kind": {"type": "add"}}]]
)
def test_a_change_of_which_the_files_are_not_known_is_no_question(announced: object) -> None:
    """A person who said yes would not know to what."""
    assert change("i", {"grantRoot": "/", "reason": "trust me"}, announced) is None


def test_only_this_once_or_no_is_ever_said() -> None:
    """Nothing for the session, no amendment of Codex's own rules, no more than was asked for."""
    for method in (COMMAND, CHANGE):
        assert reply(method, {}, ALLOW) == {"decision": "accept"}
        assert reply(method, {}, DENY) == {"decision": "decline"}
    wanted = {"permissions": {"network": {"enabled": True}}}
    assert reply(PERMISSIONS, wanted, ALLOW) == {**wanted, "scope": "turn"}
    with pytest.raises(RemoteError):
        reply(PERMISSIONS, wanted, DENY)
    assert permissions("i", wanted).detail == '{"network": {"enabled": true}}'


def test_what_nobody_could_see_whole_is_not_granted() -> None:
    """A grant whose words were cut is denied, whatever the answer; one that was shown whole is granted as it is."""
    shown: dict[str, object] = {"permissions": {"fileSystem": {"write": ["/a"]}}}
    hidden: dict[str, object] = {"permissions": {"fileSystem": {"write": ["/" + "a" * EVENT_TEXT, "/etc"]}}}
    assert reply(PERMISSIONS, shown, ApprovalAnswer.ALLOW)["permissions"] == shown["permissions"]
    with pytest.raises(RemoteError):
        reply(PERMISSIONS, hidden, ApprovalAnswer.ALLOW)
