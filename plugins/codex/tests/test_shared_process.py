"""One program with several sessions' threads: what is said of one is shown in its own turns alone (SHARE-5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from jam_codex.protocol import Told
from jam_codex.runtime import CodexRuntime
from jamcore.api import LineClient, Notice, ProviderEvent, ProviderIdentity, ThreadRequest

pytestmark = pytest.mark.anyio

A, B = "11111111-0000-7000-8000-000000000000", "22222222-0000-7000-8000-000000000000"
QUESTION = "item/commandExecution/requestApproval"


class Program:
    """Answers as Codex does: every new thread and every turn gets an id."""

    def __init__(self) -> None:
        self.threads = iter((A, B))
        self.turns = 0

    async def request(self, method: str, params: Mapping[str, Any], *, timeout_s: float) -> object:
        """See :class:`LineClient`."""
        assert timeout_s
        if method == "thread/start":
            return {"thread": {"id": next(self.threads)}}
        self.turns += 1
        return {"turn": {"id": f"turn-{self.turns}-of-{params['threadId']}"}}


@pytest.fixture
async def runtime() -> CodexRuntime:
    """A runtime with two threads."""
    made = CodexRuntime()
    made._client = cast("LineClient", Program())
    for number in (1, 2):
        await made.open_thread(ThreadRequest(cwd=f"/jam/work/{number}"))
    return made


async def turn_of(runtime: CodexRuntime, thread: str) -> list[ProviderEvent]:
    """Run a turn to its end and return its events."""
    async with runtime.turn(ProviderIdentity(thread), "hello") as events:
        turn = runtime._threads[thread].turn
        assert turn is not None
        where = {"threadId": thread, "turnId": turn.provider_turn}
        user = {"item": {"type": "userMessage", "id": "i", "content": []}, **where}
        await runtime.notified(Told.ITEM_COMPLETED, user)
        end = {"threadId": thread, "turn": {"id": turn.provider_turn, "status": "completed", "error": None, "items": []}}
        await runtime.notified(Told.TURN_COMPLETED, end)
        return [event async for event in events]


def notices(events: list[ProviderEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


@pytest.mark.guarantee("SHARE-5")
async def test_a_question_of_an_idle_thread_is_shown_in_its_own_next_turn(runtime: CodexRuntime) -> None:
    """And not in a sibling's, which may be another person's room."""
    await runtime.asked(QUESTION, {"threadId": A, "turnId": "gone", "itemId": "i", "command": "cat secret-of-a"})
    assert notices(await turn_of(runtime, B)) == []
    (said,) = notices(await turn_of(runtime, A))
    assert said
    assert notices(await turn_of(runtime, A)) == []


@pytest.mark.guarantee("SHARE-5")
async def test_a_question_of_nobodys_thread_is_shown_to_nobody(runtime: CodexRuntime) -> None:
    """With several sessions nobody can say whose it is; it is refused all the same."""
    await runtime.asked(QUESTION, {"threadId": "another", "turnId": "t", "itemId": "i", "command": "cat x"})
    assert notices(await turn_of(runtime, A)) == notices(await turn_of(runtime, B)) == []
