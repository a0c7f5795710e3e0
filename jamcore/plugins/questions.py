"""What a provider asks before it acts, and the wait for Jam's answer: this once, or no."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from jamcore.domain.approvals import REQUEST_CHARACTERS, ApprovalAnswer
from jamcore.domain.events import ApprovalRequested, Notice
from jamcore.plugins.jsonlines import METHOD_NOT_FOUND, RemoteError
from jamcore.plugins.reading import text
from jamcore.plugins.turnstream import TurnStream

COUNT_CHARACTERS = 56
"""Of the name by which a question is answered, for its number; the rest is for the item that it is about."""
METHOD_CHARACTERS = 80
"""Of a request's name, in what is said about it."""


@dataclass
class _Open:
    """One question that waits."""

    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: ApprovalAnswer | None = None


class OpenQuestions:
    """The open questions of one thread. Each waits for Jam's answer or for the end of its turn, whichever comes first."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._asked = 0

    async def ask(self, turn: TurnStream, about: ApprovalRequested, *until: anyio.Event) -> ApprovalAnswer | None:
        """Pass a question on under a name of its own, and return the answer. A provider may ask about one item more than once.

        Args:
            turn: The turn that asks.
            about: What is asked; its ``request`` is chosen here.
            until: What ends the wait besides the answer and the end of the turn.

        Returns:
            The answer; ``None``: the turn is over, or is to end, and nobody answers any more.
        """
        self._asked += 1
        request, waiting = f"{about.item[: REQUEST_CHARACTERS - COUNT_CHARACTERS]}#{self._asked}", _Open()
        self._open[request] = waiting
        try:
            await turn.take(about.model_copy(update={"request": request}))
            async with anyio.create_task_group() as tasks:
                for event in (turn.over, *until):
                    tasks.start_soon(_call_when, event, tasks.cancel_scope.cancel)
                await waiting.answered.wait()
                tasks.cancel_scope.cancel()
        finally:
            del self._open[request]
        return waiting.answer

    def answer(self, request: str, answer: ApprovalAnswer) -> None:
        """Take Jam's answer; a question that is not open any more is passed over."""
        if waiting := self._open.get(request):
            waiting.answer = answer
            waiting.answered.set()


def labelled(*parts: tuple[str, str]) -> str:
    """Return a line for each part that says something, behind its label: what a person is shown beside what is asked."""
    return "\n".join(f"{label} {value}" if label else value for label, value in parts if value)


def not_offered(method: str) -> RemoteError:
    """Return the refusal of a request that nobody answers in a sandbox; to every program it is a no, and its turn goes on."""
    return RemoteError(METHOD_NOT_FOUND, f"{text(method, METHOD_CHARACTERS)} is not offered in this sandbox")


def was_refused(program: str, method: str, about: str = "") -> Notice:
    """Return what a person is told of such a request; ``about`` is what it was for."""
    said = f"{program} asked Jam ({text(method, METHOD_CHARACTERS)}) and was refused" + (f": {about}" if about else ".")
    return Notice(level="warning", text=said)


async def _call_when(event: anyio.Event, then: Callable[[], None]) -> None:
    await event.wait()
    then()
