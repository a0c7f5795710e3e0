"""Turns of the real Copilot: typed events in order, tools that change files, interruption, busy threads."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import anyio
import pytest
from pydantic import JsonValue

from jam_copilot.config import KEY
from jam_copilot.runtime import CopilotRuntime
from jamcore.api import (
    FileChanged,
    Message,
    Notice,
    ProviderEvent,
    ProviderRefusedError,
    ThreadRequest,
    UsageReported,
)
from jamcore.testing.guards import descendants
from jamcore.testing.providers.case import Case
from jamcore.testing.providers.turns import DONE, FINE, FIRST, ProviderTurns
from jamcore.testing.servers.script import Call, Hold, Match, Rule, say

pytestmark = [pytest.mark.needs("copilot"), pytest.mark.unprivileged]

BACKGROUND: Mapping[str, JsonValue] = MappingProxyType({"mode": "async"})
DETACHED: Mapping[str, JsonValue] = MappingProxyType({"mode": "async", "detach": True})


def shell(command: str, match: Match, how: Mapping[str, JsonValue]) -> Rule:
    """Return the rule by which the model calls the shell once, and does not wait for it."""
    arguments: dict[str, JsonValue] = {"command": command, "description": "what it does", **how}
    return Rule(match=match, answer=(Call(name="bash", arguments=arguments, call_id="c1"),), times=1)


class TestTurns(ProviderTurns):
    """Copilot's."""

    added = "+one\n"
    further = ("file.changed",)
    cut_mark = '"abort"'
    told_of_interrupt = (
        "Shell execution cancelled during synchronous wait",  # where it was waiting for the command already
        "The execution of this tool, or a previous tool was interrupted.",  # where it was not yet
    )
    offered = frozenset({"bash", "create", "edit", "glob", "grep", "list_bash", "read_bash", "stop_bash", "view"})
    headers = (("authorization", f"Bearer {KEY}"),)

    def further_calls(self, work: Path) -> Sequence[Call]:
        """Change the file."""
        edit: dict[str, JsonValue] = {"path": str(work / "new.txt"), "old_str": "one", "new_str": "two"}
        return (Call(name="edit", arguments=edit, call_id="c4"),)

    def look_at_the_turn(self, events: Sequence[ProviderEvent], work: Path) -> None:
        """A change is told apart from a new file, and usage comes with each of the five requests."""
        changed = [event for event in events if isinstance(event, FileChanged)][-1]
        assert (changed.path, changed.change) == (str(work / "new.txt"), "update")
        assert "+two" in changed.diff
        assert len([event for event in events if isinstance(event, UsageReported)]) == 5
        assert (work / "new.txt").read_text() == "two\n"

    async def test_a_turn_lasts_as_long_as_what_it_started_in_the_background(self, case: Case) -> None:
        """The agent is told of the end of its command and speaks again, in the same turn: nothing begins by itself between two turns."""
        rules = (
            shell("sleep 1; echo late > late.txt", Match(nth=1), BACKGROUND),
            say("it runs", match=Match(nth=2)),
            say("it ended", match=Match(nth=3)),
        )
        async with case.running(*rules) as (_, runtime):
            events = await case.turn(runtime, await case.begin(runtime), "please")
            assert (case.work / "late.txt").exists()
        assert [event.text for event in events if isinstance(event, Message)] == ["it runs", "it ended"]
        assert events[-1] == DONE

    @pytest.mark.parametrize("how", [BACKGROUND, DETACHED], ids=["in the background", "detached"])
    async def test_an_interrupt_ends_what_runs_beside_the_turn(self, case: Case, how: Mapping[str, JsonValue]) -> None:
        """Its commands are gone when the stream ends, wherever they ran, and the thread takes the next turn."""
        silent = Rule(match=Match(tool_output="c1", last_user_contains="first"), answer=(Hold(gate="never"),))
        await self.interrupted_in_a_command(case, shell("sleep 971; true", FIRST, how), silent)
        with anyio.fail_after(case.limit_s):  # what Copilot puts beside a detached command: a shell that looks every five seconds
            while any("sleep 5" in process.command for process in descendants(os.getpid())):  # noqa: ASYNC110 - it tells nobody
                await anyio.sleep(0.1)

    async def test_a_thread_without_a_model_is_refused_in_words(self, case: Case) -> None:
        """Copilot would ask an endpoint of one's own for a model of its vendor's choice."""
        async with case.running() as (_, runtime):
            with pytest.raises(ProviderRefusedError, match="no model to begin with"):
                await runtime.open_thread(ThreadRequest(cwd=str(case.work)))

    async def test_what_the_agent_begins_by_itself_is_stopped_and_said(self, case: Case) -> None:
        """The end of a detached command wakes Copilot between two turns: its answer is not waited for, and the next turn shows what was."""
        rules = (
            shell("sleep 1", Match(nth=1), DETACHED),
            say("it runs", match=FIRST, times=1),
            FINE,
            Rule(answer=(Hold(gate="never"),)),
        )
        async with case.running(*rules) as (_, runtime):
            assert isinstance(runtime, CopilotRuntime)
            identity = await case.begin(runtime)
            first = await case.turn(runtime, identity, "first")
            with anyio.fail_after(case.limit_s):
                while not runtime._threads[identity].notices:  # noqa: ASYNC110 - what it does by itself is told to nobody
                    await anyio.sleep(0.02)
            second = await case.turn(runtime, identity, "second")
        assert [event.text for event in first if isinstance(event, Message)] == ["it runs"]
        assert any("by itself" in event.text for event in second if isinstance(event, Notice))
        assert second[-1] == DONE
