"""The questions of one thread that wait for an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from jam_claude_code.turns import Turn
from jamcore.api import ApprovalAnswer, ApprovalRequested

ITEM_CHARACTERS = 200
"""Of the item that a question is about, in the name by which it is answered; Jam takes 256 in all."""


@dataclass
class _Open:
    """One question that waits."""

    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: ApprovalAnswer = ApprovalAnswer.DENY


class OpenQuestions:
    """Each waits for Jam's answer or for the end of its turn, whichever comes first."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._asked = 0

    async def ask(self, turn: Turn, about: ApprovalRequested) -> ApprovalAnswer:
        """Pass a question on and return the answer; a turn that ends first leaves it denied."""
        self._asked += 1
        request, waiting = f"{about.item[:ITEM_CHARACTERS]}#{self._asked}", _Open()
        self._open[request] = waiting
        try:
            await turn.take(about.model_copy(update={"request": request}))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_call_when, turn.over, tasks.cancel_scope.cancel)
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


async def _call_when(event: anyio.Event, then: Callable[[], None]) -> None:
    await event.wait()
    then()
