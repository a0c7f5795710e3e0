"""Turns: typed events in order, tools that change files, interruption, busy threads, two at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import anyio
import pytest
from pydantic import JsonValue

from jamcore.domain.events import (
    CommandFinished,
    CommandOutput,
    CommandStarted,
    FileChanged,
    Message,
    Notice,
    ProviderEvent,
    TextDelta,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    UsageReported,
)
from jamcore.domain.providers import ProviderRefusedError
from jamcore.testing.guards import Process, descendants, settle
from jamcore.testing.providers.case import Case, one_after_another
from jamcore.testing.providers.claims import Claim, ProviderTests, asked_of, declaration
from jamcore.testing.servers.faults import SlowFault
from jamcore.testing.servers.ledger import held_at
from jamcore.testing.servers.script import Call, Hold, Match, Rule, Text, say

DONE = TurnEnded(outcome=TurnOutcome.COMPLETED)
STOPPED = TurnEnded(outcome=TurnOutcome.INTERRUPTED)
FIRST, SECOND = Match(last_user_contains="first"), Match(last_user_contains="second")
FINE = say("fine", match=SECOND)
NOT_A_BYTE = SlowFault(first_byte_s=300)
"""Not even the head of an answer comes for longer than anything here takes."""
IN_TWO_PARTS = Rule(answer=(Text(deltas=("one ", "two"), hold=Hold(gate="g", after=1)),))
"""An answer whose second part waits at the gate ``g``."""
WAIT_FOR = "pwd > here; for i in $(seq 400); do [ -e ../{0}/here ] && exit 0; sleep 0.02; done; exit 1"
RULE = "rule-5521"
EMOJI = "yes \U0001f600 | head -n 60000 | tr -d '\\n'"
"""A command that prints more than any program keeps whole, in characters of two UTF-16 units each."""


class ProviderTurns(ProviderTests):
    """What a turn is.

    Attributes:
        printed: What a command that prints a line ``hi`` is told to have printed.
        added: How the diff of a new file ends that holds the line ``one``.
        further: The kinds of events that :meth:`further_calls` make.
        cut_mark: What the files of a conversation say of a turn that was interrupted; empty where that is not in files.
        told_of_interrupt: Of these words the model reads one after an interrupted command; empty where it reads none.
        offered: The tools that the model is offered.
        headers: Headers of each request to the model, in small letters, and their values; ``None``: it is not there.
        instructions: A file of the workspace that the agent must have read before its first turn.
    """

    printed: ClassVar[str] = "hi\n"
    added: ClassVar[str] = "one\n"
    further: ClassVar[tuple[str, ...]] = ()
    cut_mark: ClassVar[str] = ""
    told_of_interrupt: ClassVar[tuple[str, ...]] = ()
    offered: ClassVar[frozenset[str]]
    headers: ClassVar[tuple[tuple[str, str | None], ...]] = (("authorization", None),)
    instructions: ClassVar[str | None] = None

    def further_calls(self, work: Path) -> Sequence[Call]:
        """Return what else the model calls in the turn that is looked at whole, after ``new.txt`` was made."""
        return ()

    def look_at_the_turn(self, events: Sequence[ProviderEvent], work: Path) -> None:
        """Look at what this provider tells besides in the turn that is looked at whole."""

    def look_at_the_start(self, started: TurnStarted, written: str) -> None:
        """Look at what this provider has written when a turn counts as started."""

    async def test_a_turn_is_typed_and_in_order(self, case: Case) -> None:
        """Start, commands, file change, deltas, message, usage, end: each once, in the order in which they happened.

        What a person sees of an agent at work is made of these alone.
        """
        command = "echo hi > made.txt; cat made.txt"
        calls = (
            case.provider.shell("c1", command),
            case.provider.shell("c2", "echo bad; exit 3"),
            case.write("c3", "new.txt", "one\n"),
            *self.further_calls(case.work),
        )
        async with case.running(*one_after_another(calls, "all ", "done")) as (model, runtime):
            events = await case.turn(runtime, await case.begin(runtime), "please")
        assert isinstance(events[0], TurnStarted)
        assert events[-1] == DONE
        passed_over = (UsageReported, CommandOutput) if case.provider.quiet else (UsageReported, CommandOutput, Notice)
        kinds = [event.kind for event in events if not isinstance(event, passed_over)]
        commands = ["command.started", "command.finished"] * 2
        ending = ["text.delta", "text.delta", "message", "turn.ended"]
        assert kinds == ["turn.started", *commands, "file.changed", *self.further, *ending]
        started = next(event for event in events if isinstance(event, CommandStarted))
        assert (started.item, started.cwd) == ("c1", str(case.work))
        assert case.provider.shown(started.command, command), started.command
        first, second = [event for event in events if isinstance(event, CommandFinished)][:2]
        assert (first.item, first.output, first.exit_code) == ("c1", self.printed, 0)
        assert first.command == started.command
        assert (second.item, second.exit_code) == ("c2", 3)
        assert "bad" in second.output
        changed = next(event for event in events if isinstance(event, FileChanged))
        assert (changed.item, changed.path, changed.change) == ("c3", str(case.work / "new.txt"), "add")
        assert changed.diff.endswith(self.added)
        deltas = [event for event in events if isinstance(event, TextDelta)]
        [message] = [event for event in events if isinstance(event, Message)]
        assert "".join(event.text for event in deltas) == message.text == "all done"
        assert {event.item for event in deltas} == {message.item}
        usage = [event.total_tokens for event in events if isinstance(event, UsageReported)]
        assert usage
        assert usage == sorted(set(usage))
        assert usage[0] > 0
        assert (case.work / "made.txt").read_text() == "hi\n"
        self.look_at_the_turn(events, case.work)
        assert not model.unmatched

    async def test_an_output_that_is_cut_inside_a_character_harms_nothing(self, case: Case) -> None:
        """Two commands print emoji by the ten thousand, the second one unit off at both ends; both are told to their end, like the turn.

        Programs cut what is too long by UTF-16 units: one of the two is cut inside an emoji, and half of one is no text.
        """
        calls = (case.provider.shell("c1", EMOJI), case.provider.shell("c2", f"printf x; {EMOJI}; printf x"))
        async with case.running(*one_after_another(calls, "all ", "done")) as (_, runtime):
            events = await case.turn(runtime, await case.begin(runtime), "please")
        assert events[-1] == DONE
        ends = [event for event in events if isinstance(event, CommandFinished)]
        assert [(event.item, event.exit_code) for event in ends] == [("c1", 0), ("c2", 0)]
        assert all("\U0001f600" in event.output for event in ends)
        "".join(event.model_dump_json() for event in events).encode()

    async def test_a_turn_starts_also_while_the_model_is_silent(self, case: Case) -> None:
        """Not a byte of the model's answer is needed for the start, and the turn can be interrupted.

        Until the start nothing can be interrupted, and a turn that was sent counts as in doubt.
        """
        async with case.running(Rule(answer=(Text(deltas=("x",)),), fault=NOT_A_BYTE)) as (_, runtime):
            identity = await case.begin(runtime)
            with anyio.fail_after(case.limit_s):
                async with runtime.turn(identity, "token-7732") as events, anyio.create_task_group() as tasks:
                    assert isinstance(await anext(events), TurnStarted)
                    tasks.start_soon(runtime.interrupt, identity)
                    assert [event async for event in events][-1] == STOPPED

    @asked_of(Claim.FILES)
    async def test_a_turn_counts_as_started_once_its_message_is_kept(self, case: Case) -> None:
        """When the start is told, what the person said lies in the files that are captured, under the thread's name.

        The core binds the identity on this event, so at that moment a kill must leave something to resume.
        """
        async with case.running(say("hi")) as (_, runtime):
            identity = await case.begin(runtime)
            assert case.captured() == []
            with anyio.fail_after(case.limit_s):
                async with runtime.turn(identity, "token-7731") as events:
                    started = await anext(events)
                    assert isinstance(started, TurnStarted)
                    [kept] = case.captured()
                    written = kept.read_text()
        assert identity in str(kept.relative_to(case.guest.state))
        assert "token-7731" in written
        self.look_at_the_start(started, written)

    async def test_deltas_arrive_while_the_answer_is_being_written(self, case: Case) -> None:
        """The first delta is there while the model still holds the second back.

        An answer that comes at once, after a minute, looks like a room that hangs.
        """
        async with case.running(IN_TWO_PARTS) as (model, runtime):
            identity = await case.begin(runtime)
            deltas = []
            with anyio.fail_after(case.limit_s):
                async with runtime.turn(identity, "go") as events:
                    async for event in events:
                        if isinstance(event, TextDelta):
                            deltas.append(event.text)
                            if len(deltas) == 1:
                                await model.wait_for(held_at("g"), case.limit_s)
                                model.release("g")
        assert deltas == ["one ", "two"]

    async def test_an_interrupt_ends_the_turn_and_the_commands_that_it_left_running(self, case: Case) -> None:
        """A shell with a child and a child in the background: both are gone when the stream ends, and the thread takes the next turn.

        A command that outlives its turn changes files that a checkpoint has seen already.
        """
        command = case.shell("c1", "sleep 971 & echo there; sleep 972; true", FIRST)
        await self.interrupted_in_a_command(case, command, sleepers=2)

    async def interrupted_in_a_command(self, case: Case, *rules: Rule, sleepers: int = 1) -> None:
        """Interrupt the turn ``first`` when so many of its commands sleep; look that they are gone, and that the thread goes on.

        Args:
            case: The guest.
            rules: What the model says to ``first``: it calls the shell once, as ``c1``.
            sleepers: How many processes that makes.
        """
        async with case.running(*rules, FINE) as (_, runtime):
            identity = await case.begin(runtime)
            events: list[ProviderEvent] = []
            sleeping = frozenset[Process]()
            with anyio.fail_after(case.limit_s):
                async with runtime.turn(identity, "first") as stream, anyio.create_task_group() as tasks:
                    async for event in stream:
                        events.append(event)
                        if found := await case.asleep(event, sleepers):
                            sleeping = found
                            tasks.start_soon(runtime.interrupt, identity)
            assert sleeping
            assert settle(sleeping) == ()  # killed: the machine decides when it is gone
            assert events[-1] == STOPPED
            assert [event.item for event in events if isinstance(event, CommandFinished)] == ["c1"]
            await runtime.interrupt(identity)  # idle: nothing happens
            assert (await case.turn(runtime, identity, "second"))[-1] == DONE

    async def test_leaving_a_turn_early_interrupts_it(self, case: Case) -> None:
        """After the context the command is gone, the model's next request shows the interruption, and the thread is free.

        Whoever reads a turn may fail; the agent must not go on working for nobody.
        """
        async with case.running(case.shell("c1", "sleep 973; true", FIRST), FINE) as (model, runtime):
            identity = await case.begin(runtime)
            sleeping = frozenset[Process]()
            with anyio.fail_after(case.limit_s):
                async with runtime.turn(identity, "first") as stream:
                    async for event in stream:
                        if sleeping := await case.asleep(event):
                            break
            assert sleeping
            assert settle(sleeping) == ()  # killed: the machine decides when it is gone
            assert (await case.turn(runtime, identity, "second"))[-1] == DONE
            said = str(model.model_requests[-1].body)
        assert not self.told_of_interrupt or any(words in said for words in self.told_of_interrupt), (
            f"{declaration(self, 'told_of_interrupt')}, and the model reads {said}"
        )

    async def test_cancellation_in_a_turn_interrupts_it(self, case: Case) -> None:
        """Whoever runs the turn is cancelled while the model is silent: the turn is interrupted before the context is left.

        A turn that outlives its owner makes the thread busy for everybody after.
        """
        async with case.running(FINE, Rule(match=FIRST, answer=(Hold(gate="never"),))) as (model, runtime):
            identity = await case.begin(runtime)
            with anyio.fail_after(case.limit_s):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(case.turn, runtime, identity, "first")
                    await model.wait_for(held_at("never"), case.limit_s)
                    tasks.cancel_scope.cancel()
            assert (await case.turn(runtime, identity, "second"))[-1] == DONE

    async def test_closing_the_runtime_in_a_command_leaves_no_process(self, case: Case) -> None:
        """The owner is cancelled while a command runs: program, shell and children are gone, and the turn reads as interrupted.

        What stays behind changes files after the last checkpoint.
        """
        sleeping = frozenset[Process]()
        async with case.server(case.shell("c1", "sleep 975; true", Match(nth=1))) as model:
            with anyio.fail_after(case.limit_s), anyio.CancelScope() as scope:
                async with case.opened(model) as runtime:
                    identity = await case.begin(runtime)
                    async with runtime.turn(identity, "first") as stream:
                        async for event in stream:
                            if found := await case.asleep(event):
                                sleeping = found
                                scope.cancel()
            assert sleeping
            assert settle(sleeping) == ()  # killed: the machine decides when it is gone
            assert not descendants(case.guest.processes[-1].pid)
        if self.cut_mark:
            [kept] = case.captured()
            assert self.cut_mark in kept.read_text(), (
                f"{declaration(self, 'cut_mark')}, and {kept.name} ends {kept.read_text()[-500:]!r}"
            )

    async def test_a_busy_thread_is_refused_and_its_turn_goes_on_undisturbed(self, case: Case) -> None:
        """A second text is refused, the first turn's answer comes whole, and the model was asked once.

        Programs pour a second text into the running turn, keep it for a turn that nobody waits for, or give both one end.
        """
        async with case.running(IN_TWO_PARTS) as (model, runtime):
            identity = await case.begin(runtime)
            texts: list[str] = []
            with anyio.fail_after(case.limit_s):
                async with runtime.turn(identity, "first") as events:
                    async for event in events:
                        if isinstance(event, TextDelta) and not texts:
                            with pytest.raises(ProviderRefusedError, match="running"):
                                await case.turn(runtime, identity, "second")
                            model.release("g")
                        if isinstance(event, Message):
                            texts.append(event.text)
        assert texts == ["one two"]
        assert len(model.model_requests) == 1

    async def test_a_thread_that_is_not_loaded_is_refused(self, case: Case) -> None:
        """A turn needs a thread that this runtime opened or resumed; nothing is sent to the model for another.

        Programs begin a new thread for an identity that they do not know, and answer in it.
        """
        async with case.running() as (model, runtime):
            with pytest.raises(ProviderRefusedError, match="not loaded"):
                await case.turn(runtime, case.provider.unknown, "hello")
        assert not model.requests

    @pytest.mark.guarantee("SHARE-5")
    @asked_of(Claim.SHARED)
    async def test_two_threads_run_at_the_same_time_in_their_own_directories(self, case: Case) -> None:
        """Each waits for the other's file, which it could not do one after the other, and each gets its own events.

        On a shared host each is another session: a file or a word in the wrong one is another person's.
        """
        for name in ("a", "b"):
            (case.work / name).mkdir()
        rules = [
            rule
            for name, other in (("a", "b"), ("b", "a"))
            for rule in (
                case.shell(f"c{name}", WAIT_FOR.format(other), Match(last_user_contains=f"go {name}", last_is_tool_output=False)),
                say(f"{name} done", match=Match(tool_output=f"c{name}")),
            )
        ]
        seen: dict[str, list[ProviderEvent]] = {}
        async with case.running(*rules) as (_, runtime):

            async def one(name: str) -> None:
                seen[name] = await case.turn(runtime, await case.begin(runtime, cwd=case.work / name), f"go {name}")

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one, "a")
                tasks.start_soon(one, "b")
        for name, events in seen.items():
            [command] = [event for event in events if isinstance(event, CommandFinished)]
            assert (command.item, command.exit_code) == (f"c{name}", 0)
            assert [event.cwd for event in events if isinstance(event, CommandStarted)] == [str(case.work / name)]
            assert [event.text for event in events if isinstance(event, Message)] == [f"{name} done"]
            assert (case.work / name / "here").read_text().strip() == str(case.work / name)

    async def test_only_tools_that_a_sandbox_can_have_are_offered(self, case: Case) -> None:
        """Nothing hosted, nothing that starts turns by itself, nothing outside the conversation; no real credential is there to send.

        A model uses what it is offered, and a hosted tool sends the workspace to its vendor.
        """
        if self.instructions:
            (case.work / self.instructions).write_text(f"{RULE}\n")
        async with case.running(say("hi")) as (model, runtime):
            await case.turn(runtime, await case.begin(runtime), "hello")
        [request] = model.requests
        body = request.body
        assert isinstance(body, dict)
        assert tools_in(body) == self.offered, declaration(self, "offered")
        assert body["model"] == case.provider.model
        sent = tuple((name, request.header(name)) for name, _ in self.headers)
        assert sent == self.headers, f"{declaration(self, 'headers')}, and sent was {sent}"
        assert (request.method, request.path) == ("POST", f"/v1{case.provider.server.dialect.model_path}")
        assert not self.instructions or RULE in str(body)


def tools_in(body: Mapping[str, JsonValue]) -> frozenset[str]:
    """Return the names of the tools that a request offers."""
    offered = body["tools"]
    assert isinstance(offered, list)
    inner = [tool.get("function", tool) for tool in offered if isinstance(tool, dict)]
    return frozenset(str(tool["name"]) for tool in inner if isinstance(tool, dict))
