"""Kills at the boundaries of the protocol: whatever the last event was, the thread comes back."""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256

import anyio
import pytest

from jamcore.domain.events import (
    CommandFinished,
    CommandStarted,
    FileChanged,
    Message,
    ProviderEvent,
    TextDelta,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    UsageReported,
)
from jamcore.domain.providers import ProviderGoneError
from jamcore.testing.guards import descendants, kill
from jamcore.testing.providers.case import Case, told
from jamcore.testing.providers.claims import Claim, ProviderTests, asked_of
from jamcore.testing.providers.turns import DONE
from jamcore.testing.servers.history import UserText, contains_in_order
from jamcore.testing.servers.script import Match, Rule, Text, say

BOUNDARIES = (TurnStarted, TextDelta, Message, CommandStarted, CommandFinished, FileChanged, UsageReported, TurnEnded)


@asked_of(Claim.CONTINUITY)
class ProviderKills(ProviderTests):
    """SIGKILL at each kind of event of a turn that speaks, runs a command and makes a file."""

    @pytest.mark.guarantee("CONT-1", "CONT-11")
    @pytest.mark.parametrize("kind", BOUNDARIES, ids=lambda kind: str(kind.__name__))
    async def test_a_kill_at_any_event_loses_no_finished_turn_and_no_text_of_the_person(
        self, case: Case, kind: type[ProviderEvent]
    ) -> None:
        """The thread comes back, and the next request holds all finished turns and what the cut one was asked.

        What the cut turn had done is there as far as the program had written it down.
        """
        work = (Text(deltas=("words",)), case.provider.shell("c1", "echo hi"))
        make = Match(tool_output="c1", last_is_tool_output=True, last_user_contains="second")
        rules = (
            say("answer-3", match=Match(last_user_contains="third")),
            say("answer-1", match=Match(last_user_contains="first")),
            Rule(match=Match(last_user_contains="second", last_is_tool_output=False), answer=work),
            Rule(match=make, answer=(case.write("c2", "new.txt", "x\n"),), times=1),
            say("answer-2", match=Match(last_user_contains="second")),
        )
        async with case.server(*rules) as model:
            async with case.opened(model) as runtime:
                identity = await case.begin(runtime)
                await case.turn(runtime, identity, "first")
                finished = told(model)
                with suppress(ProviderGoneError):  # after the last event nothing is left to fail
                    await case.kill_at(kind, runtime, identity, "second")
                with anyio.fail_after(case.limit_s):
                    await runtime.closed()
            kill(descendants())
            finished = told(model) if kind is TurnEnded else finished
            async with case.opened(model) as runtime:
                again = await case.resume(runtime, identity)
                events = await case.turn(runtime, identity, "third")
            after = told(model)
        assert again.identity == identity
        ended = TurnOutcome.COMPLETED if kind is TurnEnded else again.turns[-1].outcome
        assert [turn.outcome for turn in again.turns] == [TurnOutcome.COMPLETED, ended]
        assert again.turns[-1].text_digest == sha256(b"second").hexdigest()
        assert events[-1] == DONE
        assert [item.text for item in after if isinstance(item, UserText)] == ["first", "second", "third"]
        assert contains_in_order(finished, after) is None
