"""What a scripted server saw and did, in order: requests as frozen records, events that tests can wait for."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import anyio
from pydantic import Field, JsonValue, ValidationError

from jamcore.domain.records import Record
from jamcore.testing.servers.history import USUAL, Item, Normalisation, conversation, last_user_text

HEADERS_LIMIT = 100
"""Headers of a request that are recorded; more would be a flood, not a request."""

HEADER_CHARS = 8_192
"""Characters of one header that are recorded: aiohttp itself accepts about that much."""


class RecordedRequest(Record):
    """One request, as it came.

    Attributes:
        index: Its place among all requests to this server, from 1.
        nth: Its place among the model requests, from 1; None for anything else.
        headers: Name (lower case) and value, in the order of arrival. ``authorization`` is kept on purpose: tests check which
            credential arrived.
        body: The parsed JSON; text that is no JSON is kept as a string.
        rule: The place of the script's rule that answered, from 0; None: no rule did.
        aside: Whether the API answered without the model, as with a list of models.
        received_s: Monotonic seconds of the server's process.
        normalisation: What its client writes itself among what the model is told. It is in no record file.
    """

    index: int
    nth: int | None
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: JsonValue
    rule: int | None
    aside: bool = False
    received_s: float
    normalisation: Normalisation = Field(default=USUAL, exclude=True, repr=False)

    def header(self, name: str) -> str | None:
        """Return the first value of a header, whatever its case."""
        return next((value for key, value in self.headers if key == name.lower()), None)

    @property
    def conversation(self) -> tuple[Item, ...]:
        """What the model was told, in the form that all APIs share (:mod:`jamcore.testing.servers.history`)."""
        return conversation(self.body, self.normalisation)

    @property
    def last_user_text(self) -> str:
        """The last text that a person wrote, or an empty one."""
        return last_user_text(self.conversation)


class ServerEvent(Record):
    """Something that the server did.

    Attributes:
        kind: ``received`` a request; ``delta``: the ``delta``-th of that answer went to the socket; ``held`` at a gate;
            ``completed``: the whole answer was sent; ``cut`` by the script; ``refused`` with a status of 400 and more; ``left``: the
            client went away first, or the server ended.
        index: Of the request.
        delta: How many deltas of this answer had been sent by then.
        gate: The gate, if ``held``.
        at_s: Monotonic seconds of the server's process.
    """

    kind: Literal["received", "delta", "held", "completed", "cut", "refused", "left"]
    index: int
    delta: int = 0
    gate: str = ""
    at_s: float


Predicate = Callable[[ServerEvent], bool]


def received(index: int) -> Predicate:
    """Match the arrival of the ``index``-th request, from 1."""
    return lambda event: event.kind == "received" and event.index == index


def delta_sent(index: int, delta: int) -> Predicate:
    """Match the moment when the ``delta``-th delta, from 1, of the ``index``-th request's answer went to the socket."""
    return lambda event: event.kind == "delta" and event.index == index and event.delta == delta


def held_at(gate: str) -> Predicate:
    """Match an answer that waits at ``gate``."""
    return lambda event: event.kind == "held" and event.gate == gate


class RecordFile:
    """A file to which each request is appended as one line of JSON, so that the record survives the process that made it.

    A line is written before the request is answered. It is not synced: it survives SIGKILL, not a power cut.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def append(self, request: RecordedRequest) -> None:
        """Write one line."""
        rest = memoryview(request.canonical_json() + b"\n")
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def read_records(path: Path) -> tuple[RecordedRequest, ...]:
    """Return the requests in a record file. A torn last line, of a process that was killed in the middle of it, is left out.

    Raises:
        pydantic.ValidationError: A line that is not the last torn one is damaged.
    """
    data = path.read_bytes()
    lines = data.split(b"\n")
    whole, last = lines[:-1], lines[-1]
    found = [RecordedRequest.model_validate_json(line) for line in whole]
    if last:
        with suppress(ValidationError):
            found.append(RecordedRequest.model_validate_json(last))
    return tuple(found)


class Ledger:
    """The requests and events of one server, and who waits for them. Belongs to one event loop."""

    def __init__(self) -> None:
        self._requests: list[RecordedRequest] = []
        self._events: list[ServerEvent] = []
        self._changed = anyio.Event()

    @property
    def requests(self) -> tuple[RecordedRequest, ...]:
        """All requests so far."""
        return tuple(self._requests)

    @property
    def events(self) -> tuple[ServerEvent, ...]:
        """All events so far."""
        return tuple(self._events)

    def add_request(self, request: RecordedRequest) -> None:
        """Keep a request; its ``received`` event is added too."""
        self._requests.append(request)
        self.add_event(ServerEvent(kind="received", index=request.index, at_s=request.received_s))

    def add_event(self, event: ServerEvent) -> None:
        """Keep an event and wake those who wait."""
        self._events.append(event)
        self._changed.set()
        self._changed = anyio.Event()

    async def wait_for(self, predicate: Predicate, timeout_s: float) -> ServerEvent:
        """Return the first event, past or coming, that ``predicate`` accepts.

        Raises:
            TimeoutError: None came within ``timeout_s`` seconds; the message lists what did.
        """
        looked_at = 0
        with anyio.move_on_after(timeout_s):
            while True:
                for event in self._events[looked_at:]:
                    looked_at += 1
                    if predicate(event):
                        return event
                await self._changed.wait()
        seen = ", ".join(f"{e.kind} {e.index}/{e.delta}{e.gate and ' ' + e.gate}" for e in self._events) or "nothing"
        raise TimeoutError(f"no such event within {timeout_s} s; seen: {seen}")
