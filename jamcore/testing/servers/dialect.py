"""What the servers of different APIs differ in: the wire form of one API, as a dialect.

The script, the faults, the gates and the records are the same for all. A dialect turns one scripted reply into the bytes of its API,
and knows nothing of sockets, rules or faults that are not its own to express.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from jamcore.testing.servers.faults import FailedFault
from jamcore.testing.servers.script import Call, CustomCall, Hold, Pause, Rule, Said

CREATED_S = 1_767_225_600
"""When every answer and every model claims to have been made: the start of 2026, so that equal scripts give equal bytes."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A part of an answer in its place.

    Attributes:
        part: What is said.
        place: How many parts stand before it.
        call: How many calls of tools stand before it.
        own: What its ids end with: no other part of any answer of this server has it.
    """

    part: Said
    place: int
    call: int
    own: str

    @property
    def call_id(self) -> str:
        """The id of a call: the script's, or one of its own."""
        scripted = self.part.call_id if isinstance(self.part, Call | CustomCall) else ""
        return scripted or f"call_{self.own}"


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the model: the ``nth`` request, from 1, its parsed body, and the rule that answers it."""

    nth: int
    body: Mapping[str, JsonValue]
    rule: Rule

    @property
    def model(self) -> str:
        """The model that was asked for; answers carry its name."""
        return str(self.body.get("model", ""))

    def reason(self, *, done: str, tools: str, limit: str) -> str | None:
        """Return the API's word for why the answer ended: done, for ``tools``, or at its limit; None: it is open."""
        if self.rule.finish == "completed":
            return tools if any(isinstance(part, Call | CustomCall) for part in self.rule.answer) else done
        return limit if self.rule.finish == "incomplete" else None

    @property
    def placed(self) -> tuple[Placed, ...]:
        """The parts that are said, in order."""
        said = [part for part in self.rule.answer if not isinstance(part, Hold | Pause)]
        calls = [isinstance(part, Call | CustomCall) for part in said]
        return tuple(Placed(part, place, sum(calls[:place]), f"{self.nth}_{place}") for place, part in enumerate(said))


@dataclass(frozen=True, slots=True)
class Frames:
    """One part on the wire: what comes before its deltas, each delta of a text, and what comes after; each is whole events or nothing."""

    before: bytes = b""
    deltas: tuple[bytes, ...] = ()
    after: bytes = b""


class Dialect(Protocol):
    """The wire form of one API. Its methods are pure, and raise nothing for any body of a request."""

    @property
    def model_path(self) -> str:
        """How the path of a request to the model ends."""

    @property
    def lacks(self) -> frozenset[str]:
        """The kinds of parts that the API cannot say. A script with one of them is refused before the server starts."""

    @property
    def broken(self) -> bytes:
        """One event whose data is broken JSON, as a delta of a text would be."""

    def streams(self, body: Mapping[str, JsonValue]) -> bool:
        """Whether the request asks for a stream of events, and not for one whole answer."""

    def begin(self, reply: Reply) -> bytes:
        """Return what comes before the first part."""

    def frames(self, reply: Reply, placed: Placed) -> Frames:
        """Return one part."""

    def end(self, reply: Reply) -> bytes:
        """Return what comes after the last part; nothing if the reply ends open."""

    def failed(self, reply: Reply, fault: FailedFault) -> bytes:
        """Return what ends a stream that failed after its beginning."""

    def whole(self, reply: Reply) -> Mapping[str, object]:
        """Return the answer to a request that asks for no stream."""

    def error(self, status: int, code: str, message: str) -> Mapping[str, object]:
        """Return the error object of an answer with a status of 400 and more; an empty ``code``: the API's own for this status."""

    def aside(self, method: str, path: str, body: JsonValue, models: Sequence[str]) -> Mapping[str, object] | None:
        """Return what the API answers without the model, such as a list of models; None: it knows no such request."""


def as_event(event: Mapping[str, object]) -> bytes:
    """Return one server-sent event that has a name: ``event["type"]``."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def in_pieces(text: str) -> tuple[str, ...]:
    """Return ``text`` in two pieces, so that a client which takes the first for all of it is found out."""
    half = len(text) // 2
    return tuple(piece for piece in (text[:half], text[half:]) if piece)
