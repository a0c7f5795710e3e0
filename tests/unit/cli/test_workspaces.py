"""``jam workspace inspect`` and ``recover``: how a workspace stands, what can be typed next, and what a recovery kept (WS-15, START-3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jamcore.cli.exits import Exit

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Jam

pytestmark = [pytest.mark.guarantee("WS-15", "START-3"), pytest.mark.unprivileged]


def test_a_sound_workspace_is_shown_with_what_comes_next(jam: Jam, room: str) -> None:
    """Its state, where it lies, what an archive is confirmed by, and the commands."""
    done = jam("workspace", "inspect", room)
    assert done.status == Exit.OK
    assert "workspace\tready\n" in done.out
    assert f"an archive is confirmed by\t{'c' * 64}\n" in done.out
    assert f"Next: jam resume {room}\n" in done.err


@pytest.mark.guarantee("SEC-3")
def test_one_that_needs_a_person_says_why_and_is_not_well(jam: Jam) -> None:
    """What is wrong, what lies in the manifest's place, what has not ended, and what stands against its removal; all of it escaped."""
    assert jam("room", "new", "codex", "--name", "bad one").status == Exit.OK
    done = jam("workspace", "inspect", "bad one")
    assert done.status == Exit.NOT_WELL
    assert "Wrong: the host's manifest cannot be read as one\n" in done.out
    assert "  \\x1b[2Jno manifest\n" in done.out
    assert "an archive\tcannot be confirmed: the operation above has not ended\n" in done.out
    assert "not ended\tpush (unknown to this Jam) (c0000000" in done.out
    assert "Stands against its removal: uncommitted: src\\x1b[2J: 1 path differs\n" in done.out
    assert "Next: jam workspace recover 'bad one' retry\n" in done.err
    kept = jam("workspace", "recover", "bad one", "restore-latest")
    assert (kept.status, "What was there is kept: kept-workspace-" in kept.out) == (Exit.OK, True)


@pytest.mark.guarantee("SEC-3")
def test_what_nobody_could_look_at_is_said(jam: Jam) -> None:
    """In its place, and escaped: no line of it would look like nothing that is lost."""
    assert jam("room", "new", "codex", "--name", "dark").status == Exit.OK
    done = jam("workspace", "inspect", "dark")
    assert "What its removal would lose cannot be said: storage.full: detail=\\x1b[2J\n" in done.out
    assert "an archive" not in done.out


def test_a_way_that_is_not_open_is_refused_with_what_to_do(jam: Jam, room: str) -> None:
    """By type; a way that there is none of is a wrong command line."""
    refused = jam("workspace", "recover", room, "restore-latest")
    assert refused.status == Exit.REFUSED
    assert "workspace.not_recoverable" in refused.err
    assert f"jam workspace inspect {room}" in refused.err
    assert jam("workspace", "recover", room, "delete").status == Exit.USAGE
    done = jam("workspace", "recover", room, "export", "--json")
    assert (done.status, done.json["way"]) == (Exit.OK, "export")
