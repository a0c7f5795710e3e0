"""What programs are known to do with conversations that rest: tell them again, clean them away, begin them anew, forget who may do what.

``docs/provider-pitfalls.md`` names the tests of every such kind, provider by provider.
"""

from __future__ import annotations

import os

import pytest

from jamcore.domain.approvals import ApprovalAnswer, ApprovalPolicy
from jamcore.domain.errors import JamError
from jamcore.domain.events import ApprovalRequested, Message, Notice, TextDelta, TurnOutcome, TurnStarted, UsageReported
from jamcore.domain.providers import ProviderGoneError
from jamcore.testing.providers.case import Case, told
from jamcore.testing.providers.claims import Claim, ProviderTests, asked_of
from jamcore.testing.providers.turns import DONE
from jamcore.testing.servers.history import AssistantText, ToolCall, ToolOutput, UserText
from jamcore.testing.servers.script import Hold, Match, Rule, Text, say

LONG_AGO = 1_000_000_000
"""A time in 2001, in seconds: older than whatever a program keeps."""


INTERRUPTED = ("interrupted", "aborted")
"""What models read of a call whose output is not known."""


@asked_of(Claim.CONTINUITY)
class ProviderPitfalls(ProviderTests):
    """What has no better place in the other parts of the suite."""

    def age(self, case: Case) -> None:
        """Make everything that the program keeps look as if it had rested for many years."""
        for root in (case.guest.state, case.guest.home):
            for path in root.rglob("*"):
                os.utime(path, (LONG_AGO, LONG_AGO), follow_symlinks=False)

    def rules(self) -> tuple[Rule, ...]:
        """Return the rules of a model that has an answer of its own for each text."""
        return tuple(say(f"answer-{text}", match=Match(last_user_contains=text)) for text in ("third", "second", "first"))

    @pytest.mark.guarantee("CONT-1", "CONT-11")
    async def test_what_was_said_before_is_not_told_again(self, case: Case) -> None:
        """A room has each turn once: the turn after a resume has its own events alone, whatever the program repeats when it loads.

        What is told twice is in the room twice, and in the next export.
        """
        async with case.server(*self.rules()) as model:
            async with case.opened(model) as runtime:
                identity = await case.begin(runtime)
                for text in ("first", "second"):
                    await case.turn(runtime, identity, text)
            async with case.opened(model) as runtime:
                again = await case.resume(runtime, identity)
                events = await case.turn(runtime, identity, "third")
        assert [turn.outcome for turn in again.turns] == [TurnOutcome.COMPLETED] * 2
        kinds = (TurnStarted, TextDelta, Message, UsageReported, Notice)
        assert [event.text for event in events if isinstance(event, Message)] == ["answer-third"]
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "answer-third"
        assert [event for event in events if not isinstance(event, kinds)] == [DONE]
        assert sum(isinstance(event, TurnStarted) for event in events) == 1

    @pytest.mark.guarantee("CONT-1")
    async def test_a_conversation_that_rested_for_years_comes_back(self, case: Case) -> None:
        """Also when the program was started meanwhile for another one, which is when some clean up.

        Rooms rest for as long as their owners do.
        """
        async with case.server(*self.rules()) as model:
            async with case.opened(model) as runtime:
                identity = await case.begin(runtime)
                await case.turn(runtime, identity, "first")
            self.age(case)
            async with case.opened(model) as runtime:
                await case.turn(runtime, await case.begin(runtime), "second")
            self.age(case)
            async with case.opened(model) as runtime:
                again = await case.resume(runtime, identity)
                await case.turn(runtime, identity, "third")
            said = told(model)
        assert [turn.outcome for turn in again.turns] == [TurnOutcome.COMPLETED]
        assert [item.text for item in said if isinstance(item, UserText)] == ["first", "third"]
        assert [item.text for item in said if isinstance(item, AssistantText)] == ["answer-first"]

    @pytest.mark.guarantee("CONT-1")
    async def test_a_thread_whose_files_are_gone_is_not_begun_anew(self, case: Case) -> None:
        """Refused as often as it is asked for; an empty conversation under the old name would look like the old one.

        The person would go on talking to somebody who knows nothing.
        """
        async with case.server(*self.rules()) as model:
            async with case.opened(model) as runtime:
                identity = await case.begin(runtime)
                await case.turn(runtime, identity, "first")
            for path in (*case.captured(), *case.databases()):
                for beside in path.parent.glob(f"{path.name}*"):
                    beside.unlink()
            asked = len(model.requests)
            for _ in range(2):
                async with case.opened(model) as runtime:
                    with pytest.raises(JamError):
                        await case.resume(runtime, identity)
                    with pytest.raises(JamError):
                        await case.turn(runtime, identity, "second")
            assert len(model.requests) == asked
        assert case.captured() == []

    @pytest.mark.guarantee("CONT-1", "CONT-11")
    async def test_a_tool_whose_output_was_not_written_down_is_said_to_be_unknown(self, case: Case) -> None:
        """Killed at the next word after a tool, the turn is cut, and its call has the output, or one that says that it was interrupted.

        Programs show what they do up to a moment before they write it down. What was not is never passed over in silence.
        """
        look = case.provider.shell("c1", "echo tool-4411")
        rules = (
            *self.rules()[:1],
            Rule(match=Match(last_user_contains="second", last_is_tool_output=False), answer=(look,), times=1),
            Rule(match=Match(last_user_contains="second"), answer=(Text(deltas=("so ", "it"), hold=Hold(gate="never", after=1)),)),
        )
        async with case.server(*rules) as model:
            async with case.opened(model) as runtime:
                identity = await case.begin(runtime)
                with pytest.raises(ProviderGoneError):
                    await case.kill_at(TextDelta, runtime, identity, "second")
            async with case.opened(model) as runtime:
                again = await case.resume(runtime, identity)
                await case.turn(runtime, identity, "third")
            said = told(model)
        assert [turn.outcome for turn in again.turns] == [TurnOutcome.INTERRUPTED]
        calls = [item.call_id for item in said if isinstance(item, ToolCall)]
        outputs = {item.call_id: item.output for item in said if isinstance(item, ToolOutput)}
        assert calls in ([], ["c1"])
        assert [*outputs] == calls
        assert all(any(word in output for word in ("tool-4411", *INTERRUPTED)) for output in outputs.values()), outputs
        assert [item.text for item in said if isinstance(item, UserText)] == ["second", "third"]

    @pytest.mark.guarantee("CONT-1")
    @asked_of(Claim.APPROVALS)
    async def test_a_thread_that_never_asks_does_not_ask_when_it_is_resumed(self, case: Case) -> None:
        """Programs forget what they may do when they end: it is said again with every resume.

        A question that nobody expects stops a room that ran for weeks.
        """
        make = case.write("c1", "new.txt", "made\n")
        rules = (
            Rule(match=Match(last_user_contains="second", last_is_tool_output=False), answer=(make,), times=1),
            *self.rules(),
        )
        async with case.server(*rules) as model:
            async with case.opened(model) as runtime:
                identity = await case.begin(runtime, approvals=ApprovalPolicy.NEVER)
                await case.turn(runtime, identity, "first")
            async with case.opened(model) as runtime:
                await case.resume(runtime, identity)
                events = await case.answered(runtime, identity, ApprovalAnswer.DENY, "second")
        assert [event for event in events if isinstance(event, ApprovalRequested)] == []
        assert events[-1] == DONE
        assert (case.work / "new.txt").read_text() == "made\n"


__all__ = ["LONG_AGO", "ProviderPitfalls"]
