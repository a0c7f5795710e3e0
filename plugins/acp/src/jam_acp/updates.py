"""What an agent tells during one turn, as Jam's typed events; tested as a table.

Whatever does not have the expected shape becomes fewer events or emptier ones, never an exception: the answer alone decides a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jam_acp.calls import Call, Events, Update, call_id
from jamcore.api import Message, ProviderEvent, Reasoning, TextDelta, ToolCall, Working, identifier, member, shown, text

OPEN_CALLS = 1_024
"""Calls of one turn that are remembered."""

SPOKEN = frozenset({"agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update"})
"""Kinds of an update that only a running turn has. Every other kind may come at any time and means nothing to a conversation."""


class Updates:
    """The updates of one turn. A message comes in pieces without an end, so it ends where something else begins.

    Args:
        cwd: The session's directory, from which relative paths count.
    """

    def __init__(self, cwd: str = "") -> None:
        self._cwd = cwd
        self._pieces: list[str] = []
        self._size = 0
        self._speaks = ""
        self._item = ""
        self._count = 0
        self._calls: dict[str, Call] = {}

    def take(self, update: Update) -> Events:
        """Return the events that one update stands for, in order. What only a running turn says is a sign of life at the least."""
        kind = update.get("sessionUpdate")
        reader = self._readers().get(kind) if isinstance(kind, str) else None
        events = () if reader is None else reader(update)
        return events or ((Working(),) if kind in SPOKEN else ())

    def call(self, told: Update) -> Call:
        """Return what is known of the call that a question is about, with what the question adds."""
        call = self._call(call_id(told))
        status = call.status
        call.learn(told)
        call.status = status or call.status  # a question is no progress
        return call

    def finish(self) -> Events:
        """Return what is still to be said when the turn has ended."""
        cut: list[ProviderEvent] = [event for call in self._calls.values() for event in call.cut()]
        return (*self.flush(), *cut)

    # ----------------------------------------------------------------------------------------------------------- readers

    def _readers(self) -> Mapping[str, Callable[[Update], Events]]:
        return {
            "agent_message_chunk": self._message,
            "agent_thought_chunk": self._thought,
            "tool_call": self._tool,
            "tool_call_update": self._tool,
            "plan": self._plan,
        }

    def _message(self, update: Update) -> Events:
        said = _words(update)
        before = self._speak("message", update)
        self._keep(said)
        return (*before, TextDelta(item=self._item, text=said)) if said else before

    def _thought(self, update: Update) -> Events:
        before = self._speak("thought", update)
        self._keep(_words(update))
        return before

    def _tool(self, update: Update) -> Events:
        call = self._call(call_id(update))
        call.learn(update)
        return (*self.flush(), *call.progress())

    def _plan(self, update: Update) -> Events:
        self._count += 1
        plan = ToolCall(item=f"plan-{self._count}", name="plan", arguments=shown(update.get("entries")))
        return (*self.flush(), plan)

    # ------------------------------------------------------------------------------------------------------------- parts

    def _speak(self, kind: str, update: Update) -> Events:
        """Go on with the same message or thought, or end it and begin another."""
        named = identifier(update.get("messageId"))
        if self._speaks == kind and named in ("", self._item):
            return ()
        before = self.flush()
        self._count += 1
        self._speaks, self._item = kind, named or f"{kind}-{self._count}"
        return before

    def _keep(self, said: str) -> None:
        room = _KEPT - self._size
        if said and room > 0:
            self._pieces.append(said[:room])
            self._size += len(said)

    def flush(self) -> Events:
        """Return the message or thought that has ended now, whole."""
        whole, kind, item = "".join(self._pieces), self._speaks, self._item
        self._pieces, self._size, self._speaks, self._item = [], 0, "", ""
        if not whole:
            return ()
        return (Message(item=item, text=text(whole)) if kind == "message" else Reasoning(item=item, text=text(whole)),)

    def _call(self, item: str) -> Call:
        call = self._calls.get(item)
        if call is None:
            while len(self._calls) >= OPEN_CALLS:
                del self._calls[next(iter(self._calls))]
            call = self._calls[item] = Call(item, self._cwd)
        return call


_KEPT = (1 << 20) + 1
"""One character more than an event keeps, so that a cut is seen and marked."""


def _words(update: Update) -> str:
    """Return a piece's text; a picture or a sound has none."""
    return text(member(update, "content", "text"))
