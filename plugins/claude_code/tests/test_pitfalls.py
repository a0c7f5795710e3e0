"""What Claude Code is known to do with conversations, and what of it has no other test (docs/provider-pitfalls.md)."""

from __future__ import annotations

import pytest

from jam_claude_code.events import Translator
from jam_claude_code.transcript import Remembered
from jamcore.api import ToolCall, Working
from jamcore.testing.providers.pitfalls import ProviderPitfalls

pytestmark = pytest.mark.unprivileged


@pytest.mark.needs("claude_code")
class TestPitfalls(ProviderPitfalls):
    """Claude Code's."""


@pytest.mark.guarantee("START-5")
def test_a_turn_that_works_is_told_from_a_silent_one() -> None:
    """A thought that grows, a tool that is written or runs until its own end: the core's deadline knows by these, and retries are none."""
    translator = Translator("/w", Remembered())
    for delta in ("thinking_delta", "input_json_delta"):
        assert [*translator.translate("stream_event", {"event": {"delta": {"type": delta}}})] == [Working()]
    called = {"type": "tool_use", "id": "c", "name": "Task", "input": {}}
    assert [*translator.translate("assistant", {"message": {"id": "m", "content": [called]}})] == [Working(item="c")]
    result = {"type": "tool_result", "tool_use_id": "c", "content": "x", "is_error": True}
    [ended] = translator.translate("user", {"message": {"content": [result]}})
    assert isinstance(ended, ToolCall)
    assert (ended.item, ended.ok) == ("c", False)
    [retry] = translator.translate("system", {"subtype": "api_retry", "attempt": 1, "max_retries": 10})
    assert retry.kind == "notice"
