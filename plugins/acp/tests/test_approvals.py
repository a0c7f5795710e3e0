"""What an agent asks before it acts, in a session that asks; and what it hears: this once, or no."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from jam_acp.calls import Call as AgentCall
from jam_acp.profile import Profile
from jam_acp.profiles.opencode import OPENCODE
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


def question_of(profile: Profile, *told: Mapping[str, object], cwd: str = "") -> ApprovalRequested:
    """Return the question about a call of which this was told, bit by bit."""
    call = AgentCall("i", cwd)
    for each in told:
        call.learn(each)
    return call.question(profile)


def test_a_question_says_all_that_would_be_done(plain: Profile) -> None:
    """A command is its words; a change names each file and how; what cannot be said whole is something that no rule covers."""
    command = question_of(plain, {"kind": "execute", "rawInput": {"command": "ls", "cwd": "/w"}})
    assert command == ApprovalRequested(item="i", subject="command", detail="ls", preview="in /w")
    listed = question_of(plain, {"kind": "execute", "rawInput": {"command": ["echo", "a b"]}})
    assert (listed.subject, listed.detail) == ("command", "echo 'a b'")
    diffs = [
        {"type": "diff", "path": "/w/a", "oldText": None, "newText": "x\n"},
        {"type": "diff", "path": "/w/b", "oldText": "y\n", "newText": "z\n"},
    ]
    change = question_of(plain, {"kind": "edit", "content": diffs})
    assert (change.subject, change.detail) == ("file-change", "add /w/a\nupdate /w/b")
    assert change.preview == "add /w/a\n@@ -1,0 +1,1 @@\n+x\nupdate /w/b\n@@ -1,1 +1,1 @@\n-y\n+z"
    gone = question_of(plain, {"kind": "delete", "locations": [{"path": "/w/c"}]})
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
def test_what_is_neither_a_command_nor_a_change_is_something_else(plain: Profile, told: dict[str, object]) -> None:
    """Then no rule of a person covers it."""
    assert question_of(plain, told).subject == "other"


RUN, EDIT = {"kind": "execute", "title": "run"}, {"kind": "edit", "title": "edit"}
DIFF = {"type": "diff", "path": "a", "oldText": "x", "newText": "y"}


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ([{**RUN, "rawInput": {"command": "git status", "env": {"GIT_EXTERNAL_DIFF": "evil"}}}], "evil"),
        ([{**RUN, "rawInput": {"command": "git status", "cmd": "rm -rf /"}}], "rm -rf /"),
        ([{**RUN, "rawInput": {"command": "git status"}}, {"rawInput": {"script": "rm -rf /"}}], "rm -rf /"),
        ([{**RUN, "rawInput": {"command": "rm -rf /"}}, {"rawInput": {"command": "git status"}}], "rm -rf /"),
        ([{**RUN, "rawInput": "rm -rf /"}, {"rawInput": {"command": "git status"}}], "rm -rf /"),
        ([{**RUN, "rawInput": {"command": "git status", "cwd": ["/etc"]}}], "/etc"),
        ([{**RUN, "rawInput": {"command": "git status"}, "content": [DIFF]}], "update a"),
        ([{**EDIT, "content": [DIFF], "locations": [{"path": "a"}, {"path": "/etc/passwd"}]}], "/etc/passwd"),
        ([{**EDIT, "content": [DIFF], "rawInput": {"moveTo": "/etc/x"}}], "/etc/x"),
        ([{**EDIT, "content": [{**DIFF, "path": "/etc/passwd"}]}, {"content": [DIFF]}], "/etc/passwd"),
        ([{**EDIT, "content": [{**DIFF, "path": ["/etc/passwd"]}]}], "/etc/passwd"),
        ([{**EDIT, "locations": [{"path": "/etc/passwd"}]}, {"locations": [{"path": "/w/a"}]}], "/etc/passwd"),
        ([{"kind": "delete", "locations": [{"path": "/w/a"}]}, {"kind": "edit"}], "delete"),
    ],
)
def test_what_a_question_does_not_say_is_shown_whole_and_covered_by_no_rule(
    plain: Profile, told: list[dict[str, object]], words: str
) -> None:
    """A member that the profile does not know, two commands at once, a place beyond the changes, something else that was told before.

    A rule for `git status` must not let anything else through with it.
    """
    question = question_of(plain, *told)
    assert question.subject == "other"
    assert words in question.detail


def test_a_profile_knows_its_agents_inputs(plain: Profile) -> None:
    """What OpenCode tells beside a command, and what its diffs say again, is known; of a profile that does not say so it is not."""
    command = {**RUN, "rawInput": {"command": "ls", "description": "look", "timeout": 9, "cwd": "/w"}}
    change = {**EDIT, "content": [DIFF], "rawInput": {"filePath": "a", "oldString": "x", "newString": "y"}}
    assert [question_of(OPENCODE, told).subject for told in (command, change)] == ["command", "file-change"]
    assert [question_of(plain, told).subject for told in (command, change)] == ["other", "other"]
    other = plain.model_copy(update={"command_key": "cmd"})
    asked = question_of(other, {**RUN, "rawInput": {"cmd": "ls"}})
    assert (asked.subject, asked.detail) == ("command", "ls")


IN_W = {"type": "diff", "path": "/w/a", "oldText": "x\ny\nx\n", "newText": "z\ny\nz\n"}
PATCH = "Index: /w/a\n" + "=" * 67 + "\n--- /w/a\n+++ /w/a\n@@ -1,3 +1,3 @@\n-x\n+z\n y\n-x\n+z\n"


@pytest.mark.parametrize(
    "given",
    [
        {"filePath": "a", "filepath": "/w/./a", "diff": PATCH},
        {"filePath": "/w/a", "content": "z\ny\nz\n"},
        {"filePath": "/w/a", "oldString": "x", "newString": "z", "replaceAll": True},
        {"filePath": "/w/a", "oldString": "x\ny\nx", "newString": "z\ny\nz"},
    ],
)
def test_a_change_whose_input_says_its_diff_again_is_a_change(given: dict[str, object]) -> None:
    """From the session's directory, as a whole, in part, or as a patch."""
    told = {**EDIT, "content": [IN_W], "rawInput": given, "locations": [{"path": "/w/a"}]}
    assert question_of(OPENCODE, {"locations": [{"path": "a"}]}, told, cwd="/w").subject == "file-change"


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"content": [IN_W], "rawInput": {"filePath": "/etc/passwd"}}, "/etc/passwd"),
        ({"content": [IN_W], "rawInput": {"filePath": "/w/b/../a"}}, "/w/b/../a"),
        ({"content": [IN_W], "rawInput": {"filePath": ["/etc/passwd"]}}, "/etc/passwd"),
        ({"locations": [{"path": "/w/a"}], "rawInput": {"filePath": "/etc/passwd"}}, "/etc/passwd"),
        ({"content": [IN_W], "rawInput": {"newString": "EVIL"}}, "EVIL"),
        ({"content": [IN_W], "rawInput": {"content": "EVIL"}}, "EVIL"),
        ({"content": [IN_W], "rawInput": {"oldString": "x", "newString": "EVIL"}}, "EVIL"),
        ({"content": [IN_W], "rawInput": {"oldString": "x", "newString": "z", "content": "EVIL"}}, "EVIL"),
        ({"content": [{**IN_W, "newText": IN_W["oldText"]}], "rawInput": {"oldString": "w", "newString": "EVIL"}}, "EVIL"),
        ({"content": [IN_W], "rawInput": {"diff": PATCH.replace("+z", "+EVIL", 1)}}, "EVIL"),
        ({"content": [IN_W], "rawInput": {"diff": PATCH.replace("/w/a", "/etc/passwd")}}, "/etc/passwd"),
        ({"content": [IN_W, {**IN_W, "path": "/w/b"}], "rawInput": {"content": "z\ny\nz\n"}}, "/w/b"),
        ({"content": [IN_W], "rawInput": {"timeout": "EVIL"}}, "EVIL"),
        ({**RUN, "rawInput": {"command": "git status", "content": "EVIL"}}, "EVIL"),
        ({**RUN, "rawInput": {"command": "git status", "filePath": "/etc"}}, "/etc"),
    ],
)
def test_an_input_that_says_something_else_than_the_change_is_shown_whole(told: dict[str, object], words: str) -> None:
    """A rule for `/w/a` must not let a change of another file through, and a person sees what is not of the diff.

    What a change may say beside is not what a command may.
    """
    question = question_of(OPENCODE, {**EDIT, **told}, cwd="/w")
    assert question.subject == "other"
    assert words in question.detail


def test_a_change_without_its_lines_shows_its_input() -> None:
    """Only a diff says a content again."""
    asked = question_of(OPENCODE, {**EDIT, "locations": [{"path": "/w/a"}], "rawInput": {"filePath": "/w/a", "content": "one"}})
    assert (asked.subject, asked.detail) == ("file-change", "update /w/a")
    assert '"content": "one"' in asked.preview
