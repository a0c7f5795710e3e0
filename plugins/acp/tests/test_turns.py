"""Turns of the real OpenCode: typed events in order, tools that change files, interruption, busy sessions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from jamcore.api import ProviderEvent
from jamcore.testing.providers.case import Case
from jamcore.testing.providers.turns import DONE, ProviderTurns
from jamcore.testing.servers.history import said_in
from jamcore.testing.servers.script import say

pytestmark = [pytest.mark.needs("opencode"), pytest.mark.unprivileged, pytest.mark.slow]


class TestTurns(ProviderTurns):
    """OpenCode's."""

    added = "@@ -1,0 +1,1 @@\n+one"
    offered = frozenset({"bash", "edit", "glob", "grep", "read", "skill", "todowrite", "write"})
    headers = (("authorization", "Bearer proxy-managed"),)
    instructions = "AGENTS.md"

    def look_at_the_turn(self, events: Sequence[ProviderEvent], work: Path) -> None:
        """Usage comes once, with the end."""
        assert [event.kind for event in events if event.kind in {"usage", "message", "turn.ended"}] == [
            "message",
            "usage",
            "turn.ended",
        ]

    async def test_a_text_that_begins_with_a_slash_is_said_and_not_obeyed(self, case: Case) -> None:
        """OpenCode would run its own command, or drop the text without a word when it knows none of that name."""
        async with case.running(say("hi")) as (model, runtime):
            for text in ("/etc/hosts is odd", " /compact", "/init"):
                events = await case.turn(runtime, await case.begin(runtime), text)
                [said] = said_in(model.model_requests[-1].body)
                assert said.strip("\u200b") == text
                assert events[-1] == DONE
