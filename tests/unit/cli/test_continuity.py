"""``jam continuity``: the evidence first, a fresh start only by its checksum and an explicit word (CONT-9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from jamcore.cli.exits import Exit
from jamcore.cli.hints import hint_of
from jamcore.domain.continuity import ContinuityRefusedError, ResumeFailedError

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Jam


@pytest.fixture
def lost(jam: Jam) -> Callable[[str], str]:
    """Make a room that is parked, and return its name: the fake daemon says of such a one that its last resume failed."""

    def make(name: str) -> str:
        assert jam("room", "new", "codex", "--name", name).status == Exit.OK
        assert jam("room", "stop", name).status == Exit.OK
        return name

    return make


@pytest.mark.guarantee("CONT-9")
def test_the_evidence_is_shown_with_the_whole_next_command(jam: Jam, lost: Callable[[str], str]) -> None:
    """The kind, what is lost, what stays; the status says that something is wrong; and a failed resume may be tried again first."""
    room = lost("lost one")
    view = jam("continuity", "inspect", room, "--json").json
    shown = jam("continuity", "inspect", room)
    assert shown.status == Exit.NOT_WELL
    assert [word for word in ("resume-failed", view["digest"], "goes on with a copy", "failed, ") if word not in shown.out] == []
    assert f"jam continuity start-fresh 'lost one' --confirm --evidence {view['digest']}" in shown.err
    assert "jam resume 'lost one'" in shown.err
    assert "begins without them" in jam("continuity", "inspect", lost("bare")).out


@pytest.mark.guarantee("CONT-9")
def test_a_sound_conversation_has_no_command_to_give_it_up(jam: Jam) -> None:
    """It can be resumed."""
    assert jam("room", "new", "codex", "--name", "sound").status == Exit.OK
    shown = jam("continuity", "inspect", "sound")
    assert shown.status == Exit.OK
    assert "start-fresh" not in shown.err
    assert "jam resume sound" in shown.err


@pytest.mark.guarantee("CONT-9", "WS-10")
def test_it_needs_the_word_and_the_checksum(jam: Jam, lost: Callable[[str], str]) -> None:
    """Without either nothing is asked for; with another checksum the daemon refuses; with both it is done and says what stays."""
    room = lost("lost two")
    digest = jam("continuity", "inspect", room, "--json").json["digest"]
    assert jam("continuity", "start-fresh", room, "--evidence", digest, "--json").json["error"]["code"] == "input.invalid"
    assert jam("continuity", "start-fresh", room, "--confirm").status == Exit.USAGE
    for wrong in ("yes", "g" * 64, digest[:-1]):
        said = jam("continuity", "start-fresh", room, "--confirm", "--evidence", wrong, "--json")
        assert (said.status, said.json["error"]["code"]) == (Exit.REFUSED, "input.invalid")
    stale = jam("continuity", "start-fresh", room, "--confirm", "--evidence", "0" * 64, "--json")
    assert (stale.status, stale.json["error"]["code"]) == (Exit.REFUSED, "continuity.reset_refused")
    done = jam("continuity", "start-fresh", room, "--confirm", "--evidence", f" {digest.upper()}\n")
    assert done.status == Exit.OK
    assert done.out.startswith("lost two: a new conversation in jam-2\n")
    assert "it goes on with a copy of its files" in done.err
    assert "jam say 'lost two'" in done.err


@pytest.mark.guarantee("CONT-9")
@pytest.mark.parametrize("room", ["plain", "two words", "'quoted'"])
def test_a_refusal_names_the_room_in_the_next_command(room: str) -> None:
    """Whatever it is called, the line can be copied as it is; without a name the general hint stands."""
    refused = ContinuityRefusedError(session="s", failure="corrupt", detail="d", room=room)
    failed = ResumeFailedError(session="s", expected="a", reported="b", room=room)
    for error in (refused, failed):
        command = hint_of(error).rpartition("jam continuity inspect ")[2]
        assert command in (room, f"'{room}'", "''\"'\"'quoted'\"'\"''")
    siblings = ContinuityRefusedError(session="s", failure="live-state", detail="d", room=room)
    assert "continuity inspect" not in hint_of(siblings), "nothing is lost: it comes back when the others are down"
    assert "jam continuity inspect ROOM" in hint_of(ContinuityRefusedError(session="s", failure="corrupt", detail="d"))
