"""``jam approvals`` and the prompt of ``jam attach``."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import pytest

from jamcore.cli.approvals import Asking
from jamcore.cli.events import EventView
from jamcore.cli.exits import Exit
from jamcore.cli.output import Output
from jamcore.domain.approvals import ApprovalAnswer, ApprovalState, DecidedBy, DecisionRequest
from jamcore.domain.events import ApprovalDecided, ApprovalRequested, RoomEvent, RoomPayload, TurnEnded, TurnOutcome
from jamcore.system.ids import SystemIds

if TYPE_CHECKING:
    from jamcore.testing.jam_program import Terminal
    from tests.unit.cli.conftest import Jam

pytestmark = pytest.mark.unprivileged
WAIT_S = 20.0
SHOWN = r"touch \x1b[31mf"
"""What the fake's agent asks for, as a terminal may show it."""


def pending(jam: Jam, room: str) -> list[Any]:
    """Return what waits in a room."""
    found: list[Any] = jam("approvals", "ls", "--room", room, "--state", "pending", "--json").json
    return found


def asked(jam: Jam, room: str) -> str:
    """Have the agent ask, and return the approval's id."""
    assert jam("say", room, "ask", "--detach").status == Exit.OK
    return waits(jam, room)


def waits(jam: Jam, room: str) -> str:
    """Wait until something is asked in a room, and return its id."""
    deadline = time.monotonic() + WAIT_S
    while not (found := pending(jam, room)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return str(found[0]["id"])


@pytest.mark.guarantee("SEC-3")
def test_what_is_asked_is_listed_and_shown(jam: Jam, room: str) -> None:
    """A row for each, and one with all that is known of it; what the agent wrote steers no terminal."""
    approval = asked(jam, room)
    rows = [line.split("\t") for line in jam("approvals", "ls", "--room", room).out.splitlines()]
    assert [(row[2], row[5], row[6]) for row in rows] == [("pending", "command", SHOWN)]
    shown = jam("approvals", "show", approval)
    assert SHOWN in shown.out
    assert "in /jam/work" in shown.out
    assert f"jam approvals decide {approval} allow" in shown.err
    assert jam("approvals", "show", approval, "--json").json["state"] == "pending"


@pytest.mark.parametrize(("answer", "state"), [("allow", "allowed"), ("deny", "denied")])
def test_an_answer_counts_once(jam: Jam, room: str, answer: str, state: str) -> None:
    """The first is done; the second is refused, with how it was decided."""
    approval = asked(jam, room)
    first = jam("approvals", "decide", approval, answer)
    assert (first.status, first.out) == (Exit.OK, f"{approval}: {state}\n")
    second = jam("approvals", "decide", approval, "allow")
    assert second.status == Exit.REFUSED
    assert "conflict.approval_decided" in second.err
    assert "decided_by: person" in second.err
    assert jam("approvals", "decide", approval, "deny", "--json").json["error"]["code"] == "conflict.approval_decided"


def test_rules_are_made_listed_and_removed(jam: Jam, room: str) -> None:
    """An answer that holds for good is a rule of its own, which can be taken back."""
    approval = asked(jam, room)
    assert jam("approvals", "decide", approval, "allow", "--always", "room", "--json").json["state"] == "allowed"
    [rule] = [rule for rule in jam("approvals", "rules", "ls", "--json").json if rule["created_by_approval"] == approval]
    assert (rule["scope"], rule["match"]) == ("room", "exact")
    assert SHOWN in jam("approvals", "rules", "ls").out
    assert jam("approvals", "rules", "rm", rule["id"]).out == f"{rule['id']}: removed\n"
    assert jam("approvals", "rules", "rm", rule["id"]).status == Exit.REFUSED


def test_an_answer_that_makes_no_sense_is_refused(jam: Jam, room: str) -> None:
    """A rule beside a denial, a prefix that does not fit, a word that is no answer, an id that is nobody's."""
    approval = asked(jam, room)
    assert jam("approvals", "decide", approval, "deny", "--always", "room").status == Exit.REFUSED
    assert jam("approvals", "decide", approval, "allow", "--always", "agent", "--prefix", "rm").status == Exit.REFUSED
    assert jam("approvals", "decide", approval, "maybe").status == Exit.USAGE
    assert jam("approvals", "show", "ffffffff-ffff-7fff-8fff-ffffffffffff").status == Exit.REFUSED
    assert len(pending(jam, room)) == 1


def test_a_room_says_whether_its_agent_asks(jam: Jam) -> None:
    """It does not unless that was chosen: the sandbox is the boundary."""
    quiet = jam("room", "new", "codex", "--name", "quiet", "--json").json
    asking = jam("room", "new", "codex", "--name", "asking", "--approvals", "ask", "--json").json
    assert (quiet["session"]["approvals"], asking["session"]["approvals"]) == ("never", "ask")
    assert "asks before it acts\tno\n" in jam("room", "show", "quiet").out
    assert "asks before it acts\tyes\n" in jam("room", "show", "asking").out


@pytest.mark.parametrize(
    ("key", "state", "rules"), [("y", "allowed", 0), ("n", "denied", 0), ("a", "allowed", 1)], ids=["once", "no", "always"]
)
def test_attach_asks_on_the_spot(jam: Jam, room: str, terminal: Callable[..., Terminal], key: str, state: str, rules: int) -> None:
    """On a terminal the person is asked with what it is about, answers with one key, and sees what became of it."""
    attached = terminal("attach", room)
    attached.expect("/quit")
    attached.press("ask\n")
    attached.expect("asks for permission, command: " + SHOWN)
    attached.expect("y: this once, n: no, a: always in this room")
    approval = waits(jam, room)
    attached.press(f"{key}\n")
    attached.expect(f"{state} (by a person)")
    attached.press("/quit\n")
    assert attached.end() == Exit.OK
    assert jam("approvals", "show", approval, "--json").json["state"] == state
    made = [rule for rule in jam("approvals", "rules", "ls", "--json").json if rule["created_by_approval"] == approval]
    assert len(made) == rules


def test_attach_asks_what_waited_already(jam: Jam, room: str, terminal: Callable[..., Terminal]) -> None:
    """Also when the question is older than the history that is shown; a letter where nothing was asked is a message."""
    approval = asked(jam, room)
    attached = terminal("attach", room, "--history", "0")
    attached.expect(f"a: always in this room   ({approval[-12:]})")
    attached.press("n\n")
    attached.expect("denied (by a person)")
    attached.press("/quit\n")
    assert attached.end() == Exit.OK
    attached = terminal("attach", room, "--history", "0")
    attached.expect("/quit")
    attached.press("y\n")
    attached.expect("echo: y")
    attached.press("/quit\n")
    assert attached.end() == Exit.OK


def test_an_answer_to_a_question_that_somebody_else_answered_is_no_message(
    jam: Jam, room: str, terminal: Callable[..., Terminal]
) -> None:
    """The prompt is gone with the question: an answer that comes late is neither given nor sent, unless the person means it so."""
    attached = terminal("attach", room)
    attached.expect("/quit")
    attached.press("ask\n")
    attached.expect("y: this once")
    assert jam("approvals", "decide", waits(jam, room), "deny").status == Exit.OK
    attached.expect("denied (by a person)")
    attached.press("n\n")
    attached.expect("The question that was asked here is gone, so nothing was answered and nothing was sent.")
    attached.press("n\n")
    attached.expect("echo: n")
    attached.press("/quit\n")
    assert attached.end() == Exit.OK


class Room:
    """The questions of a room at a terminal, without a terminal: what is typed and told, and what became of it."""

    def __init__(self) -> None:
        self.printed = io.StringIO()
        self.given: list[tuple[UUID, ApprovalAnswer]] = []
        session = SimpleNamespace(output=Output(json=False, out=io.StringIO(), err=self.printed), ids=SystemIds())
        client = SimpleNamespace(approvals=SimpleNamespace(decide=self._decide))
        self.asking = Asking(cast("Any", session), cast("Any", client), "r", watch=False)
        self.asking.prompts = True
        self._seq = 0

    async def _decide(self, approval: str, request: DecisionRequest) -> None:
        self.given.append((UUID(approval), request.decision))

    def tell(self, payload: RoomPayload) -> None:
        """Tell an event."""
        self._seq += 1
        at = datetime(2026, 1, 2, tzinfo=UTC)
        self.asking.heard(RoomEvent(room_id=UUID(int=9), seq=self._seq, at=at, turn_id=None, payload=payload))

    def asks(self, number: int) -> None:
        """Have the agent ask."""
        self.tell(ApprovalRequested(item=f"i{number}", subject="command", detail="ls", request=str(UUID(int=number))))

    def decided(self, number: int, by: DecidedBy = DecidedBy.PERSON) -> None:
        """Tell that a question was decided."""
        self.tell(ApprovalDecided(approval=UUID(int=number), state=ApprovalState.DENIED, decided_by=by))

    async def type(self, *lines: str) -> list[bool]:
        """Type lines and return for each whether it was kept from the agent."""
        return [await self.asking.answered(line) for line in lines]


@pytest.mark.anyio
@pytest.mark.parametrize("by", [DecidedBy.PERSON, DecidedBy.DEADLINE, DecidedBy.TURN_ENDED])
async def test_a_late_answer_is_no_message_and_is_said(by: DecidedBy) -> None:
    """Whoever or whatever decided; typed again it is meant for the agent, and after any other line nothing is late."""
    for second in ("y", "go on"):
        room = Room()
        room.asks(1)
        room.decided(1, by)
        if by is DecidedBy.TURN_ENDED:
            room.tell(TurnEnded(outcome=TurnOutcome.COMPLETED))
        assert await room.type("y" if second == "y" else second, "y") == [second == "y", False]
        assert ("is gone" in room.printed.getvalue()) is (second == "y")
        assert room.given == []


@pytest.mark.anyio
async def test_an_answer_that_was_begun_for_one_question_is_not_given_to_the_next() -> None:
    """Its prompt came between the key and the line; it is shown again, and answered by what is typed then."""
    room = Room()
    room.asks(1)
    room.asks(2)
    room.decided(1, DecidedBy.DEADLINE)
    assert await room.type("y") == [True]
    assert room.given == []
    assert room.printed.getvalue().count(f"({str(UUID(int=2))[-12:]})") == 2
    assert await room.type("n") == [True]
    assert room.given == [(UUID(int=2), ApprovalAnswer.DENY)]


@pytest.mark.anyio
async def test_an_answer_that_is_typed_twice_is_no_message_while_its_turn_runs() -> None:
    """After the turn a letter may answer what the agent says at its end; a question that is asked in it takes its own answer."""
    room = Room()
    room.asks(1)
    assert await room.type("y", "y") == [True, True]
    assert room.given == [(UUID(int=1), ApprovalAnswer.ALLOW)]
    assert "is gone" in room.printed.getvalue()
    room.decided(1)
    room.asks(2)
    assert await room.type("y") == [True]
    room.decided(2)
    room.tell(TurnEnded(outcome=TurnOutcome.COMPLETED))
    assert await room.type("y") == [False]
    assert [approval.int for approval, _ in room.given] == [1, 2]


@pytest.mark.guarantee("SEC-3")
def test_a_question_is_shown_whole() -> None:
    """Nothing of what would be allowed is cut off or hidden, however long it is; of the rest the person is told what is missing."""
    out, err = io.StringIO(), io.StringIO()
    view = EventView(Output(json=False, out=out, err=err), ref="r", mine=set())
    detail = "echo harmless" + " " * 400 + "; rm -rf ~\n\x1b[2Jsecond line\u202e"
    asked = ApprovalRequested(item="i", subject="command", detail=detail, request=str(UUID(int=1)), preview="+x\n" * 100)
    view.show(RoomEvent(room_id=UUID(int=2), seq=1, at=datetime(2026, 1, 2, tzinfo=UTC), turn_id=None, payload=asked))
    shown = err.getvalue()
    assert "; rm -rf ~" in shown
    assert "\\x1b[2Jsecond line\\u202e" in shown
    assert f"… 60 lines more: jam approvals show {UUID(int=1)}" in shown
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", shown)


def test_on_a_pipe_the_command_to_type_is_printed(home: Path, jam: Jam, room: str) -> None:
    """Nobody is prompted where nobody types; a line of the pipe is a message, whatever it says."""
    piped = subprocess.Popen(
        [sys.executable, "-m", "jamcore.cli.main", "attach", room],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "JAM_HOME": str(home)},
    )
    assert piped.stdin is not None
    piped.stdin.write("ask\ny\n")
    piped.stdin.close()
    piped.stdin = None
    approval = waits(jam, room)
    assert jam("approvals", "decide", approval, "allow").status == Exit.OK
    out, err = piped.communicate(timeout=WAIT_S)
    assert f"answer: jam approvals decide {approval} allow" in err
    assert "allowed (by a person)" in err
    assert not re.search("this once, n: no", err)
    assert "echo: y" in out


def test_say_shows_how_to_answer(home: Path, jam: Jam, room: str) -> None:
    """Whoever watches one turn sees the question and the command that answers it; as JSON it is an event like any other."""
    said = subprocess.Popen(
        [sys.executable, "-m", "jamcore.cli.main", "say", room, "ask", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "JAM_HOME": str(home)},
    )
    approval = waits(jam, room)
    assert jam("approvals", "decide", approval, "deny").status == Exit.OK
    out, err = said.communicate(timeout=WAIT_S)
    assert '"kind": "approval.requested", "item": "c1", "subject": "command"' in out
    assert f'"request": "{approval}"' in out
    assert '"kind": "approval.decided"' in out
    assert err == ""
