"""What Codex is known to do with conversations, and what of it has no other test (docs/provider-pitfalls.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import anyio
import pytest

from jam_codex.events import CALLS, translate
from jam_codex.runtime import CodexRuntime
from jamcore.api import (
    LineClient,
    ProviderEvent,
    ProviderRefusedError,
    TextDelta,
    ThreadRequest,
    ToolCall,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    Working,
    provider_identity,
)
from jamcore.testing.providers.pitfalls import ProviderPitfalls

pytestmark = pytest.mark.unprivileged


@pytest.mark.needs("codex")
class TestPitfalls(ProviderPitfalls):
    """Codex's."""


class Connection:
    """A connection to a program that takes everything."""

    ANSWERS: Mapping[str, object] = {
        "initialize": {"userAgent": "jam/0.163.0 (x)"},
        "thread/start": {"thread": {"id": "t"}},
        "turn/start": {"turn": {"id": "asked"}},
    }

    async def request(self, method: str, _params: object, **_: object) -> object:
        """Answer at once."""
        return self.ANSWERS[method]

    async def notify(self, _method: str) -> None:
        """Hear it."""


@pytest.mark.anyio
@pytest.mark.guarantee("CONT-11")
async def test_a_turn_that_begins_by_itself_is_waited_out_and_nobodys() -> None:
    """While it runs a text is refused, which Codex would add to it; nothing of it is in the turn that comes after."""
    runtime = CodexRuntime()
    await runtime.begin(cast("LineClient", Connection()), None)
    await runtime.open_thread(ThreadRequest(cwd="/w"))

    async def told(method: str, of: str, **params: Any) -> None:
        await runtime.notified(method, {"threadId": "t", "turnId": of, **params})

    async def runs(turn: str, status: str) -> None:
        await told("thread/status/changed", turn, status={"type": status})

    async def speaks(turn: str) -> None:
        await told("item/completed", turn, item={"type": "userMessage", "id": "i"})
        await told("item/agentMessage/delta", turn, itemId="m", delta=f"of {turn}")

    await runs("own", "active")
    await speaks("own")
    with pytest.raises(ProviderRefusedError, match="running"):
        async with runtime.turn(provider_identity("t"), "hello"):
            pass
    await told("turn/completed", "own", turn={"id": "own", "status": "completed"})
    await runs("own", "idle")
    with anyio.fail_after(20):
        async with runtime.turn(provider_identity("t"), "hello") as events:
            await speaks("own")
            await speaks("asked")
            await told("turn/completed", "asked", turn={"id": "asked", "status": "completed"})
            seen: list[ProviderEvent] = [event async for event in events]
    end = TurnEnded(outcome=TurnOutcome.COMPLETED)
    assert seen == [TurnStarted(provider_turn="asked"), TextDelta(item="m", text="of asked"), end]


@pytest.mark.guarantee("START-5")
@pytest.mark.parametrize("kind", sorted(CALLS))
def test_a_turn_that_works_is_told_from_a_silent_one(kind: str) -> None:
    """A thought that grows, a tool that runs until its own end: the core's deadline knows by these, and retries are none."""
    assert translate("item/reasoning/textDelta", {"delta": "hm"}) == (Working(),)
    assert translate("item/reasoning/summaryTextDelta", {"delta": "hm"}) == (Working(),)
    assert translate("item/started", {"item": {"type": kind, "id": "c"}}) == (Working(item="c"),)
    [ended] = translate("item/completed", {"item": {"type": kind, "id": "c"}})
    assert isinstance(ended, ToolCall) or ended == Working(item="c", over=True)
    assert ended.item == "c"
    [retry] = translate("error", {"error": {"message": "429"}, "willRetry": True})
    assert retry.kind == "notice"
