"""Programs that are not Claude Code, or no longer well: every kind of nonsense becomes one typed error, and the process is gone."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import anyio
import pytest

from jam_claude_code import thread as threads
from jam_claude_code.pins import PROGRAM_VERSION, VERSION
from jamcore.api import (
    ApprovalPolicy,
    ApprovalRequested,
    Notice,
    ProviderEvent,
    ProviderGoneError,
    ProviderProtocolError,
    ProviderRefusedError,
    TextDelta,
    ThreadRequest,
    TurnEnded,
    TurnOutcome,
    provider_identity,
)
from jamcore.testing.providers.bad_programs import LIMIT_S, ProviderBadPrograms, collect
from jamcore.testing.providers.case import Case
from jamcore.testing.providers.standin import Bad, StandIn, waits_for

pytestmark = [pytest.mark.unprivileged]

PROGRAM = """#!/usr/bin/env python3
import json, os, sys, time

options = dict(word.partition("=")[::2] for word in sys.argv[1:])
if "--version" in options:
    #version
    print("{VERSION} (Claude Code)")
    sys.exit(0)
thread = options.get("--session-id") or options["--resume"]
place = os.environ["CLAUDE_CONFIG_DIR"]
#start

def send(message):
    sys.stdout.buffer.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\\n")
    sys.stdout.buffer.flush()

def state(word):
    send({"type": "system", "subtype": "session_state_changed", "state": word})

def delta(text):
    event = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    send({"type": "stream_event", "event": event, "api_message_id": "m", "parent_tool_use_id": None})

def result(turn, **more):
    send({"type": "result", "user_message_uuids": [turn], "is_error": False, "terminal_reason": "completed", **more})

def keep(line):
    os.makedirs(place + "/projects/p", exist_ok=True)
    with open(f"{place}/projects/p/{thread}.jsonl", "a") as transcript:
        transcript.write(line)

turn = ""
for line in sys.stdin:
    asked = json.loads(line)
    if asked["type"] == "user":
        turn = asked["uuid"]
        #turn
        state("running")
        send({"type": "command_lifecycle", "command_uuid": turn, "state": "started"})
        send({"type": "system", "subtype": "init", "session_id": thread})
        keep(json.dumps({"type": "user", "uuid": turn, "promptSource": "sdk"}, separators=(",", ":")) + "\\n")
        delta("kept")
        #running
        result(turn)
        state("idle")
    elif asked["type"] == "control_request":
        done = {"subtype": "success", "request_id": asked["request_id"], "response": {"pid": os.getpid()}}
        if asked["request"]["subtype"] == "initialize":
            os.makedirs(place + "/sessions", exist_ok=True)
            with open(f"{place}/sessions/{os.getpid()}.json", "w") as registry:
                registry.write(json.dumps({"sessionId": thread}))
            #initialize
        else:
            #interrupt
            result(turn, terminal_reason="aborted_streaming", is_error=True)
            state("idle")
        send({"type": "control_response", "response": done})
"""
REFUSALS = {
    "words on its error output": ('print("Error: no such thing", file=sys.stderr); sys.exit(1)', "no such thing"),
    "an end mark": (
        'send({"type": "result", "is_error": True, "errors": ["No conversation found"]}); sys.exit(1)',
        "No conversation",
    ),
    "an answer": (
        'done = {"subtype": "error", "request_id": asked["request_id"], "error": "not this"}',
        "not this",
    ),
}
BY_ITSELF = 'state("idle"); state("running"); result(turn); delta("nobody asked")'
"""It says that it works before it says that the turn is over: who has heard of the end knows of both."""
ASKING = ThreadRequest(cwd="/", approvals=ApprovalPolicy.ASK)
ASK = (
    'send({"type": "control_request", "request_id": "q", "request": {"subtype": "%s", "tool_name": "Bash", "tool_use_id": "t", '
    '"input": {"command": "rm -rf /"}}}); answer = json.loads(sys.stdin.readline()); delta(json.dumps(answer["response"]))'
)


class TestBadPrograms(ProviderBadPrograms):
    """In Claude Code's place. Each thread has a program of its own."""

    stand_in = StandIn("claude", PROGRAM.replace("{VERSION}", PROGRAM_VERSION))
    nonsense = MappingProxyType(
        {
            "a line that is no JSON": ('send(b"thread main panicked\\n"); continue', ProviderProtocolError),
            "a line of 100 MB": ('send(b"{" + b"x" * 100_000_000 + b"}\\n"); continue', ProviderProtocolError),
            "an answer to nothing": (
                'send({"type": "control_response", "response": {"subtype": "success", "request_id": "4711"}}); continue',
                ProviderProtocolError,
            ),
            "another protocol's answer": ('send({"id": 1, "result": {}}); continue', ProviderProtocolError),
            "an array": ('send(b"[]\\n"); continue', ProviderProtocolError),
            "half a frame, then the end": ('send(b\'{"type": "resul\'); os.kill(os.getpid(), 9)', ProviderGoneError),
            "a crash": ("os.kill(os.getpid(), 9)", ProviderGoneError),
        }
    )
    thread_places = ("initialize",)
    up_place = "version"
    not_up = MappingProxyType(
        {
            "nonsense": ('print("nonsense"); sys.exit(0)', ProviderProtocolError),
            "an early end": ("sys.exit(3)", ProviderProtocolError),
            "a crash": ("os.kill(os.getpid(), 9)", ProviderGoneError),
        }
    )
    other_version = "0.2.188"
    version_words = "not 2"
    another = MappingProxyType({"start": 'thread = "another"'})
    kinds = ("turn.started", "text.delta", "usage", "turn.ended")

    async def test_another_version_than_the_expected_one_is_refused(self, bad: Bad) -> None:
        """Also where the pin is right and the program is another."""
        other = 'print("2.1.331 (Claude Code)"); sys.exit(0)'
        with anyio.fail_after(LIMIT_S), pytest.raises(ProviderRefusedError, match="not 2"):
            async with bad(expected_version=VERSION, version=other):
                pytest.fail("entered")

    @pytest.mark.guarantee("CONT-1")
    @pytest.mark.parametrize("name", REFUSALS)
    async def test_a_program_that_does_not_take_a_thread_refuses_it(self, case: Case, bad: Bad, name: str) -> None:
        """In each of the forms that a refusal has, it is one, and nothing else is begun in its place."""
        statement, words = REFUSALS[name]
        with anyio.fail_after(LIMIT_S):
            async with bad(initialize=statement) as runtime:
                with pytest.raises(ProviderRefusedError, match=words):
                    await runtime.open_thread(self.wanted)

    @pytest.mark.guarantee("CONT-1")
    async def test_a_program_that_changes_its_thread_is_cut_off(self, case: Case, bad: Bad) -> None:
        """Each turn says which thread it is in; another one ends the connection, and says so."""
        with anyio.fail_after(LIMIT_S):
            async with bad(turn='thread = "another"') as runtime:
                thread = await runtime.open_thread(self.wanted)
                with pytest.raises(ProviderProtocolError, match="another"):
                    await collect(runtime, thread.identity, [])

    @pytest.mark.guarantee("CONT-11")
    async def test_a_program_that_keeps_nothing_is_found_out(self, case: Case, bad: Bad, monkeypatch: pytest.MonkeyPatch) -> None:
        """Claude Code says nothing where it cannot write: no turn counts as begun that a kill would lose."""
        monkeypatch.setattr(threads, "WRITTEN_S", 0.3)
        seen: list[ProviderEvent] = []
        with anyio.fail_after(LIMIT_S):
            async with bad(turn="keep = print if 0 else (lambda line: None)") as runtime:
                thread = await runtime.open_thread(self.wanted)
                with pytest.raises(ProviderProtocolError, match="does not keep"):
                    await collect(runtime, thread.identity, seen)
                assert await runtime.closed()
        assert seen == []

    async def test_a_turn_that_begins_by_itself_is_waited_out(
        self, case: Case, bad: Bad, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What it says is nobody's answer; the next turn begins after it, with a notice that says so."""
        noticed = tmp_path / "noticed"
        by_itself = f'{BY_ITSELF}\n{waits_for(noticed)}\nresult("of nobody"); state("idle"); continue'
        with anyio.fail_after(LIMIT_S):
            async with bad(running=by_itself) as runtime:
                thread = await runtime.open_thread(self.wanted)
                first: list[ProviderEvent] = []
                await collect(runtime, thread.identity, first)
                monkeypatch.setattr(threads, "IDLE_S", 0.1)
                second: list[ProviderEvent] = []
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(collect, runtime, thread.identity, second)
                    await anyio.wait_all_tasks_blocked()  # the turn waits for the program from now on
                    await anyio.sleep(threads.IDLE_S)  # begun after that wait, so it ends after it
                    noticed.touch()
        assert [event.kind for event in first] == ["turn.started", "text.delta", "usage", "turn.ended"]
        assert [event.text for event in second if isinstance(event, TextDelta)] == ["kept"]
        assert [event.text for event in second if isinstance(event, Notice)] == [threads.BY_ITSELF]

    async def test_a_turn_that_waits_for_another_can_be_interrupted(self, case: Case, bad: Bad) -> None:
        """Nothing of it was said yet, and nothing will be: it ends as interrupted without having begun."""
        with anyio.fail_after(LIMIT_S):
            async with bad(running=f"{BY_ITSELF}; continue") as runtime:
                thread = provider_identity((await runtime.open_thread(self.wanted)).identity)
                await collect(runtime, thread, [])
                seen: list[ProviderEvent] = []
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(collect, runtime, thread, seen)
                    await anyio.wait_all_tasks_blocked()  # the turn waits for the program from now on
                    await runtime.interrupt(thread)
        assert seen == [TurnEnded(outcome=TurnOutcome.INTERRUPTED)]

    @pytest.mark.parametrize(
        ("request_", "method", "answer"),
        [
            (ThreadRequest(cwd="/"), "can_use_tool", '"behavior": "deny"'),
            (ThreadRequest(cwd="/"), "hook_callback", '"subtype": "error"'),
            (ASKING, "mcp_message", '"subtype": "error"'),
        ],
        ids=["in a thread that asks nobody", "a hook", "not a person's to answer"],
    )
    async def test_what_no_person_is_asked_is_refused_and_told(
        self, bad: Bad, request_: ThreadRequest, method: str, answer: str
    ) -> None:
        """Nothing that the program may ask is left without an answer, and the person can see that there was a question."""
        seen: list[ProviderEvent] = []
        with anyio.fail_after(LIMIT_S):
            async with bad(running=ASK % method) as runtime:
                thread = await runtime.open_thread(request_)
                await collect(runtime, thread.identity, seen)
        assert answer in "".join(event.text for event in seen if isinstance(event, TextDelta))
        assert [event.text for event in seen if isinstance(event, Notice)] == [
            f"Claude Code asked Jam ({method}) and was refused: Bash"
        ]
        assert not any(isinstance(event, ApprovalRequested) for event in seen)
