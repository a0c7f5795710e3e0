"""``jam continuity``: the evidence first, a fresh start only by its checksum and an explicit word (CONT-9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from jamcore.cli.exits import Exit
from jamcore.cli.hints import hint_of
from jamcore.continuity.coordinator import HostBusyError
from jamcore.domain.continuity import CheckpointCorruptError, ContinuityRefusedError, ResumeFailedError
from jamcore.domain.errors import JamError, NotFoundError
from jamcore.domain.resets import ResetRefusedError, ResetUnfinishedError
from jamcore.domain.safekeeping import HostUnsavedError
from jamcore.sandbox.toolchain import ToolchainInstallError

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
    assert "jam room resume 'lost one'" in shown.err
    assert "begins without them" in jam("continuity", "inspect", lost("bare")).out


@pytest.mark.guarantee("CONT-9")
def test_of_a_sound_conversation_is_said_that_nothing_is_wrong(jam: Jam) -> None:
    """And no more: what a fresh start would do is no matter of it."""
    assert jam("room", "new", "codex", "--name", "sound").status == Exit.OK
    shown = jam("continuity", "inspect", "sound")
    assert (shown.status, shown.out) == (Exit.OK, "Nothing is wrong: it can be brought back\n")
    assert shown.err == "reading the last checkpoint …\n"


@pytest.mark.guarantee("CONT-9", "SEC-3")
def test_damage_that_costs_no_conversation_is_told(jam: Jam, lost: Callable[[str], str]) -> None:
    """The checkpoint is damaged, its live state holds all of it: not well, and nothing to give up."""
    room = lost("beside")
    shown = jam("continuity", "inspect", room)
    assert shown.status == Exit.OK
    assert (
        shown.out
        == "The last checkpoint is damaged, and no conversation is lost: it can be brought back: a block is damaged \\x1b[2J\n"
    )
    assert "start-fresh" not in shown.err
    assert "jam room resume beside" in shown.err
    assert (
        "an exact resume, from live state beside damage (a block of it is damaged \\x1b[2J)" in jam("session", "inspect", room).out
    )


@pytest.mark.guarantee("CONT-9", "WS-10")
def test_it_needs_the_word_and_the_checksum(jam: Jam, lost: Callable[[str], str]) -> None:
    """Without either nothing is asked for; with another checksum the daemon refuses; with both it is done and says what stays."""
    room = lost("lost two")
    digest = jam("continuity", "inspect", room, "--json").json["digest"]
    unsaid = jam("continuity", "start-fresh", room, "--evidence", digest)
    assert (unsaid.status, "(continuity.not_confirmed)" in unsaid.err) == (Exit.REFUSED, True)
    assert f"jam continuity start-fresh 'lost two' --confirm --evidence {digest}" in unsaid.err
    assert jam("continuity", "start-fresh", room, "--confirm").status == Exit.USAGE
    for wrong in ("yes", "g" * 64, digest[:-1]):
        said = jam("continuity", "start-fresh", room, "--confirm", "--evidence", wrong, "--json")
        assert (said.status, said.json["error"]["code"]) == (Exit.REFUSED, "input.invalid")
    stale = jam("continuity", "start-fresh", room, "--confirm", "--evidence", "0" * 64, "--json")
    assert (stale.status, stale.json["error"]["code"]) == (Exit.REFUSED, "continuity.reset_refused")
    done = jam("continuity", "start-fresh", room, "--confirm", "--evidence", f" {digest.upper()}\n")
    assert done.status == Exit.OK
    assert done.out.startswith("lost two: a new conversation in jam-2\n")
    assert [line.partition("\t")[0] for line in done.out.splitlines()[1:]] == ["kept", "checkpoint"], "an id that no command takes"
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


@pytest.mark.guarantee("CONT-9", "SEC-3")
def test_a_room_says_what_it_began_afresh_from(jam: Jam) -> None:
    """When, why, and where the old conversation is kept; one that never did says nothing of it."""
    assert jam("room", "new", "codex", "--name", "afresh").status == Exit.OK
    assert jam("room", "new", "codex", "--name", "as-ever").status == Exit.OK
    for words in (("room", "show"), ("session", "inspect")):
        (said,) = [line for line in jam(*words, "afresh").out.splitlines() if line.startswith("began afresh\t2026-01-0")]
        assert "because the last checkpoint is damaged (corrupt); the old one is kept as session " in said
        assert said.endswith(" in jam-old")
        assert "began afresh" not in jam(*words, "as-ever").out
    assert jam("room", "show", "afresh", "--json").json["room"]["fresh_starts"][0]["source_sandbox"] == "jam-old"


@pytest.mark.parametrize(
    ("error", "asked", "said"),
    [
        (ResetRefusedError(host="h", problem="p"), "my room", "`jam continuity inspect 'my room'`"),
        (CheckpointCorruptError(checkpoint="c", detail="d"), "r", "`jam continuity inspect r`"),
        (CheckpointCorruptError(checkpoint="c", detail="d"), "", "`jam continuity inspect ROOM`"),
        (ResetUnfinishedError(host="h", room="its own"), "r", "jam continuity inspect 'its own'"),
        (HostUnsavedError(rooms="one", problem="p", failed_at="t"), "r", "`jam room stop one`"),
        (HostUnsavedError(rooms="one, two", problem="p", failed_at="t"), "r", "`jam room stop ROOM`"),
        (HostBusyError(host="h", wanted="w", holders=("the turn of room a",), limit_s=1.0), "r", "`jam room interrupt ROOM`"),
        (NotFoundError(kind="room", ref="r"), "r", "`jam checkpoint ls ROOM`"),
        (ToolchainInstallError(provider="codex", step="write", detail="full"), "", "`jam provider install codex`"),
    ],
)
def test_hints_name_what_is_known(error: JamError, asked: str, said: str) -> None:
    """The room that the error is about; else the one that was asked about, where it can only be that one; else none."""
    assert said in hint_of(error, room=asked)
