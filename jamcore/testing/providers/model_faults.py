"""What a failing model endpoint does to a turn: a typed end with a stable code, or a turn that an interrupt ends; the thread goes on."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

import anyio
import pytest

from jamcore.domain.events import Message, Notice, ProviderEvent, TextDelta, TurnEnded, TurnOutcome, TurnStarted
from jamcore.domain.ids import ProviderIdentity
from jamcore.plugins.runtime import ProviderRuntime
from jamcore.testing.proof import NOT_CLAIMED
from jamcore.testing.provider_turns import run_turn
from jamcore.testing.providers.case import Case
from jamcore.testing.providers.claims import ProviderTests
from jamcore.testing.providers.turns import DONE, FINE, FIRST, STOPPED
from jamcore.testing.servers.faults import CutFault, Fault, SilentFault, SlowFault
from jamcore.testing.servers.history import AssistantText
from jamcore.testing.servers.ledger import received
from jamcore.testing.servers.script import Rule, Text, say
from jamcore.testing.servers.server import ModelServer

ANSWER = (Text(deltas=("one ", "two")),)
LONGEST_S = 120.0
"""Some programs' own retries cannot be bounded: those of a 429 may take a minute."""
SILENT = SilentFault(after_deltas=1)
NO_FAULTS: Mapping[str, Fault] = MappingProxyType({})
NO_CODES: Mapping[str, tuple[Fault, str]] = MappingProxyType({})


class ProviderModelFaults(ProviderTests):
    """What becomes of a turn.

    Attributes:
        ended: Faults after which the turn ends by itself, with the codes that it ends with. Where the program itself takes one for a
            completed turn, the plugin has to end it as failed: an end without a word or a call of the model is ``STREAM_CUT``.
        ended_late: More of them, after which that takes longer than a few seconds.
        endless: Faults after which the program tries again for ever.
        passing: Faults of which the program's own retry makes nothing when they happen once.
        most_requests: How often the model is asked at most before a turn ends by itself.
        retry: A part of the notice that tells a person of a retry; empty where there is none.
        unreachable: The code when nobody listens at the endpoint; empty: the program tries for ever.
    """

    ended: ClassVar[Mapping[str, tuple[Fault, str]]]
    ended_late: ClassVar[Mapping[str, tuple[Fault, str]]] = NO_CODES
    endless: ClassVar[Mapping[str, Fault]] = NO_FAULTS
    passing: ClassVar[Mapping[str, Fault]] = MappingProxyType({"cut stream": CutFault(after_deltas=1)})
    most_requests: ClassVar[int] = 8
    retry: ClassVar[str] = ""
    unreachable: ClassVar[str]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make a test of each fault that the subclass names."""
        slow = [pytest.param(name, marks=pytest.mark.slow, id=name) for name in self.ended_late]
        nothing = pytest.param("", marks=pytest.mark.skip(reason=f"{NOT_CLAIMED}every turn ends by itself"), id="none")
        tables: Mapping[str, list[object]] = {
            "ending": [*self.ended, *slow],
            "endless_fault": [*self.endless] or [nothing],
            "passing_fault": [*self.passing],
        }
        for name, values in tables.items():
            if name in metafunc.fixturenames:
                metafunc.parametrize(name, values)

    def rules(self, fault: Fault, *, times: int | None = None) -> tuple[Rule, ...]:
        """Return the rules: the first text meets the fault, the second none. Some programs send a failed turn's text with the next.

        The last is for what a program asks beside the turns, such as a summary of a full context.
        """
        return (FINE, Rule(match=FIRST, answer=ANSWER, fault=fault, fault_times=times), say("summary"))

    def look_at_the_failure(self, events: list[ProviderEvent], requests: int, code: str) -> None:
        """Look at what this provider tells besides of a turn that failed after so many requests."""

    async def look_at_the_thread(self, case: Case, model: ModelServer, identity: ProviderIdentity) -> None:
        """Look at what this provider has kept of a turn that failed and one that was completed, when its program is gone."""

    async def test_a_fault_ends_the_turn_with_its_code_and_the_thread_goes_on(self, case: Case, ending: str) -> None:
        """After the program's own bounded retries the end says FAILED and why; the next turn in the same thread completes.

        A code is what a person's script acts on, so it must not depend on a sentence that the next version words anew.
        """
        fault, code = {**self.ended, **self.ended_late}[ending]
        async with case.server(*self.rules(fault)) as model:
            async with case.opened(model) as runtime:
                identity = await case.begin(runtime)
                failed = await run_turn(runtime, identity, "first", timeout_s=LONGEST_S)
                requests = len(model.model_requests)
                after = await case.turn(runtime, identity, "second")
            await self.look_at_the_thread(case, model, identity)
        end = failed[-1]
        assert isinstance(end, TurnEnded)
        assert end.outcome is TurnOutcome.FAILED, (
            f"{type(self).__name__}.ended says {code!r} after {ending!r}, the turn {end.outcome}. Where your program takes such an answer "
            "for a completed turn, the plugin ends it as failed: one without a word or a call of the model is stream_cut"
        )
        assert end.code == code, (
            f"{type(self).__name__}.ended says {code!r} after {ending!r}; the end: {end.code!r}, {end.detail!r}"
        )
        assert end.detail
        assert isinstance(failed[0], TurnStarted)
        assert after[-1] == DONE
        assert requests <= self.most_requests
        self.look_at_the_failure(failed, requests, code)

    async def test_endless_retries_end_with_an_interrupt_and_the_thread_goes_on(self, case: Case, endless_fault: str) -> None:
        """Whoever runs the turn can end it at once, in the middle of the program's own retries; it is told as what it was.

        The deadline of a turn is the core's: an interrupt is all that it has.
        """
        fault = self.endless[endless_fault]
        async with case.running(*self.rules(fault)) as (model, runtime):
            identity = await case.begin(runtime)
            with anyio.fail_after(case.limit_s):
                async with runtime.turn(identity, "first") as stream, anyio.create_task_group() as tasks:
                    tasks.start_soon(interrupt_after, 1 if isinstance(fault, SilentFault) else 2, case, model, runtime, identity)
                    events = [event async for event in stream]
            assert events[-1] == STOPPED
            assert (await case.turn(runtime, identity, "second"))[-1] == DONE

    async def test_a_passing_fault_is_retried_and_the_half_answer_is_not_kept(self, case: Case, passing_fault: str) -> None:
        """The turn completes by the program's own retry, with the whole answer; a person sees that there was one, where it is told.

        A half answer that stays is told to the model as its own words for as long as the thread lives.
        """
        async with case.running(*self.rules(self.passing[passing_fault], times=1)) as (model, runtime):
            identity = await case.begin(runtime)
            events = await case.turn(runtime, identity, "first")
            await case.turn(runtime, identity, "second")
            told = [item.text for item in model.model_requests[-1].conversation if isinstance(item, AssistantText)]
        assert events[-1] == DONE
        assert [event.text for event in events if isinstance(event, Message)][-1].endswith("one two")
        assert any(isinstance(event, TextDelta) for event in events)
        assert not self.retry or [event for event in events if isinstance(event, Notice) and self.retry in event.text]
        self.look_at_what_is_told(told)

    def look_at_what_is_told(self, told: list[str]) -> None:
        """Look at what the model is told of its own answer after a retry."""
        assert told == ["one two"]

    async def test_a_slow_first_byte_is_only_slow(self, case: Case) -> None:
        """Two seconds of silence before the answer changes nothing, and the model is asked once.

        Models think before they speak; a client that takes that for a fault asks, and pays, twice.
        """
        async with case.running(*self.rules(SlowFault(first_byte_s=2))) as (model, runtime):
            assert (await case.turn(runtime, await case.begin(runtime), "first"))[-1] == DONE
        assert len(model.model_requests) == 1

    async def test_a_stalled_stream_can_be_interrupted(self, case: Case) -> None:
        """Programs wait for minutes, as for a model that thinks; whoever runs the turn can end it at once, and the thread goes on.

        A stall is no end: without an interrupt that works the room is lost until its host is stopped.
        """
        async with case.running(*self.rules(SILENT)) as (_, runtime):
            identity = await case.begin(runtime)
            last = None
            with anyio.fail_after(case.limit_s):
                async with runtime.turn(identity, "first") as events, anyio.create_task_group() as tasks:
                    async for event in events:
                        last = event
                        if isinstance(event, TextDelta):
                            tasks.start_soon(runtime.interrupt, identity)
            assert last == STOPPED
            assert (await case.turn(runtime, identity, "second"))[-1] == DONE

    async def test_an_unreachable_endpoint_ends_the_turn(self, case: Case) -> None:
        """Nobody listens: the turn fails within its retries and says that it was the connection, or an interrupt ends it.

        It is the commonest fault of all, and the one that a person can mend when it is named.
        """
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            async with case.opened(f"http://127.0.0.1:{unused.getsockname()[1]}") as runtime:
                identity = await case.begin(runtime)
                if self.unreachable:
                    end = (await run_turn(runtime, identity, "first", timeout_s=LONGEST_S))[-1]
                    assert isinstance(end, TurnEnded)
                    assert (end.outcome, end.code) == (TurnOutcome.FAILED, self.unreachable)
                    return
                with anyio.fail_after(case.limit_s):
                    async with runtime.turn(identity, "first") as stream, anyio.create_task_group() as tasks:
                        assert isinstance(await anext(stream), TurnStarted)
                        tasks.start_soon(runtime.interrupt, identity)
                        assert [event async for event in stream][-1] == STOPPED


async def interrupt_after(
    requests: int, case: Case, model: ModelServer, runtime: ProviderRuntime, identity: ProviderIdentity
) -> None:
    """Interrupt once the model was asked so often: the last of them is the program's own retry."""
    await model.wait_for(received(requests), case.limit_s)
    await runtime.interrupt(identity)
