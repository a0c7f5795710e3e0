"""What an agent asks before it acts, and Jam's answer: this once, or no.

An answer is chosen by an option's kind, never by its name or place. "Always" is never said: what is allowed for good is Jam's to know, and
agents keep it in files that are not the conversation's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import anyio

from jam_acp.reading import members
from jam_acp.stream import TurnStream
from jamcore.api import ApprovalAnswer, ApprovalRequested

ONCE: Mapping[ApprovalAnswer, str] = {ApprovalAnswer.ALLOW: "allow_once", ApprovalAnswer.DENY: "reject_once"}
CANCELLED: Mapping[str, object] = {"outcome": {"outcome": "cancelled"}}


@dataclass
class _Open:
    """One question that waits."""

    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: ApprovalAnswer = ApprovalAnswer.DENY


class Questions:
    """The open questions of one session. Each waits for Jam's answer or for the end of its turn, whichever comes first."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._asked = 0

    def name(self, item: str) -> str:
        """Return a name for the next question, by which it is answered."""
        self._asked += 1
        return f"{item[:200]}#{self._asked}"

    async def ask(self, turn: TurnStream, question: ApprovalRequested) -> ApprovalAnswer | None:
        """Pass a question on and return the answer; ``None``: the turn is to end, or has ended, without one."""
        waiting = self._open[question.request] = _Open()
        try:
            await turn.take(question)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_call_when, turn.stopping, tasks.cancel_scope.cancel)
                tasks.start_soon(_call_when, turn.over, tasks.cancel_scope.cancel)
                await waiting.answered.wait()
                tasks.cancel_scope.cancel()
        finally:
            del self._open[question.request]
        return waiting.answer if waiting.answered.is_set() else None

    def answer(self, request: str, answer: ApprovalAnswer) -> None:
        """Take Jam's answer; a question that is not open any more is passed over."""
        if waiting := self._open.get(request):
            waiting.answer = answer
            waiting.answered.set()


def reply(options: object, answer: ApprovalAnswer | None) -> Mapping[str, object]:
    """Return what is said to the agent. Where it offers no "once" there is nothing to choose, and the question is cancelled."""
    if answer is None:
        return CANCELLED
    chosen = next((option.get("optionId") for option in members(options) if option.get("kind") == ONCE[answer]), None)
    if not isinstance(chosen, str):
        return CANCELLED
    return {"outcome": {"outcome": "selected", "optionId": chosen}}


async def _call_when(event: anyio.Event, then: Callable[[], None]) -> None:
    await event.wait()
    then()
