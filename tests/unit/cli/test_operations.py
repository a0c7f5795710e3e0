"""``jam operation``: what Jam did, told like a log; what was cut short and what is damaged are said so (WS-2, WS-3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jamcore.cli.exits import Exit

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Jam

pytestmark = [pytest.mark.guarantee("WS-2"), pytest.mark.unprivileged]


@pytest.mark.guarantee("START-1", "SEC-3")
def test_a_list_has_every_operation_whatever_is_wrong_with_one(jam: Jam) -> None:
    """A failure, one of an unknown kind that was cut short, and a damaged row; what an agent could name is escaped."""
    done = jam("operation", "ls", "--room", "r", "--limit", "9")
    failed, cut, damaged = (line.split("\t") for line in done.out.splitlines())
    assert failed[1:5:3] == ["failed", "archive of the workspace of r\\x1b[2J"]
    assert (failed[3], failed[5]) == ("1 min 30 s", "workspace.removal_blocked")
    assert (cut[1], cut[4]) == ("running, cut short", "push (unknown to this Jam)")
    assert (damaged[1], damaged[5]) == ("unreadable", "its row cannot be read")
    assert [row["state"] for row in jam("operation", "ls", "--unfinished", "--json").json] == ["running"]
    assert jam("operation", "ls", "--unfinished", "--room", "idle").err == "Every operation has ended.\n"
    assert "--limit N shows up to" in jam("operation", "ls", "--limit", "1").err


@pytest.mark.guarantee("WS-3")
def test_a_story_has_times_failures_and_what_to_do(jam: Jam) -> None:
    """Each step with how long it took and the class of its failure; what was confirmed; what stays; what is next."""
    done = jam("operation", "show", "f0000000")
    assert done.status == Exit.OK
    assert f"confirmed\t{'a' * 64}\n" in done.out
    story = [line[21:] for line in done.out.splitlines() if line.startswith("20")]
    assert story == [
        "the operation is pending",
        "inspect: begins",
        "inspect: failed  workspace.removal_blocked  (2.0 s)",
        "failed  workspace.removal_blocked  (1 min 30 s)",
    ]
    assert "What stays: the workspace as it was\n" in done.out
    assert "Next: Commit and push the work." in done.err
    assert "\x1b" not in done.out


def test_one_that_is_watched_to_its_end_has_the_status_of_that_end(jam: Jam) -> None:
    """Lines after a number, as text and as JSON; a failure is not well; an unknown one is refused."""
    done = jam("operation", "watch", "f0000000", "--after", "3")
    assert (done.status, len(done.out.splitlines())) == (Exit.NOT_WELL, 2)
    lines = jam("operation", "watch", "f0000000", "--after", "2", "--json").lines
    assert [line["line"]["seq"] for line in lines] == [3, 4]
    assert jam("operation", "watch", "e0000000").status == Exit.REFUSED
