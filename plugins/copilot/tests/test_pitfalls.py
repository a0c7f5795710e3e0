"""What Copilot is known to do with conversations, and what of it has no other test (docs/provider-pitfalls.md)."""

from __future__ import annotations

import pytest

from jam_copilot.config import session_settings
from jam_copilot.events import Translator
from jam_copilot.protocol import Event
from jamcore.api import ThreadRequest, ToolCall, Working
from jamcore.testing.providers.pitfalls import ProviderPitfalls

pytestmark = pytest.mark.unprivileged


@pytest.mark.needs("copilot")
class TestPitfalls(ProviderPitfalls):
    """Copilot's."""


@pytest.mark.guarantee("CONT-1")
def test_no_session_is_begun_under_an_id_of_jams() -> None:
    """Where the id is known already Copilot would begin an empty one in its place, and a later resume would mix both."""
    assert "sessionId" not in session_settings(ThreadRequest(cwd="/w", model="m"), relay_url="http://r")


@pytest.mark.guarantee("START-5")
def test_a_turn_that_works_is_told_from_a_silent_one() -> None:
    """A thought that grows, a tool that runs until its own end: the core's deadline knows by these, and retries are none."""
    translator = Translator("/w")

    def told(kind: str, **data: object) -> tuple[object, ...]:
        return translator.translate(Event(kind, data))

    assert told("assistant.reasoning_delta", deltaContent="hm") == (Working(),)
    assert told("tool.execution_start", toolCallId="c", toolName="view") == (Working(item="c"),)
    [ended] = told("tool.execution_complete", toolCallId="c", success=False)
    assert isinstance(ended, ToolCall)
    told("tool.execution_start", toolCallId="d", toolName="edit")
    assert told("tool.execution_complete", toolCallId="d", success=False)[-1] == Working(item="d", over=True)
    [retry] = translator.translate(Event("session.info", {"infoType": "model_retry", "message": "again"}))
    assert retry.kind == "notice"
