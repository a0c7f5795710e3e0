"""Questions, of agents that are a few lines of Python: every one has an answer, and none is yes for good."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from jam_acp.profile import Extension, Profile
from jamcore.api import (
    ApprovalPolicy,
    Notice,
    TextDelta,
    ThreadRequest,
    provider_identity,
)
from jamcore.testing.provider_turns import run_turn
from jamcore.testing.providers.bad_programs import LIMIT_S
from jamcore.testing.providers.standin import Bad, waits_for

pytestmark = [pytest.mark.unprivileged]

ASKING = ThreadRequest(cwd="/", approvals=ApprovalPolicy.ASK)
QUIET = ThreadRequest(cwd="/")


ANSWER = 'say("agent_message_chunk", json.dumps({}))'
PERMISSION = (
    'ask("session/request_permission", toolCall={"toolCallId": "c", "kind": "execute", "rawInput": {"command": "rm -rf /"}},'
    ' options=[{"optionId": "y", "kind": "allow_once"}, {"optionId": "n", "kind": "reject_once"}])'
)


async def test_a_session_that_does_not_ask_allows_once(fake: Bad) -> None:
    """The sandbox is the boundary: nobody is asked, and nothing is allowed for good."""
    async with fake(running=ANSWER.format(PERMISSION)) as runtime:
        await runtime.open_thread(QUIET)
        events = await run_turn(runtime, "s", "hello")
    assert '"optionId": "y"' in "".join(event.text for event in events if isinstance(event, TextDelta))
    assert not [event for event in events if event.kind == "approval.requested"]


async def test_an_agent_without_a_once_is_not_allowed_for_good(fake: Bad) -> None:
    """The question is cancelled, and a person sees why nothing happened."""
    forever = PERMISSION.replace("allow_once", "allow_always")
    async with fake(running=ANSWER.format(forever)) as runtime:
        await runtime.open_thread(QUIET)
        events = await run_turn(runtime, "s", "hello")
    assert '"outcome": "cancelled"' in "".join(event.text for event in events if isinstance(event, TextDelta))
    assert [event for event in events if isinstance(event, Notice)]


async def test_a_question_that_its_turn_does_not_wait_for_is_cancelled(fake: Bad, tmp_path: Path) -> None:
    """A program that asks and ends the turn without an answer gets one all the same, and it is no."""
    said, asked = tmp_path / "answer", tmp_path / "asked"
    asks = PERMISSION.replace("ask(", "question(", 1)
    running = (
        "def question(method, **params):\n"
        '    send({"id": 70, "method": method, "params": {"sessionId": "s", **params}})\n'
        f"{asks}\n"
        f"{waits_for(asked)}\n"
        'result({"stopReason": "end_turn"})\n'
        f'open({str(said)!r}, "w").write(sys.stdin.readline())\n'
        "continue"
    )
    async with fake(running=running) as runtime:
        await runtime.open_thread(ASKING)
        kinds = []
        with anyio.fail_after(LIMIT_S):
            async with runtime.turn(provider_identity("s"), "hello") as events:
                async for event in events:
                    kinds.append(event.kind)
                    if event.kind == "approval.requested":
                        asked.touch()
            while not said.exists() or not said.read_text():  # noqa: ASYNC110 - the program's own file
                await anyio.sleep(0.01)
    assert kinds[-2:] == ["approval.requested", "turn.ended"]
    assert '"cancelled"' in said.read_text()


@pytest.mark.parametrize(
    ("method", "answer", "told"),
    [
        ("fs/write_text_file", '"code": -32601', True),
        ("terminal/create", '"code": -32601', True),
        ("plain/question", '"outcome": "skipped"', True),
        ("plain/todos", '"result": {}', False),
    ],
)
async def test_every_other_request_has_an_answer(plain: Profile, fake: Bad, method: str, answer: str, *, told: bool) -> None:
    """What the profile knows is answered politely, all else with an error; nothing blocks the turn, and a person sees what was refused."""
    profile = plain.model_copy(
        update={
            "extensions": (
                Extension(method="plain/question", answer={"outcome": "skipped"}),
                Extension(method="plain/todos", answer={}, told=False),
            )
        }
    )
    async with fake(profile, running=ANSWER.format(f'ask("{method}")')) as runtime:
        await runtime.open_thread(ASKING)
        events = await run_turn(runtime, "s", "hello")
    assert answer in "".join(event.text for event in events if isinstance(event, TextDelta))
    assert bool([event for event in events if isinstance(event, Notice)]) is told
