"""The stream of one turn: its start first, its end mark last and once, and neither side ever waits for the other without end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import anyio
import pytest

from jamcore.domain.errors import JamError
from jamcore.domain.events import Notice, ProviderEvent, TextDelta, TurnEnded, TurnOutcome, TurnStarted, UsageReported
from jamcore.domain.providers import ProviderGoneError
from jamcore.plugins.turnstream import EARLY_EVENTS, EVENTS_AHEAD, TurnStream

pytestmark = pytest.mark.anyio

LIMIT_S = 5.0
STARTED = TurnStarted(provider_turn="t1")
COMPLETED = TurnEnded(outcome=TurnOutcome.COMPLETED)
INTERRUPTED = TurnEnded(outcome=TurnOutcome.INTERRUPTED)
FAILED = TurnEnded(outcome=TurnOutcome.FAILED, code="other", detail="no")
GONE = ProviderGoneError(provider="p", detail="it died")


def never(error: JamError) -> None:
    """Fail a test whose turn was ended."""
    raise AssertionError(error)


MakeTurn = Callable[..., TurnStream]


@pytest.fixture
def make_turn() -> Iterator[MakeTurn]:
    """Make streams that are closed when the test is over."""
    made: list[TurnStream] = []

    def make(provider_turn: str = "") -> TurnStream:
        made.append(TurnStream(provider_turn))
        return made[-1]

    yield make
    for turn in made:
        turn.fail(GONE)
        turn.leave()


def said(words: str) -> TextDelta:
    """A piece of an answer."""
    return TextDelta(item="m", text=words)


def warning(words: str) -> Notice:
    """Something for a person to read."""
    return Notice(level="warning", text=words)


async def rest(turn: TurnStream) -> list[ProviderEvent]:
    """Everything that the stream still gives."""
    with anyio.fail_after(LIMIT_S):
        return [event async for event in turn]


# ------------------------------------------------------------------------------------------------------------- start and end


async def test_the_start_comes_first_and_what_came_before_it_follows(make_turn: MakeTurn) -> None:
    """A warning that overtook the start is shown behind it; more than one start is one."""
    turn = make_turn()
    await turn.take(warning("slow"))
    turn.accept("t1")
    assert turn.accepted.is_set()
    await turn.start()
    await turn.take(said("a"))
    await turn.take(TurnStarted(provider_turn="t1"))
    await turn.take(COMPLETED)
    assert await rest(turn) == [STARTED, warning("slow"), said("a"), COMPLETED]


async def test_a_start_that_is_an_event_brings_the_turns_id(make_turn: MakeTurn) -> None:
    """Providers that say the start themselves name the turn in it."""
    turn = make_turn()
    await turn.take(TurnStarted(provider_turn="t1"))
    assert (turn.started, turn.provider_turn) == (True, "t1")
    await turn.finish(FAILED)
    assert await rest(turn) == [STARTED, FAILED]


async def test_what_waits_for_the_start_is_bounded(make_turn: MakeTurn) -> None:
    """A provider that never begins fills no memory: the first words are kept, and nobody waits."""
    turn = make_turn("t1")
    with anyio.fail_after(LIMIT_S):
        for place in range(EARLY_EVENTS * 10):
            await turn.take(warning(str(place)))
        await turn.start()
        await turn.finish(COMPLETED)
    assert await rest(turn) == [STARTED, *(warning(str(place)) for place in range(EARLY_EVENTS)), COMPLETED]


async def test_a_turn_that_never_began_keeps_what_is_for_people(make_turn: MakeTurn) -> None:
    """It has no start, and of what was taken only notices; nothing of the rest may count for it."""
    turn = make_turn("t1")
    await turn.take(warning("why"))
    await turn.take(UsageReported(input_tokens=1, output_tokens=1, total_tokens=2))
    await turn.finish(FAILED)
    await turn.start()
    assert await rest(turn) == [warning("why"), FAILED]
    assert not turn.started


async def test_a_turn_that_completed_has_begun_though_nobody_said_so(make_turn: MakeTurn) -> None:
    """The core takes no end without a start for a completed turn."""
    turn = make_turn()
    turn.accept("t1")
    await turn.take(said("a"))
    await turn.finish(COMPLETED)
    assert await rest(turn) == [STARTED, said("a"), COMPLETED]


async def test_the_end_mark_is_given_once_and_the_first_one_counts(make_turn: MakeTurn) -> None:
    """A second end mark, or an error behind it, changes nothing; the stream stays at its end."""
    turn = make_turn("t1")
    await turn.start()
    await turn.finish(COMPLETED)
    await turn.finish(FAILED)
    turn.fail(GONE)
    await turn.take(said("late"))
    assert await rest(turn) == [STARTED, COMPLETED]
    assert await rest(turn) == []


# ---------------------------------------------------------------------------------------------------------------- two sides


async def test_the_end_mark_waits_for_no_room(make_turn: MakeTurn) -> None:
    """With the stream full of what nobody has read the end is known at once, and comes last all the same."""
    turn = make_turn("t1")
    await turn.start()
    pieces = [said(str(place)) for place in range(EVENTS_AHEAD - 1)]
    with anyio.fail_after(LIMIT_S):
        for piece in pieces:
            await turn.take(piece)
        await turn.finish(COMPLETED)
    assert turn.over.is_set()
    assert await rest(turn) == [STARTED, *pieces, COMPLETED]


async def test_a_slow_consumer_slows_the_provider_down(make_turn: MakeTurn) -> None:
    """So much is read ahead and no more; with each event that is taken out one more goes in."""
    turn = make_turn("t1")
    await turn.start()
    given = 0

    async def give() -> None:
        nonlocal given
        for _ in range(EVENTS_AHEAD * 2):
            await turn.take(said("a"))
            given += 1
        await turn.finish(COMPLETED)

    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(give)
            await anyio.wait_all_tasks_blocked()
            assert given == EVENTS_AHEAD - 1
            await anext(turn)
            await anyio.wait_all_tasks_blocked()
            assert given == EVENTS_AHEAD
            assert len(await rest(turn)) == EVENTS_AHEAD * 2 + 1


async def test_a_consumer_that_left_holds_nobody_up(make_turn: MakeTurn) -> None:
    """Whoever waits for room goes on when the consumer goes, and what comes then is dropped."""
    turn = make_turn("t1")
    await turn.start()

    async def give() -> None:
        for _ in range(EVENTS_AHEAD * 2):
            await turn.take(said("a"))
        await turn.finish(COMPLETED)

    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(give)
            await anyio.wait_all_tasks_blocked()
            assert not turn.over.is_set()
            turn.leave()
    assert turn.over.is_set()


async def test_an_error_comes_behind_what_was_taken_and_as_often_as_it_is_asked_for(make_turn: MakeTurn) -> None:
    """What the provider said before it died is not lost with it. Each time the error is a new one, with its own traceback."""
    turn = make_turn("t1")
    await turn.start()
    await turn.take(said("a"))
    turn.fail(GONE)
    turn.fail(ProviderGoneError(provider="p", detail="another reason"))
    await turn.finish(COMPLETED)
    assert (turn.over.is_set(), turn.accepted.is_set()) == (True, True)
    assert [await anext(turn), await anext(turn)] == [STARTED, said("a")]
    for _ in range(2):
        with pytest.raises(ProviderGoneError, match="it died") as caught:
            await anext(turn)
        assert caught.value is not GONE


async def test_an_error_wakes_who_waits(make_turn: MakeTurn) -> None:
    """A consumer that waits for the first word, and a runtime that waits for the turn's id, both hear of the end."""
    turn, woken = make_turn(), []

    async def consume() -> None:
        with pytest.raises(ProviderGoneError):
            await anext(turn)
        woken.append("consumer")

    async def wait() -> None:
        await turn.accepted.wait()
        woken.append("runtime")

    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consume)
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert woken == []
            turn.fail(GONE)
    assert sorted(woken) == ["consumer", "runtime"]


# ----------------------------------------------------------------------------------------------------------------- held open


async def test_what_a_turn_left_running_ends_before_its_end_mark(make_turn: MakeTurn) -> None:
    """While an interrupt ends commands, their last words still come; the end mark waits for the outermost block."""
    turn = make_turn("t1")
    await turn.start()
    with turn.held_open():
        with turn.held_open():
            await turn.finish(INTERRUPTED)
            assert turn.over.is_set()
        await turn.take(said("a command ended"))
        assert [await anext(turn), await anext(turn)] == [STARTED, said("a command ended")]
        await turn.take(said("another did"))
        assert await anext(turn) == said("another did")
        with pytest.raises(anyio.WouldBlock):
            turn._receive.receive_nowait()
    assert await rest(turn) == [INTERRUPTED]


async def test_a_held_turn_goes_on_when_it_did_not_end(make_turn: MakeTurn) -> None:
    """Leaving the block ends nothing by itself."""
    turn = make_turn("t1")
    with turn.held_open():
        await turn.start()
    await turn.take(said("a"))
    await turn.finish(COMPLETED)
    assert await rest(turn) == [STARTED, said("a"), COMPLETED]


async def test_an_error_is_not_held(make_turn: MakeTurn) -> None:
    """With the connection gone nothing more can come."""
    turn = make_turn("t1")
    await turn.start()
    with turn.held_open():
        turn.fail(GONE)
        assert await anext(turn) == STARTED
        with pytest.raises(ProviderGoneError):
            await anext(turn)


# -------------------------------------------------------------------------------------------------------- running and stopping


async def test_a_turn_that_is_left_while_it_runs_is_interrupted(make_turn: MakeTurn) -> None:
    """Its consumer may go at any moment, also by being cancelled; the provider is told, and is heard to its end mark."""
    turn, interrupted = make_turn("t1"), []

    async def interrupt() -> None:
        await turn.start()
        for _ in range(EVENTS_AHEAD * 2):
            await turn.take(said("a"))  # nobody reads it any more, and nobody waits for that
        await turn.finish(INTERRUPTED)
        interrupted.append(turn)

    with anyio.fail_after(LIMIT_S):
        with anyio.CancelScope() as owner:
            async with turn.running(interrupt, never) as events:
                assert events is turn
                owner.cancel()
                await anyio.sleep_forever()
    assert interrupted == [turn]


async def test_a_turn_that_is_over_is_not_interrupted(make_turn: MakeTurn) -> None:
    """Who heard the end mark leaves at once."""
    turn = make_turn("t1")

    async def interrupt() -> None:
        raise AssertionError

    async with turn.running(interrupt, never):
        await turn.finish(COMPLETED)
        assert await rest(turn) == [STARTED, COMPLETED]
    await turn.stop(interrupt)


async def test_why_a_turn_was_left_is_not_hidden_by_a_failed_interrupt(make_turn: MakeTurn) -> None:
    """The error of the block passes; what failed behind it ends the stream, and the program, which still works on that turn."""
    turn, given_up = make_turn("t1"), list[JamError]()

    async def interrupt() -> None:
        raise GONE

    with pytest.raises(KeyError):
        async with turn.running(interrupt, given_up.append):
            raise KeyError
    assert turn.over.is_set()
    assert turn._error is GONE
    assert given_up == [GONE]


async def test_a_program_that_ends_a_turn_never_is_given_up(make_turn: MakeTurn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving has a bound; a turn that runs on behind it would make its thread refuse every further one."""
    monkeypatch.setattr("jamcore.plugins.turnstream.LEAVE_S", 0.01)
    turn, given_up = make_turn("t1"), list[JamError]()
    with anyio.fail_after(LIMIT_S):
        async with turn.running(anyio.sleep_forever, given_up.append):
            pass
    assert turn.over.is_set()
    assert [error.code for error in given_up] == ["provider.timeout"]


async def test_what_fails_once_the_turn_is_over_leaves_the_program_be(make_turn: MakeTurn) -> None:
    """The turn ended as it was told to; what was left of it is the interrupt's to say."""
    turn = make_turn("t1")

    async def interrupt() -> None:
        await turn.finish(INTERRUPTED)
        raise GONE

    async with turn.running(interrupt, never):
        pass
    assert turn._error is None


async def test_two_who_stop_a_turn_stop_it_once(make_turn: MakeTurn) -> None:
    """A person interrupts a turn while its owner leaves it: the second waits for the first, and the end mark for both."""
    turn, calls, go = make_turn("t1"), [], anyio.Event()
    await turn.start()

    async def interrupt() -> None:
        calls.append(turn)
        await go.wait()
        await turn.finish(INTERRUPTED)
        await turn.take(said("a command ended"))

    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn.stop, interrupt)
            tasks.start_soon(turn.stop, interrupt)
            await anyio.wait_all_tasks_blocked()
            go.set()
    assert len(calls) == 1
    assert await rest(turn) == [STARTED, said("a command ended"), INTERRUPTED]
