"""Bringing a thread of the real Claude Code back: exactly, from the captured files alone, or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from jamcore.api import Notice, TurnOutcome, UsageReported
from jamcore.testing.providers.case import Case, told
from jamcore.testing.providers.kills import ProviderKills
from jamcore.testing.providers.resume import ProviderResume
from jamcore.testing.providers.turns import DONE
from jamcore.testing.servers.faults import HttpFault
from jamcore.testing.servers.history import UserText, contains_in_order
from jamcore.testing.servers.script import Match, Rule, Text, say

pytestmark = [pytest.mark.needs("claude_code"), pytest.mark.unprivileged]


class TestResume(ProviderResume):
    """Claude Code's."""

    gap = ("No response requested.",)
    refused_by = frozenset({"resume"})
    credential = "threads/{identity}/.credentials.json"
    damage = MappingProxyType({"emptied": lambda _: b"", "zeros": lambda _: b"\0" * 4096, "garbage": lambda _: b"garbage\n{}\n"})
    damage_words = "transcript"

    def hostile_files(self, case: Case, identity: str, mark: Path) -> Mapping[Path, str]:
        """Broken settings, and some that lead elsewhere, wherever Claude Code looks for any."""
        elsewhere = json.dumps({"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}, "cleanupPeriodDays": 1})
        own = case.guest.state / "threads" / identity
        places = (case.work / ".claude", own, case.guest.home / ".claude")
        return {
            **{place / "settings.json": elsewhere for place in places},
            **{place / "settings.local.json": "garbage [[[" for place in places},
            own / ".claude.json": elsewhere,
            case.guest.home / ".claude.json": elsewhere,
            case.work / ".mcp.json": "garbage [[[",
        }

    def look_untouched(self, case: Case) -> None:
        """No program is started for a thread that is not there, so nothing at all is new."""
        assert not [path for path in case.guest.state.rglob("*") if path.is_file()]

    @pytest.mark.guarantee("CONT-1")
    async def test_after_a_resume_the_model_is_sent_the_same_request_to_the_byte(self, case: Case) -> None:
        """Not only what was said: system text, tools, reminders and all, the next request begins as the one before the kill."""
        async with case.server(*self.rules(case)) as model:
            async with case.opened(model) as runtime:
                identity = await case.begin(runtime)
                for text in ("first", "second"):
                    await case.turn(runtime, identity, text)
                before, messages = as_sent(model.model_requests[-1].body)
                await case.kill()
                await runtime.closed()
            async with case.opened(model) as runtime:
                await case.resume(runtime, identity)
                await case.turn(runtime, identity, "fourth")
            after, later = as_sent(model.model_requests[-1].body)
        assert after == before
        assert later[: len(messages)] == messages

    @pytest.mark.guarantee("CONT-1")
    async def test_a_transcript_is_not_deleted_for_its_age(self, case: Case) -> None:
        """Claude Code on its own deletes what is older than a month when it starts, a conversation that rested like any other."""
        async with case.server(*self.rules(case)) as model:
            identity = (await self.killed_in_the_third(case, model))[0].identity
            [transcript] = case.captured()
            os.utime(transcript, (1_000_000_000, 1_000_000_000))
            async with case.opened(model) as runtime:
                await case.resume(runtime, identity)
                assert (await case.turn(runtime, identity, "fourth"))[-1] == DONE
            async with case.opened(model) as runtime:
                again = await case.resume(runtime, identity)
        assert len(again.turns) == 4

    @pytest.mark.guarantee("CONT-1", "CONT-11")
    async def test_a_compacted_thread_comes_back_as_it_went_on(self, case: Case) -> None:
        """A full context becomes a summary within the turn; after a resume the model is told the same one, and every turn is known."""
        full = HttpFault(status=400, message="prompt is too long: 250000 tokens > 200000 maximum")
        rules = (
            Rule(match=Match(last_user_contains="four"), answer=(Text(deltas=("x",)),), fault=full, times=1),
            *(say(f"answer-{word}", match=Match(last_user_contains=word)) for word in ("one", "two", "three", "five")),
            say("summary-6612", match=Match(last_user_contains="summary")),
            say("answer-four"),
        )
        async with case.server(*rules) as model:
            async with case.opened(model) as runtime:
                identity = await case.begin(runtime)
                ends = [(await case.turn(runtime, identity, word)) for word in ("one", "two", "three", "four")]
            before = told(model)
            async with case.opened(model) as runtime:
                again = await case.resume(runtime, identity)
                await case.turn(runtime, identity, "five")
            after = told(model)
        assert [events[-1] for events in ends] == [DONE] * 4
        assert ["summary" in event.text for event in ends[-1] if isinstance(event, Notice)] == [True]
        assert [turn.outcome for turn in again.turns] == [TurnOutcome.COMPLETED] * 4
        assert contains_in_order(before, after) is None
        assert UserText("one") not in after

    async def test_what_a_thread_cost_is_counted_over_its_programs(self, case: Case) -> None:
        """Each program counts from nothing; what the transcript knows is added."""
        counted = []
        async with case.server(say("hi")) as model:
            async with case.opened(model) as runtime:
                identity = await case.begin(runtime)
                counted += await case.turn(runtime, identity, "one")
            async with case.opened(model) as runtime:
                await case.resume(runtime, identity)
                counted += await case.turn(runtime, identity, "two")
        assert [event.total_tokens for event in counted if isinstance(event, UsageReported)] == [15, 30]


class TestKills(ProviderKills):
    """Claude Code's. It writes down what the turn did some 0.1 s late."""


def as_sent(body: object) -> tuple[object, list[object]]:
    """Return what a request says besides its messages, and these; without what says how it is cached and whose it is.

    A text is the same whether it stands alone or as the only block.
    """

    def plain(value: object) -> object:
        if isinstance(value, dict):
            kept = {key: plain(entry) for key, entry in value.items() if key != "cache_control"}
            content = kept.get("content")
            return {**kept, "content": [{"type": "text", "text": content}]} if isinstance(content, str) else kept
        return [plain(entry) for entry in value] if isinstance(value, list) else value

    assert isinstance(body, dict)
    sent = plain({key: body[key] for key in ("model", "system", "tools", "max_tokens")})
    messages = plain(body["messages"])
    assert isinstance(messages, list)
    return sent, messages
