"""Scripted turns whose every item carries a token, and what of them a later request must hold: how a test proves an exact resume.

An exchange is one turn: the person's text, an answer with a command, the command's output, a second answer. Where the model stands still
is part of the script, so that a kill at that place is a kill at that place. What a later request must hold is built from the script and
from what the model server recorded, never from what Jam says (CONT-1, CONT-11).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from jamcore.testing.servers.history import AssistantText, Item, ToolCall, ToolOutput, UserText, canonical_arguments
from jamcore.testing.servers.ledger import RecordedRequest
from jamcore.testing.servers.script import Call, Hold, Match, Rule, Text

Place = Literal[
    "nowhere", "request-1", "delta-1", "delta-2", "tool-call", "request-2", "delta-3", "delta-4", "last-delta", "item-done"
]
"""Where the model stands still: at the first request before anything is said, after a delta (the first answer has two, the second three),
after the tool call, at the second request, or when the last item is whole and only the end of the answer is missing."""

Shell = Callable[[str, str], Call]
"""The model's call by which a provider's shell runs a command: the call's id, and the command."""

LOG = "log.txt"
"""The file in the session's work tree to which every command appends its token: run twice, it is there twice."""


def exec_command(call_id: str, command: str) -> Call:
    """The shell that is meant where none is named."""
    return Call(name="exec_command", arguments={"cmd": command}, call_id=call_id)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One turn. ``said`` must not be part of another exchange's text; ``shell`` is how the provider's model runs a command."""

    said: str
    call_id: str
    token: str
    first: tuple[str, str]
    second: tuple[str, str, str]
    holds: Place = "nowhere"
    shell: Shell = exec_command

    @classmethod
    def make(cls, name: str, token: str, holds: Place = "nowhere", shell: Shell = exec_command) -> Exchange:
        """Make an exchange whose parts all carry ``token``."""
        return cls(
            said=f"Please do {name}. {token}",
            call_id=f"call_{token}",
            token=f"out-{token}",
            first=(f"I will do {name}: ", f"now. {token}"),
            second=(f"Done with {name}, ", "it is in the log. ", f"({token})"),
            holds=holds,
            shell=shell,
        )

    @property
    def gate(self) -> str:
        """The gate at which the model stands still."""
        return f"gate-{self.call_id}"

    @property
    def command(self) -> str:
        """The command that the model runs."""
        return f"echo {self.token} | tee -a {LOG}"

    def rules(self) -> tuple[Rule, ...]:
        """Return the model's side. An exchange that comes later must stand earlier in the script."""
        begin = (Hold(gate=self.gate),) if self.holds == "request-1" else ()
        text = Text(deltas=self.first, hold=self._hold({"delta-1": 1, "delta-2": 2}))
        call = (
            self.shell(self.call_id, self.command),
            *((Hold(gate=self.gate),) if self.holds == "tool-call" else ()),
        )
        again = (Hold(gate=self.gate),) if self.holds == "request-2" else ()
        end = (
            Text(deltas=self.second, hold=self._hold({"delta-3": 1, "delta-4": 2, "last-delta": 3})),
            *((Hold(gate=self.gate),) if self.holds == "item-done" else ()),
        )
        return (
            Rule(match=Match(last_user_contains=self.said, tool_output=self.call_id), answer=(*again, *end), times=1),
            Rule(match=Match(last_user_contains=self.said), answer=(*begin, text, *call), times=1),
        )

    def items(self) -> tuple[Item, ...]:
        """Return the whole exchange as a conversation holds it, the output reduced to its token (:func:`said_in`)."""
        return (*self.until_output(), AssistantText("".join(self.second)))

    def until_output(self) -> tuple[Item, ...]:
        """Return what the model has been told by the time it is asked for the second time."""
        call = self.shell(self.call_id, self.command)
        return (
            UserText(self.said),
            AssistantText("".join(self.first)),
            ToolCall(call.name, canonical_arguments(call.encoded), self.call_id),
            ToolOutput(self.call_id, self.token),
        )

    def requests(self, recorded: Iterable[RecordedRequest]) -> tuple[RecordedRequest, ...]:
        """Return the model requests of this exchange: those whose last text of a person is its own."""
        return tuple(request for request in recorded if self._is_last(request.conversation))

    def acknowledged(self, recorded: Iterable[RecordedRequest]) -> tuple[Item, ...]:
        """Return what the provider itself has told the model of this exchange, so that no resume may forget it."""
        own = self.requests(recorded)
        if any(has_output(request, self.call_id) for request in own):
            return self.until_output()
        return (UserText(self.said),) if own else ()

    def _hold(self, places: dict[Place, int]) -> Hold | None:
        return Hold(gate=self.gate, after=places[self.holds]) if self.holds in places else None

    def _is_last(self, items: Sequence[Item]) -> bool:
        users = [item for item in items if isinstance(item, UserText)]
        return bool(users) and users[-1].text == self.said


@dataclass(frozen=True, slots=True)
class Question:
    """A turn without tools, used to see what the provider remembers."""

    said: str
    answer: str

    @classmethod
    def make(cls, name: str, token: str) -> Question:
        """Make a question whose parts carry ``token``."""
        return cls(said=f"What do you remember at {name}? {token}", answer=f"All of it, {name}. {token}")

    def rules(self) -> tuple[Rule, ...]:
        """Return the model's side."""
        return (Rule(match=Match(last_user_contains=self.said), answer=(Text(deltas=(self.answer,)),), times=1),)

    def items(self) -> tuple[Item, ...]:
        """Return question and answer as a conversation holds them."""
        return (UserText(self.said), AssistantText(self.answer))


def said_in(request: RecordedRequest, tokens: Iterable[str]) -> tuple[Item, ...]:
    """Return the conversation in a request, the outputs of commands reduced to the token that they hold.

    A command's output also carries its wall time and the like; an output without a known token stays whole, and so differs.
    """
    known = tuple(tokens)
    return tuple(_reduced(item, known) for item in request.conversation)


def has_output(request: RecordedRequest, call_id: str) -> bool:
    """Whether a request tells the model what a command gave back."""
    return any(isinstance(item, ToolOutput) and item.call_id == call_id for item in request.conversation)


def repeated(items: Iterable[Item]) -> tuple[Item, ...]:
    """Return the items that are there more than once: with tokens in all of them, each is a silent repetition."""
    return tuple(item for item, count in Counter(items).items() if count > 1)


def _reduced(item: Item, tokens: tuple[str, ...]) -> Item:
    if not isinstance(item, ToolOutput):
        return item
    found = next((token for token in tokens if token in item.output), item.output)
    return ToolOutput(item.call_id, found)
