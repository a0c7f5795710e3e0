"""What a provider asks waits for an answer or the end of its turn; what it says while no turn runs waits for the next turn."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from jamcore.domain.approvals import REQUEST_CHARACTERS, ApprovalAnswer
from jamcore.domain.events import ApprovalRequested, Notice, TextDelta, TurnEnded, TurnOutcome
from jamcore.domain.providers import ProviderGoneError
from jamcore.plugins.notices import NOTICES, KeptNotices
from jamcore.plugins.questions import OpenQuestions, not_offered, was_refused
from jamcore.plugins.turnstream import TurnStream

pytestmark = pytest.mark.anyio

LIMIT_S = 5.0
COMPLETED = TurnEnded(outcome=TurnOutcome.COMPLETED)
ABOUT = ApprovalRequested(item="call-1", subject="command", detail="make", preview="")


@pytest.fixture
async def turn() -> AsyncIterator[TurnStream]:
    """A turn that has started and said so."""
    turn = TurnStream("t1")
    await turn.start()
    await anext(turn)
    yield turn
    turn.fail(ProviderGoneError(provider="p", detail="the test is over"))
    turn.leave()


class Asking:
    """One question that is asked in a task of its own."""

    def __init__(self) -> None:
        self.questions = OpenQuestions()
        self.answers: list[ApprovalAnswer | None] = []

    async def ask(self, turn: TurnStream, *until: anyio.Event) -> None:
        """Keep the answer."""
        self.answers.append(await self.questions.ask(turn, ABOUT, *until))


# ----------------------------------------------------------------------------------------------------------------- questions


@pytest.mark.parametrize("answer", list(ApprovalAnswer))
async def test_a_question_is_answered_by_its_name(turn: TurnStream, answer: ApprovalAnswer) -> None:
    """It is shown under a name of its own, and whoever answers another name answers nobody."""
    asking = Asking()
    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asking.ask, turn)
            shown = await anext(turn)
            assert isinstance(shown, ApprovalRequested)
            assert shown.model_copy(update={"request": ""}) == ABOUT
            asking.questions.answer("another", answer)
            await anyio.wait_all_tasks_blocked()
            assert asking.answers == []
            asking.questions.answer(shown.request, answer)
    assert asking.answers == [answer]


async def test_two_questions_about_one_item_have_two_names(turn: TurnStream) -> None:
    """A provider asks again about the same call; an answer to the one is none to the other, and a late one to neither."""
    asking = Asking()
    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asking.ask, turn)
            tasks.start_soon(asking.ask, turn)
            names = []
            for _ in range(2):
                shown = await anext(turn)
                assert isinstance(shown, ApprovalRequested)
                names.append(shown.request)
            assert names[0] != names[1]
            asking.questions.answer(names[0], ApprovalAnswer.ALLOW)
            await anyio.wait_all_tasks_blocked()
            assert asking.answers == [ApprovalAnswer.ALLOW]
            asking.questions.answer(names[0], ApprovalAnswer.DENY)
            asking.questions.answer(names[1], ApprovalAnswer.DENY)
    assert asking.answers == [ApprovalAnswer.ALLOW, ApprovalAnswer.DENY]


async def test_the_end_of_the_turn_ends_its_questions(turn: TurnStream) -> None:
    """Nobody is asked about what is over, and an answer that comes then is passed over."""
    asking = Asking()
    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asking.ask, turn)
            shown = await anext(turn)
            await turn.finish(COMPLETED)
    assert asking.answers == [None]
    assert isinstance(shown, ApprovalRequested)
    asking.questions.answer(shown.request, ApprovalAnswer.ALLOW)


async def test_a_question_may_have_another_end(turn: TurnStream) -> None:
    """Where a turn is to end, its questions go before it."""
    asking, stopping = Asking(), anyio.Event()
    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asking.ask, turn, stopping)
            await anext(turn)
            stopping.set()
    assert asking.answers == [None]
    assert not turn.over.is_set()


async def test_a_questions_name_is_bounded(turn: TurnStream) -> None:
    """Whatever a provider calls its items, the core takes the name, and tells two of them apart."""
    questions, long = OpenQuestions(), ABOUT.model_copy(update={"item": "x" * 10_000})
    names = set()
    with anyio.fail_after(LIMIT_S):
        for _ in range(2):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(questions.ask, turn, long)
                shown = await anext(turn)
                assert isinstance(shown, ApprovalRequested)
                names.add(shown.request)
                tasks.cancel_scope.cancel()
    assert len(names) == 2
    assert all(len(name) <= REQUEST_CHARACTERS for name in names)


def test_what_nobody_answers_is_refused_and_told() -> None:
    """The program hears which request it was, a person also what it was for; a name of a megabyte is cut in both."""
    refusal = not_offered("fs/read")
    assert (refusal.number, refusal.message) == (-32601, "fs/read is not offered in this sandbox")
    assert was_refused("It", "fs/read").text == "It asked Jam (fs/read) and was refused."
    assert was_refused("It", "fs/read", "/etc/passwd").text == "It asked Jam (fs/read) and was refused: /etc/passwd"
    assert len(not_offered("x" * 1_000_000).message) < 200
    assert len(was_refused("It", "x" * 1_000_000).text) < 200


# ------------------------------------------------------------------------------------------------------------------- notices


def notice(words: str) -> Notice:
    """Something for a person to read."""
    return Notice(level="warning", text=words)


async def test_what_was_kept_is_shown_once_and_in_order(turn: TurnStream) -> None:
    """Only notices are kept: what else came while no turn ran belongs to none."""
    kept = KeptNotices()
    kept.keep(notice("a"), TextDelta(item="m", text="stray"))
    await kept.say(notice("b"), None)
    assert len(kept) == 2
    await kept.show_in(turn)
    assert len(kept) == 0
    await kept.show_in(turn)
    await turn.finish(COMPLETED)
    assert [event async for event in turn] == [notice("a"), notice("b"), COMPLETED]


async def test_what_is_said_in_a_running_turn_is_shown_at_once_behind_what_was_kept(turn: TurnStream) -> None:
    """Older words stand first."""
    kept = KeptNotices()
    kept.keep(notice("a"))
    await kept.say(notice("b"), turn)
    assert [await anext(turn), await anext(turn)] == [notice("a"), notice("b")]


async def test_a_turn_that_is_over_shows_nothing_so_it_is_kept(turn: TurnStream) -> None:
    """Between the end mark and the next turn nobody reads this one."""
    kept, following = KeptNotices(), TurnStream("t2")
    await turn.finish(COMPLETED)
    await kept.say(notice("a"), turn)
    await kept.show_in(following)
    await following.finish(COMPLETED)
    assert notice("a") in [event async for event in following]
    following.leave()


async def test_of_too_many_notices_the_last_are_kept(turn: TurnStream) -> None:
    """A provider that talks to itself fills no memory."""
    kept = KeptNotices()
    for place in range(NOTICES * 3):
        kept.keep(notice(str(place)))
    await kept.show_in(turn)
    await turn.finish(COMPLETED)
    assert [event async for event in turn][:-1] == [notice(str(place)) for place in range(NOTICES * 2, NOTICES * 3)]
