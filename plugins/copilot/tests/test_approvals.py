"""What the real Copilot asks before it acts, in a thread that asks; and what it hears: this once, or no."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from jam_copilot.questions import only_reads, question, reply
from jamcore.api import EVENT_TEXT, ApprovalPolicy, ApprovalRequested, Notice, ProviderEvent, ToolCall
from jamcore.testing.providers.approvals import ALLOW, DENY, TOUCH, ProviderApprovals, questions_in
from jamcore.testing.providers.case import Case, one_after_another
from jamcore.testing.servers.script import Call


@pytest.mark.needs("copilot")
@pytest.mark.unprivileged
class TestApprovals(ProviderApprovals):
    """Copilot's. Without words of Jam's a denial would end the turn."""

    denied = "rejected"
    further = ("tool.call", "approval.requested", "file.changed")

    def further_calls(self, work: Path) -> Sequence[Call]:
        """A look, and a change of the file."""
        edit = Call(name="edit", arguments={"path": str(work / "new.txt"), "old_str": "one", "new_str": "two"}, call_id="c4")
        return (Call(name="view", arguments={"path": str(work)}, call_id="c3"), edit)

    def look_at_the_turn(self, events: Sequence[ProviderEvent], work: Path) -> None:
        """Each change is asked about; to look is not. What a command is for is shown with it."""
        command, add, update = questions_in(events)
        assert "what it does" in command.preview
        assert "+one" in add.preview
        assert (update.item, update.subject, update.detail) == ("c4", "file-change", f"update {work / 'new.txt'}")
        assert [event.ok for event in events if isinstance(event, ToolCall)] == [True]
        assert (work / "new.txt").read_text() == "two\n"

    async def test_a_thread_that_never_asks_does_not_outside_the_workspace_either(self, case: Case, tmp_path: Path) -> None:
        """The sandbox is the boundary, not the workspace."""
        beside = case.provider.write("c2", tmp_path, "beside.txt", "x")
        async with case.running(*one_after_another((case.provider.shell("c1", TOUCH), beside), "done")) as (_, runtime):
            events = await self.answered(case, runtime, await case.begin(runtime), DENY)
        assert [event for event in events if isinstance(event, ApprovalRequested | Notice)] == []
        assert (case.work / "made.txt").exists()
        assert (tmp_path / "beside.txt").exists()

    async def test_to_look_is_asked_about_where_no_sandbox_is(
        self, case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """This Copilot does not say where a path leads: a link in the workspace looks like any other file there."""
        (tmp_path / "beside.txt").write_text("of-another")
        (case.work / "link.txt").symlink_to(tmp_path / "beside.txt")
        look = Call(name="view", arguments={"path": str(case.work / "link.txt")}, call_id="c1")
        async with case.running(*one_after_another((look,), "done")) as (model, runtime):
            monkeypatch.setattr(runtime, "_isolated", False)
            events = await self.answered(case, runtime, await case.begin(runtime, approvals=ApprovalPolicy.ASK), DENY)
        assert [event.item for event in questions_in(events)] == ["c1"]
        assert "of-another" not in str(model.model_requests[-1].body)


def asked(**request: object) -> ApprovalRequested:
    """Return the event for a request."""
    return question({"requestId": "r", "permissionRequest": {"toolCallId": "i", **request}})


def test_a_command_that_wants_more_is_something_else() -> None:
    """Out of Copilot's own sandbox, or too long to be shown: no rule that covers the command covers that."""
    plain = {"kind": "shell", "fullCommandText": "ls", "intention": "need it", "resolvedWorkingDirectory": "/w"}
    about = asked(**plain)
    assert about == ApprovalRequested(item="i", subject="command", detail="ls", request="r", preview="in /w\nbecause need it")
    for more in ({"requestSandboxBypass": True}, {"requestSandboxPermissive": True}, {"sandboxPathGrant": {"path": "/"}}):
        about = asked(**plain, **more)
        assert about.subject == "other"
        assert about.detail.startswith("ls\n{")
    assert asked(kind="shell").subject == "other"
    assert asked(kind="shell", fullCommandText="x" * (EVENT_TEXT + 1)).subject == "other"


def test_a_change_of_files_names_every_file() -> None:
    """What a rule would compare holds kinds and paths; what cannot be listed whole, moves, or lies elsewhere is something else."""
    added, changed = {"after": {"path": "/w/a"}}, {"before": {"path": "/w/b"}, "after": {"path": "/w/b"}}
    removed, moved = {"before": {"path": "/w/c"}}, {"before": {"path": "/w/d"}, "after": {"path": "/w/e"}}
    write = {"kind": "write", "fileName": "/w/a", "diff": "\n+x\n"}
    about = asked(**write, fileEdits=[added, changed, removed])
    assert (about.subject, about.detail, about.preview) == ("file-change", "add /w/a\nupdate /w/b\ndelete /w/c", "+x")
    assert asked(**write).subject == "other"
    assert asked(**write, fileEdits=[added, moved]).subject == "other"
    assert asked(**write, fileEdits=[added], requestSandboxBypass=True).subject == "other"
    linked = asked(**write, fileEdits=[added], resolvedPath="/etc/passwd")
    assert (linked.subject, linked.detail) == ("other", "add /w/a\nreally /etc/passwd")
    assert asked(**write, fileEdits=[{"after": {"path": "/" + "x" * EVENT_TEXT}}]).subject == "other"


def test_anything_else_is_shown_whole() -> None:
    """An address, a server's tool, something nobody has heard of."""
    about = asked(kind="url", url="http://h/")
    assert (about.subject, about.item) == ("other", "i")
    assert '"http://h/"' in about.detail
    assert asked().subject == "other"


@pytest.mark.parametrize(
    ("request_", "isolated", "alone"),
    [
        ({"kind": "read", "path": "/w/a"}, True, True),
        ({"kind": "read", "path": "/etc/hostname"}, True, True),
        ({"kind": "read", "path": "/w/a", "resolvedPath": "/w/b"}, False, True),
        ({"kind": "read", "path": "/w/a"}, False, False),
        ({"kind": "read", "path": "/etc/hostname", "resolvedPath": "/w/a"}, False, False),
        ({"kind": "read", "path": "/w/../etc/hostname", "resolvedPath": "/w/a"}, False, False),
        ({"kind": "read", "path": "/w/a", "resolvedPath": "/etc/hostname"}, False, False),
        ({"kind": "read", "path": "/w/a", "requestSandboxBypass": True}, True, False),
        ({"kind": "read"}, False, False),
        ({"kind": "write", "fileName": "/w/a"}, True, False),
        ({}, True, False),
    ],
)
def test_to_look_is_asked_about_only_where_no_sandbox_is(request_: dict[str, object], isolated: bool, alone: bool) -> None:
    """In a sandbox there is nothing to hide; on the machine itself there is, outside the workspace, and a link in it may lead there."""
    assert only_reads(request_, "/w", isolated=isolated) is alone


def test_only_this_once_or_no_is_ever_said() -> None:
    """Nothing for the session, nothing for this place; and no with words, so that the turn goes on."""
    assert reply(ALLOW) == {"kind": "approve-once"}
    assert reply(DENY)["kind"] == "reject"
    assert reply(DENY)["feedback"]
