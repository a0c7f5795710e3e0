"""Programs that are not Codex, or no longer well: every kind of nonsense becomes one typed error, and the process is gone."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import anyio
import pytest

from jamcore.api import (
    ApprovalPolicy,
    ProviderGoneError,
    ProviderProtocolError,
    ProviderRefusedError,
    TextDelta,
    ThreadRequest,
    provider_identity,
)
from jamcore.testing.providers.bad_programs import LIMIT_S, ProviderBadPrograms
from jamcore.testing.providers.case import Case
from jamcore.testing.providers.standin import Bad, StandIn, waits_for

pytestmark = [pytest.mark.unprivileged]

PROGRAM = """#!/usr/bin/env python3
import json, os, sys, time

def send(message):
    sys.stdout.buffer.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\\n")
    sys.stdout.buffer.flush()

def told(method, **params):
    send({"method": method, "params": {"threadId": "t", "turnId": "u", **params}})

for line in sys.stdin:
    asked = json.loads(line)
    match asked["method"]:
        case "initialize":
            #initialize
            send({"id": asked["id"], "result": {"userAgent": "jam/0.163.0 (x)"}})
        case "thread/start" | "thread/resume":
            #thread
            send({"id": asked["id"], "result": {"thread": {"id": "t"}}})
        case "thread/turns/list":
            #turns
            send({"id": asked["id"], "result": {"data": [], "nextCursor": None}})
        case "turn/start":
            #turn
            send({"id": asked["id"], "result": {"turn": {"id": "u"}}})
            told("item/completed", item={"type": "userMessage", "id": "i"})
            told("item/agentMessage/delta", itemId="m", delta="kept")
            #running
            told("turn/completed", turn={"id": "u", "status": "completed"})
        case "turn/interrupt":
            #interrupt
            send({"id": asked["id"], "result": {}})
            told("turn/completed", turn={"id": "u", "status": "interrupted"})
        case "thread/backgroundTerminals/clean":
            send({"id": asked["id"], "result": {}})
"""
ASKING = ThreadRequest(cwd="/", approvals=ApprovalPolicy.ASK)
QUESTION = '{"threadId": "t", "turnId": "%s", "itemId": "i", "command": "rm -rf /"}'


class TestBadPrograms(ProviderBadPrograms):
    """In Codex's place."""

    stand_in = StandIn("bin/codex", PROGRAM)
    nonsense = MappingProxyType(
        {
            "a line that is no JSON": ('send(b"thread main panicked\\n"); continue', ProviderProtocolError),
            "a line of 10 MB": ('send(b"{" + b"x" * 10_000_000 + b"}\\n"); continue', ProviderProtocolError),
            "a wrong id": ('send({"id": 4711, "result": {}}); continue', ProviderProtocolError),
            "an array": ('send(b"[]\\n"); continue', ProviderProtocolError),
            "half a message, then the end": ('send(b\'{"id": 3, "res\'); sys.exit(1)', ProviderGoneError),
            "the end": ("sys.exit(0)", ProviderGoneError),
            "a crash": ("os.kill(os.getpid(), 9)", ProviderGoneError),
        }
    )
    no_thread = MappingProxyType(
        {
            "an answer without a thread": ('send({"id": asked["id"], "result": {}}); continue', ProviderProtocolError),
            "a thread's id that is no text": (
                'send({"id": asked["id"], "result": {"thread": {"id": 7}}}); continue',
                ProviderProtocolError,
            ),
            "a thread's id of a megabyte": (
                'send({"id": asked["id"], "result": {"thread": {"id": "x" * 1_000_000}}}); continue',
                ProviderProtocolError,
            ),
            "an error": (
                'send({"id": asked["id"], "error": {"code": -32600, "message": "no"}}); continue',
                ProviderRefusedError,
            ),
        }
    )
    thread_places = ("thread",)
    up_place = "initialize"
    not_up = MappingProxyType(
        {
            "no version": ("send({'id': asked['id'], 'result': {}}); continue", ProviderProtocolError),
            "an early end": ("sys.exit(3)", ProviderGoneError),
            "a banner": ("send(b'oops\\n')", ProviderProtocolError),
        }
    )
    other_version = "0.164.0"
    version_words = r"0\.163\.0, not 0\.164\.0"
    another = MappingProxyType({"thread": 'send({"id": asked["id"], "result": {"thread": {"id": "another"}}}); continue'})
    stray = (
        'send({"method": "turn/completed", "params": {"threadId": "t", "turn": {"id": "old", "status": "failed"}}});'
        'told("item/agentMessage/delta", turnId="old", itemId="m", delta="x");'
        'told("item/agentMessage/delta", threadId="other", itemId="m", delta="y"); told("who/knows", a=1)'
    )
    unanswered = MappingProxyType({"interrupt": 'told("turn/completed", turn={"id": "u", "status": "interrupted"}); continue'})

    async def test_a_new_thread_with_a_siblings_id_is_nonsense(self, bad: Bad) -> None:
        """Two rooms would speak in one thread."""
        with anyio.fail_after(LIMIT_S):
            async with bad() as runtime:
                await runtime.open_thread(self.wanted)
                with pytest.raises(ProviderProtocolError, match="loaded"):
                    await runtime.open_thread(self.wanted)

    async def test_an_odd_status_among_the_turns_is_nonsense(self, case: Case, bad: Bad) -> None:
        """A turn whose end Jam cannot read must not pass for a finished one."""
        odd = 'send({"id": asked["id"], "result": {"data": [{"id": "u", "status": "sleeping"}]}}); continue'
        with anyio.fail_after(LIMIT_S):
            async with bad(turns=odd) as runtime:
                with pytest.raises(ProviderProtocolError, match="sleeping"):
                    await runtime.resume_thread(provider_identity("t"), self.wanted)

    async def test_a_request_for_approval_is_declined_and_told(self, case: Case, bad: Bad) -> None:
        """None should come; if one does, Codex gets a refusal and the person a notice."""
        ask = (
            'send({"id": 0, "method": "item/commandExecution/requestApproval", "params": {"threadId": "t", "command": "rm -rf /"}});'
            'answer = json.loads(sys.stdin.readline()); told("item/agentMessage/delta", itemId="m", delta=json.dumps(answer))'
        )
        with anyio.fail_after(LIMIT_S):
            async with bad(running=ask) as runtime:
                await runtime.open_thread(self.wanted)
                async with runtime.turn(provider_identity("t"), "hello") as events:
                    seen = [event async for event in events]
        assert '"decision": "decline"' in "".join(event.text for event in seen if isinstance(event, TextDelta))
        assert [event.text for event in seen if event.kind == "notice"] == [
            "Codex asked Jam (item/commandExecution/requestApproval) and was refused: rm -rf /"
        ]

    @pytest.mark.parametrize(
        ("method", "turn", "answer"),
        [
            ("item/commandExecution/requestApproval", "old", '"decision": "decline"'),
            ("who/knows", "u", '"code": -32601'),
            ("mcpServer/elicitation/request", "u", '"action": "decline"'),
        ],
        ids=["of a turn that is over", "unknown", "not a person's to answer"],
    )
    async def test_what_no_person_is_asked_is_refused_at_once(self, bad: Bad, method: str, turn: str, answer: str) -> None:
        """Also in a thread that asks: nothing that the program may send is left without an answer."""
        ask = (
            f'send({{"id": 0, "method": "{method}", "params": {QUESTION % turn}}});'
            'answer = json.loads(sys.stdin.readline()); told("item/agentMessage/delta", itemId="m", delta=json.dumps(answer))'
        )
        with anyio.fail_after(LIMIT_S):
            async with bad(running=ask) as runtime:
                await runtime.open_thread(ASKING)
                async with runtime.turn(provider_identity("t"), "hello") as events:
                    seen = [event async for event in events]
        assert answer in "".join(event.text for event in seen if isinstance(event, TextDelta))
        assert not any(event.kind == "approval.requested" for event in seen)

    async def test_a_change_of_files_that_was_not_announced_is_denied_and_told(self, bad: Bad) -> None:
        """The question only names it: nobody could see to what they say yes."""
        ask = (
            'send({"id": 0, "method": "item/fileChange/requestApproval", "params": {"threadId": "t", "turnId": "u", "itemId": "i"}});'
            'answer = json.loads(sys.stdin.readline()); told("item/agentMessage/delta", itemId="m", delta=json.dumps(answer))'
        )
        with anyio.fail_after(LIMIT_S):
            async with bad(running=ask) as runtime:
                await runtime.open_thread(ASKING)
                async with runtime.turn(provider_identity("t"), "hello") as events:
                    seen = [event async for event in events]
        assert '"decision": "decline"' in "".join(event.text for event in seen if isinstance(event, TextDelta))
        assert [event.text for event in seen if event.kind == "notice"] == [
            "Codex asked Jam (item/fileChange/requestApproval) and was refused."
        ]
        assert not any(event.kind == "approval.requested" for event in seen)

    async def test_a_question_that_its_turn_does_not_wait_for_is_denied(self, bad: Bad, tmp_path: Path) -> None:
        """A program that asks and ends the turn without an answer gets one all the same, and it is no."""
        said, asked = tmp_path / "answer", tmp_path / "asked"
        ask = (
            'told("item/started", item={"type": "commandExecution", "id": "i", "command": "rm -rf /", "cwd": "/"});'
            f'send({{"id": 0, "method": "item/commandExecution/requestApproval", "params": {QUESTION % "u"}}})\n{waits_for(asked)}\n'
            'told("turn/completed", turn={"id": "u", "status": "completed"});'
            f'open({str(said)!r}, "w").write(sys.stdin.readline())'
        )
        with anyio.fail_after(LIMIT_S):
            async with bad(running=ask) as runtime:
                await runtime.open_thread(ASKING)
                seen = []
                async with runtime.turn(provider_identity("t"), "hello") as events:
                    async for event in events:
                        seen.append(event.kind)
                        if event.kind == "approval.requested":
                            asked.touch()
                while not said.exists() or not said.read_text():  # noqa: ASYNC110 - the program's own file
                    await anyio.sleep(0.01)
        assert seen == ["turn.started", "text.delta", "command.started", "approval.requested", "turn.ended"]
        assert '"decline"' in said.read_text()
