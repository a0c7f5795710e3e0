"""A program that is not the one that was expected: every nonsense becomes a typed error, nothing hangs, and the process is gone."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import anyio
import pytest

from jam_copilot import runtime as runtime_module
from jam_copilot.opening import MESSAGE_BYTES
from jam_copilot.pins import PROGRAM, VERSION
from jamcore.api import (
    ApprovalAnswer,
    ApprovalPolicy,
    Notice,
    ProviderEvent,
    ProviderGoneError,
    ProviderProtocolError,
    ProviderRefusedError,
    ProviderRuntime,
    ProviderTimeoutError,
    TextDelta,
    ThreadRequest,
    TurnEnded,
    TurnOutcome,
    provider_identity,
)
from jamcore.testing.providers.bad_programs import LIMIT_S, ProviderBadPrograms, collect
from jamcore.testing.providers.case import Case
from jamcore.testing.providers.standin import NOWHERE, Bad, StandIn

pytestmark = [pytest.mark.unprivileged]

PROGRAM_TEXT = """#!/usr/bin/env python3
import json, os, sys, time

def raw(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()

def send(message):
    body = json.dumps(message).encode()
    raw(b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)

def told(kind, session="s", **data):
    send({"method": "session.event", "params": {"sessionId": session, "event": {"type": kind, "data": data}}})

def receive():
    length = 0
    while (line := sys.stdin.buffer.readline()) not in (b"\\r\\n", b""):
        length = int(line.split(b":")[1])
    return json.loads(sys.stdin.buffer.read(length)) if line else sys.exit(0)

while True:
    asked = receive()
    def answer(result):
        send({"id": asked["id"], "result": result})
    match asked["method"]:
        case "connect":
            #connect
            answer({"ok": True, "protocolVersion": 3, "version": "1.0.102"})
        case "session.create" | "session.resume":
            #session
            answer({"sessionId": "s"})
        case "sessions.checkInUse":
            #in_use
            answer({"inUse": []})
        case "session.eventLog.read":
            #journal
            answer({"events": [], "hasMore": False, "cursor": "0", "cursorStatus": "ok"})
        case "session.send":
            #send
            answer({"messageId": "m"})
            told("user.message", messageId="m", content="hello")
        case "sessions.save":
            #save
            answer({})
            told("assistant.turn_start", turnId="0")
            told("assistant.message_delta", messageId="a", deltaContent="kept")
            #running
            told("session.idle", mode="interactive")
        case "session.abort":
            #abort
            answer({"success": True})
            told("session.idle", aborted=True)
        case "session.tasks.list":
            answer({"tasks": []})
        case _:
            #other
            answer({"success": True})
"""
NOTE = 'print(asked["method"], asked["params"].get("sessionId"), file=open({path!r}, "a"), flush=True)'
QUESTION = 'told("permission.requested", requestId="r", permissionRequest={"kind": "shell", "fullCommandText": "rm -rf /"});'
HEARD = (
    'heard = receive(); send({"id": heard["id"], "result": {}});'
    'told("assistant.message_delta", messageId="a", deltaContent=json.dumps(heard["params"]))'
)


ASKING = ThreadRequest(cwd="/", model="m", approvals=ApprovalPolicy.ASK)


class TestBadPrograms(ProviderBadPrograms):
    """In Copilot's place."""

    stand_in = StandIn(PROGRAM, PROGRAM_TEXT)
    nonsense = MappingProxyType(
        {
            "a line of a log": ('raw(b"thread main panicked\\n\\r\\n\\r\\n"); continue', ProviderProtocolError),
            "a message that is too long": (
                f'raw(b"Content-Length: {MESSAGE_BYTES + 1}\\r\\n\\r\\n"); continue',
                ProviderProtocolError,
            ),
            "a wrong id": ('send({"id": 4711, "result": {}}); continue', ProviderProtocolError),
            "an array": ("send([]); continue", ProviderProtocolError),
            "half a message, then the end": ('raw(b"Content-Length: 99\\r\\n\\r\\n{"); sys.exit(1)', ProviderGoneError),
            "the end": ("sys.exit(0)", ProviderGoneError),
            "a crash": ("os.kill(os.getpid(), 9)", ProviderGoneError),
        }
    )
    no_thread = MappingProxyType(
        {
            "an answer without a session": ("answer({}); continue", ProviderProtocolError),
            "a session's id that is no text": ('answer({"sessionId": 7}); continue', ProviderProtocolError),
            "a session's id of a megabyte": ('answer({"sessionId": "x" * 1_000_000}); continue', ProviderProtocolError),
            "an error": (
                'send({"id": asked["id"], "error": {"code": -32603, "message": "no"}}); continue',
                ProviderRefusedError,
            ),
        }
    )
    thread_places = ("session",)
    up_place = "connect"
    not_up = MappingProxyType(
        {
            "no version": ("answer({}); continue", ProviderProtocolError),
            "an early end": ("sys.exit(3)", ProviderGoneError),
            "a banner": ("raw(b'oops\\r\\n\\r\\n')", ProviderProtocolError),
        }
    )
    other_version = "1.0.103"
    version_words = rf"{VERSION}, not 1\.0\.103"
    another = MappingProxyType({"session": 'answer({"sessionId": "another"}); continue'})
    stray = (
        'told("session.idle", session="other"); told("assistant.message_delta", session="other", messageId="a", deltaContent="x");'
        'told("who.knows", a=1); send({"method": "who/knows", "params": {}}); send({"method": "session.event", "params": {}});'
        'send({"method": "session.event", "params": {"sessionId": "s", "event": {"type": "session.idle", "agentId": "a", "data": {}}}})'
    )
    unanswered = MappingProxyType({"abort": 'told("session.idle", aborted=True); continue'})

    async def test_another_protocol_is_refused(self, bad: Bad) -> None:
        """Whatever the version says: what is spoken must be what the plugin knows."""
        other = 'answer({"ok": True, "protocolVersion": 4, "version": "1.0.102"}); continue'
        with anyio.fail_after(LIMIT_S), pytest.raises(ProviderRefusedError, match="protocol 4, not 3"):
            async with bad(connect=other):
                pytest.fail("entered")

    async def test_a_state_that_cannot_be_swept_starts_nothing(self, case: Case, tmp_path: Path) -> None:
        """What the agent may have written there would decide how the program starts."""
        case.guest.state.rmdir()
        with pytest.raises(ProviderRefusedError, match="swept"):
            async with await case.hooks.open_runtime(case.guest.runtime_request(tmp_path, NOWHERE), case.guest):
                pytest.fail("entered")
        assert case.guest.processes == []

    @pytest.mark.parametrize("statement", ["answer({}); continue", 'answer({"inUse": "s"}); continue'])
    async def test_who_does_not_say_whether_it_is_in_use_is_not_resumed(self, bad: Bad, statement: str) -> None:
        """Unknown is not free."""
        with anyio.fail_after(LIMIT_S):
            async with bad(in_use=statement) as runtime:
                with pytest.raises(ProviderProtocolError, match="in use"):
                    await runtime.resume_thread(provider_identity("s"), self.wanted)

    async def test_a_session_that_was_in_use_when_it_was_resumed_is_refused(self, bad: Bad) -> None:
        """Two programs may ask at the same moment; the second learns it from its own journal."""
        taken = 'answer({"events": [{"type": "session.resume", "data": {"alreadyInUse": True}}], "hasMore": False}); continue'
        with anyio.fail_after(LIMIT_S):
            async with bad(journal=taken) as runtime:
                with pytest.raises(ProviderRefusedError, match="another program"):
                    await runtime.resume_thread(provider_identity("s"), self.wanted)
                with pytest.raises(ProviderRefusedError, match="not loaded"):
                    await collect(runtime, "s", [])

    @pytest.mark.guarantee("SHARE-5")
    async def test_a_resume_that_is_answered_with_a_siblings_id_allows_nothing_there(self, bad: Bad, tmp_path: Path) -> None:
        """A room that never asks came back, it is said, as one that does: that one goes on asking, and nothing is let go of."""
        heard = tmp_path / "heard"
        with anyio.fail_after(LIMIT_S):
            async with bad(running=QUESTION, other=NOTE.format(path=str(heard))) as runtime:
                await runtime.open_thread(ASKING)
                assert (await runtime.resume_thread(provider_identity("wanted"), self.wanted)).identity == "s"
                seen: list[ProviderEvent] = []
                await collect(runtime, "s", seen)
        assert "approval.requested" in [event.kind for event in seen]
        assert heard.read_text().split() == ["session.detach", "wanted"]

    async def test_a_new_session_with_a_siblings_id_is_nonsense(self, bad: Bad) -> None:
        """Two rooms would speak in one session."""
        with anyio.fail_after(LIMIT_S):
            async with bad() as runtime:
                await runtime.open_thread(self.wanted)
                with pytest.raises(ProviderProtocolError, match="loaded"):
                    await runtime.open_thread(self.wanted)

    @pytest.mark.parametrize("cancelled", [False, True], ids=["its permissions are refused", "who asked for it is gone"])
    async def test_a_session_that_only_half_came_back_is_let_go(self, bad: Bad, tmp_path: Path, *, cancelled: bool) -> None:
        """Left in the program it would be in use, and could not be brought back while a sibling lives there."""
        heard, begun = tmp_path / "heard", tmp_path / "begun"
        refusing = 'if "configure" in asked["method"]: send({"id": asked["id"], "error": {"code": -1, "message": "no"}}); continue'
        other = f"{NOTE.format(path=str(heard))}\n{refusing}"
        silent = f'open({str(begun)!r}, "w").close(); continue'
        with anyio.fail_after(LIMIT_S):
            async with bad(other=other, **({"journal": silent} if cancelled else {})) as runtime:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._come_back, runtime, "s")
                    while cancelled and not begun.exists():  # noqa: ASYNC110 - the program's own file
                        await anyio.sleep(0.01)
                    if cancelled:
                        tasks.cancel_scope.cancel()
                assert heard.read_text().split()[-2:] == ["session.detach", "s"]
                with pytest.raises(ProviderRefusedError, match="not loaded"):
                    await collect(runtime, "s", [])

    async def _come_back(self, runtime: ProviderRuntime, identity: str) -> None:
        with pytest.raises(ProviderRefusedError, match="no"):
            await runtime.resume_thread(provider_identity(identity), self.wanted)

    async def test_a_message_that_is_never_taken_is_taken_back(self, case: Case, bad: Bad, monkeypatch: pytest.MonkeyPatch) -> None:
        """So Copilot is when its configuration is broken: it waits without an end. What it may wait for is swept, and the turn says so."""
        monkeypatch.setattr(runtime_module, "ACCEPT_S", 0.2)
        heard = case.guest.state.parent / "heard"
        silent = 'answer({"messageId": "m"}); continue'
        with anyio.fail_after(LIMIT_S):
            async with bad(send=silent, abort=f'open({str(heard)!r}, "w").close()') as runtime:
                await runtime.open_thread(self.wanted)
                (case.guest.state / "config.json").write_text("{broken")
                with pytest.raises(ProviderTimeoutError):
                    await collect(runtime, "s", [])
                assert heard.exists()
                assert not (case.guest.state / "config.json").exists()

    async def test_another_message_than_the_one_that_was_sent_is_nonsense(self, bad: Bad) -> None:
        """Its turn would be nobody's."""
        other = 'answer({"messageId": "m"}); told("user.message", messageId="other", content="x"); continue'
        with anyio.fail_after(LIMIT_S):
            async with bad(send=other) as runtime:
                await runtime.open_thread(self.wanted)
                with pytest.raises(ProviderProtocolError, match="another message"):
                    await collect(runtime, "s", [])

    async def test_a_turn_that_fails_before_it_begins_has_no_start(self, bad: Bad) -> None:
        """The error is in its end mark all the same."""
        failing = (
            'answer({"messageId": "m"}); told("session.error", errorType="quota", message="no"); told("session.idle"); continue'
        )
        seen: list[ProviderEvent] = []
        with anyio.fail_after(LIMIT_S):
            async with bad(send=failing) as runtime:
                await runtime.open_thread(self.wanted)
                await collect(runtime, "s", seen)
        assert seen == [TurnEnded(outcome=TurnOutcome.FAILED, code="usage_limit", detail="no")]

    async def test_what_the_agent_did_before_is_not_of_the_turn(self, bad: Bad) -> None:
        """It may still be at work by itself when the message is sent: its words and its end are not the turn's."""
        late = (
            'answer({"messageId": "m"}); told("assistant.turn_start"); told("assistant.message_delta", messageId="b", deltaContent="x");'
            'told("session.idle", mode="interactive"); told("user.message", messageId="m", content="hello"); continue'
        )
        seen: list[ProviderEvent] = []
        with anyio.fail_after(LIMIT_S):
            async with bad(send=late) as runtime:
                await runtime.open_thread(self.wanted)
                await collect(runtime, "s", seen)
        assert [event.kind for event in seen] == ["turn.started", "text.delta", "turn.ended"]
        assert [event.text for event in seen if isinstance(event, TextDelta)] == ["kept"]

    async def test_a_question_where_none_may_be_asked_is_refused_and_told(self, bad: Bad) -> None:
        """None should come; if one does, Copilot gets a refusal and the person a notice."""
        seen: list[ProviderEvent] = []
        with anyio.fail_after(LIMIT_S):
            async with bad(running=QUESTION + HEARD) as runtime:
                await runtime.open_thread(self.wanted)
                await collect(runtime, "s", seen)
        assert '"kind": "reject"' in "".join(event.text for event in seen if isinstance(event, TextDelta))
        assert [event.text for event in seen if isinstance(event, Notice)] == ["Copilot asked Jam and was refused: rm -rf /"]

    async def test_a_request_of_the_program_is_refused_and_told(self, bad: Bad) -> None:
        """What it may ask comes as an event; nothing that it sends is left without an answer."""
        ask = (
            'send({"id": 0, "method": "hooks.invoke", "params": {"sessionId": "s"}}); heard = receive();'
            'told("assistant.message_delta", messageId="a", deltaContent=json.dumps(heard["error"]))'
        )
        seen: list[ProviderEvent] = []
        with anyio.fail_after(LIMIT_S):
            async with bad(running=ask) as runtime:
                await runtime.open_thread(ASKING)
                await collect(runtime, "s", seen)
        assert '"code": -32601' in "".join(event.text for event in seen if isinstance(event, TextDelta))
        assert [event.text for event in seen if isinstance(event, Notice)] == ["Copilot asked Jam (hooks.invoke) and was refused."]

    @pytest.mark.parametrize("place", ["send", "save"])
    async def test_a_request_that_comes_before_an_answer_does_not_hold_the_turn_up(self, bad: Bad, place: str) -> None:
        """The program waits for its refusal before it answers what the turn waits for, and is refused at once."""
        taken = 'told("user.message", messageId="m", content="hello");' if place == "send" else ""
        ask = f'{taken}send({{"id": 0, "method": "hooks.invoke", "params": {{"sessionId": "s"}}}}); receive()'
        seen: list[ProviderEvent] = []
        with anyio.fail_after(runtime_module.SEND_S / 2):
            async with bad(**{place: ask}) as runtime:
                await runtime.open_thread(self.wanted)
                await collect(runtime, "s", seen)
        assert [event.kind for event in seen] == ["turn.started", "notice", "text.delta", "turn.ended"]

    async def test_a_question_that_its_turn_does_not_wait_for_can_be_answered_no_more(self, bad: Bad) -> None:
        """An answer that comes after the end is passed over."""
        with anyio.fail_after(LIMIT_S):
            async with bad(running=QUESTION) as runtime:
                await runtime.open_thread(ASKING)
                seen: list[ProviderEvent] = []
                await collect(runtime, "s", seen)
                [request] = [event.request for event in seen if event.kind == "approval.requested"]
                await runtime.answer(provider_identity("s"), request, ApprovalAnswer.ALLOW)
        assert [event.kind for event in seen] == ["turn.started", "text.delta", "approval.requested", "turn.ended"]
