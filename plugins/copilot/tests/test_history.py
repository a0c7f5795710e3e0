"""What a journal says of its turns, as a table; the sequences were recorded from the pinned program."""

from __future__ import annotations

from typing import Any

import pytest

from jam_copilot.history import PAGE, SMALL_JOURNAL, SMALL_PAGE, read, remembered
from jam_copilot.protocol import Ask, Event
from jamcore.api import ProviderProtocolError, TurnOutcome

pytestmark = pytest.mark.unprivileged

COMPLETED, INTERRUPTED, FAILED = TurnOutcome.COMPLETED, TurnOutcome.INTERRUPTED, TurnOutcome.FAILED


def user(message: str, digest: str = "d") -> Event:
    """The person's message, as the reader keeps it."""
    return Event("user.message", {"messageId": message, "digest": digest})


START, END = Event("assistant.turn_start", {}), Event("assistant.turn_end", {})
CALLS, SAYS = Event("assistant.message", {"toolRequests": True}), Event("assistant.message", {"toolRequests": False})
ABORT, ERROR = Event("abort", {}), Event("session.error", {})

TURNS: dict[str, tuple[tuple[Event, ...], TurnOutcome]] = {
    "an answer": ((START, SAYS, END), COMPLETED),
    "a tool, then an answer": ((START, CALLS, END, START, SAYS, END), COMPLETED),
    "an answer, then what ended in the background": ((START, CALLS, END, START, SAYS, END, START, SAYS, END), COMPLETED),
    "an answer, then what it began by itself": ((START, SAYS, END, START, ABORT, END), COMPLETED),
    "an answer, then a message that was taken back": ((START, SAYS, END, ABORT), COMPLETED),
    "killed before the model was asked": ((), INTERRUPTED),
    "killed while the model spoke": ((START,), INTERRUPTED),
    "killed in a tool": ((START, CALLS), INTERRUPTED),
    "killed after a tool": ((START, CALLS, END), INTERRUPTED),
    "killed while the model spoke again": ((START, CALLS, END, START), INTERRUPTED),
    "interrupted in a tool": ((START, CALLS, ABORT, END), INTERRUPTED),
    "interrupted while the model spoke": ((START, ABORT, END), INTERRUPTED),
    "failed": ((START, END, ERROR), FAILED),
    "failed after a tool": ((START, CALLS, END, START, END, ERROR), FAILED),
}


@pytest.mark.guarantee("CONT-11")
@pytest.mark.parametrize("name", TURNS)
def test_what_became_of_a_turn(name: str) -> None:
    """One line of the table, as the last turn and before another."""
    events, outcome = TURNS[name]
    [last] = read((user("one"), *events)).turns
    assert (last.provider_turn, last.outcome, last.text_digest) == ("one", outcome, "d")
    first, second = read((user("one"), *events, Event("session.resume", {}), user("two"), START, SAYS, END)).turns
    assert (first.outcome, first.text_digest) == (outcome, None)
    assert (second.provider_turn, second.outcome) == ("two", COMPLETED)


def test_whether_another_program_had_it_open_is_what_the_last_resume_says() -> None:
    """One that ended since does not count."""
    taken, free = (Event("session.resume", {"alreadyInUse": each}) for each in (True, False))
    assert read((taken,)).in_use
    assert not read((taken, free)).in_use
    assert read((taken,)).turns == ()


class Journal:
    """Answers as the program does, in pages."""

    def __init__(self, events: list[dict[str, Any]], *, size: int = 1, answer: object = None) -> None:
        self.events, self.size, self.answer = events, size, answer
        self.asked: list[object] = []

    async def ask(self, request: Ask, params: dict[str, object]) -> object:
        """See the runtime."""
        assert request is Ask.READ_EVENTS
        assert params["sessionId"] == "s"
        if params.get("direction") == "backward":
            return {
                "events": [{"type": "session.resume", "data": {"eventsFileSizeBytes": self.size}}],
                "hasMore": True,
                "cursor": "0",
            }
        if self.answer is not None:
            return self.answer
        self.asked.append(params["max"])
        begin, count = int(str(params.get("cursor", "0"))), params["max"]
        assert isinstance(count, int)
        page = self.events[begin : begin + count]
        end = begin + len(page)
        return {"events": page, "hasMore": end < len(self.events), "cursor": str(end), "cursorStatus": "ok"}


@pytest.mark.anyio
@pytest.mark.parametrize(("size", "page"), [(1, PAGE), (SMALL_JOURNAL, SMALL_PAGE)])
async def test_a_long_journal_is_read_in_pages_that_fit(size: int, page: int) -> None:
    """All turns are found; of a large journal few events are asked for at once."""
    events = [
        event
        for n in range(300)
        for event in (
            {"type": "user.message", "data": {"messageId": f"m{n}", "content": "hi"}},
            {"type": "assistant.message", "data": {"content": "x", "toolRequests": []}},
            {"type": "assistant.turn_end", "data": {}},
        )
    ]
    journal = Journal(events, size=size)
    found = await remembered(journal.ask, "s")
    assert [turn.provider_turn for turn in found.turns] == [f"m{n}" for n in range(300)]
    assert {turn.outcome for turn in found.turns} == {COMPLETED}
    assert set(journal.asked) == {page}


@pytest.mark.anyio
@pytest.mark.parametrize("answer", [{}, {"events": None}, {"events": [], "cursorStatus": "expired"}, []])
async def test_what_is_no_journal_is_nonsense(answer: object) -> None:
    """Nothing is taken for an empty conversation."""
    with pytest.raises(ProviderProtocolError):
        await remembered(Journal([], answer=answer).ask, "s")
