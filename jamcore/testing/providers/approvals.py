"""What an agent asks before it acts, in a thread that asks; and what it hears: this once, or no."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import anyio

from jamcore.domain.approvals import ApprovalAnswer, ApprovalPolicy
from jamcore.domain.events import ApprovalRequested, CommandFinished, FileChanged, Notice, ProviderEvent
from jamcore.domain.ids import ProviderIdentity
from jamcore.plugins.runtime import ProviderRuntime
from jamcore.testing.providers.case import Case, one_after_another, told
from jamcore.testing.providers.claims import Claim, ProviderTests, asked_of, declaration
from jamcore.testing.providers.turns import DONE, STOPPED
from jamcore.testing.servers.history import ToolOutput
from jamcore.testing.servers.script import Call, Match, Rule, say

ALLOW, DENY = ApprovalAnswer.ALLOW, ApprovalAnswer.DENY
PLEASE = Match(last_user_contains="please")
AGAIN = say("fine", match=Match(last_user_contains="again"))
TOUCH = "touch made.txt"


def questions_in(events: Sequence[ProviderEvent]) -> list[ApprovalRequested]:
    """Return the questions among the events."""
    return [event for event in events if isinstance(event, ApprovalRequested)]


@asked_of(Claim.APPROVALS)
class ProviderApprovals(ProviderTests):
    """What is asked about.

    Attributes:
        change: How a question about a new file says what is done to it.
        denied: A part of what the model reads as the result of a denied call; empty where a denial ends the turn.
        further: The kinds of events that :meth:`further_calls` make, questions among them.
    """

    change: ClassVar[str] = "add"
    denied: ClassVar[str]
    further: ClassVar[tuple[str, ...]] = ()

    def further_calls(self, work: Path) -> Sequence[Call]:
        """Return what else the model calls in the turn in which everything is allowed, after ``new.txt`` was made."""
        return ()

    def look_at_the_turn(self, events: Sequence[ProviderEvent], work: Path) -> None:
        """Look at what this provider says besides in the turn in which everything is allowed, in its questions above all."""

    async def answered(
        self, case: Case, runtime: ProviderRuntime, thread: ProviderIdentity, answer: ApprovalAnswer, text: str = "please"
    ) -> list[ProviderEvent]:
        """Run a turn, answer every question in the same way, and return all events."""
        return await case.answered(runtime, thread, answer, text)

    def rules(self, case: Case) -> tuple[Rule, ...]:
        """Return the rules of a model that runs a command and makes a file."""
        return (AGAIN, *one_after_another((case.provider.shell("c1", TOUCH), case.write("c2", "new.txt", "one\n")), "done"))

    async def test_what_is_allowed_is_done(self, case: Case) -> None:
        """A command and a change of files are each asked about once, with all that they would do, and then done.

        A person who says yes to less than what is then done was asked for nothing.
        """
        calls = (case.provider.shell("c1", TOUCH), case.write("c2", "new.txt", "one\n"), *self.further_calls(case.work))
        async with case.running(*one_after_another(calls, "done")) as (_, runtime):
            thread = await case.begin(runtime, approvals=ApprovalPolicy.ASK)
            events = await self.answered(case, runtime, thread, ALLOW)
        questions = questions_in(events)
        first, second = questions[:2]
        assert (first.item, first.subject) == ("c1", "command")
        assert case.provider.shown(first.detail, TOUCH), first.detail
        assert (second.item, second.subject) == ("c2", "file-change")
        assert second.detail == f"{self.change} {case.work / 'new.txt'}"
        assert "one" in second.preview
        assert len({question.request for question in questions}) == len(questions)
        shown = [
            event.kind for event in events if event.kind in {"command.started", "approval.requested", "file.changed", "tool.call"}
        ]
        assert shown == ["command.started", "approval.requested", "approval.requested", "file.changed", *self.further]
        assert [event.exit_code for event in events if isinstance(event, CommandFinished)] == [0]
        assert next(event.change for event in events if isinstance(event, FileChanged)) == "add"
        assert events[-1] == DONE
        assert sorted(path.name for path in case.work.iterdir()) == ["made.txt", "new.txt"]
        self.look_at_the_turn(events, case.work)

    async def test_what_is_denied_is_not_done_and_the_model_is_told(self, case: Case) -> None:
        """The model reads the refusal as the result of its call, or the turn ends there; the thread takes the next turn either way.

        A model that hears nothing of a denial takes the file for written, and goes on as if.
        """
        async with case.running(*self.rules(case)) as (model, runtime):
            thread = await case.begin(runtime, approvals=ApprovalPolicy.ASK)
            events = await self.answered(case, runtime, thread, DENY)
            outputs = [item.output for item in told(model) if isinstance(item, ToolOutput)]
            requests = len(model.model_requests)
            assert (await self.answered(case, runtime, thread, DENY, "again"))[-1] == DONE
        assert events[-1] == DONE
        assert list(case.work.iterdir()) == []
        assert not any(isinstance(event, FileChanged) for event in events)
        asked = [question.item for question in questions_in(events)]
        if self.denied:
            assert asked == ["c1", "c2"], f"{declaration(self, 'denied')}, so the turn goes on after a denial; asked was {asked}"
            assert len(outputs) == 2
            assert all(self.denied in output for output in outputs), f"{declaration(self, 'denied')}, and the model reads {outputs}"
        else:
            assert asked == ["c1"]
            assert requests == 1

    async def test_an_interrupt_ends_a_turn_that_waits_for_an_answer(self, case: Case) -> None:
        """Nothing is done, an answer that comes too late is passed over, and the thread takes the next turn.

        Some programs wait for an answer for ever, and a late yes would run in a turn that is over.
        """
        async with case.running(*self.rules(case)) as (_, runtime):
            thread = await case.begin(runtime, approvals=ApprovalPolicy.ASK)
            request, last = "", None

            async def interrupt_and_answer() -> None:
                await runtime.interrupt(thread)
                await runtime.answer(thread, request, ALLOW)

            with anyio.fail_after(case.limit_s):
                async with runtime.turn(thread, "please") as events, anyio.create_task_group() as tasks:
                    async for event in events:
                        last = event
                        if isinstance(event, ApprovalRequested):
                            request = event.request
                            tasks.start_soon(interrupt_and_answer)
            assert last == STOPPED
            await runtime.answer(thread, request, ALLOW)
            assert (await self.answered(case, runtime, thread, DENY, "again"))[-1] == DONE
        assert list(case.work.iterdir()) == []

    async def test_a_thread_asks_as_it_is_resumed(self, case: Case) -> None:
        """Whether it asks is said at each resume, since programs forget it: one that asked does not when Jam says so, and back again.

        A room that asked, and after a restart did not, ran what its owner would have denied.
        """
        command = case.shell("c1", TOUCH, PLEASE.model_copy(update={"last_is_tool_output": False}), times=None)
        asked = []
        async with case.server(AGAIN, command, say("done", match=PLEASE)) as model:
            async with case.opened(model) as runtime:
                thread = await case.begin(runtime, approvals=ApprovalPolicy.ASK)
                assert (await self.answered(case, runtime, thread, DENY, "again"))[-1] == DONE
            for policy in (ApprovalPolicy.ASK, ApprovalPolicy.NEVER, ApprovalPolicy.ASK):
                async with case.opened(model) as runtime:
                    await runtime.resume_thread(thread, case.request(approvals=policy))
                    seen = await self.answered(case, runtime, thread, DENY)
                made = (case.work / "made.txt").exists()
                asked.append(([question.subject for question in questions_in(seen)], made))
                (case.work / "made.txt").unlink(missing_ok=True)
        assert asked == [(["command"], False), ([], True), (["command"], False)]

    async def test_a_thread_that_never_asks_does_not(self, case: Case) -> None:
        """The default: the sandbox is the boundary, nobody is kept waiting, and nothing is refused.

        A question that nobody is there to answer stops the room, and nobody knows why.
        """
        async with case.running(*self.rules(case)) as (_, runtime):
            events = await self.answered(case, runtime, await case.begin(runtime), DENY)
        assert questions_in(events) == []
        notices = [event.text for event in events if isinstance(event, Notice)]
        assert not [text for text in notices if case.provider.quiet or "refused" in text]
        assert sorted(path.name for path in case.work.iterdir()) == ["made.txt", "new.txt"]
