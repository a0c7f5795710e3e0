"""How messages are told apart in a byte stream: as lines, or by headers that say how long each one is. Nothing here reads or writes.

What the peer writes is not believed: a frame longer than the limit, or headers that say no length, end the connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from jamcore.domain.limits import PROVIDER_LINE_BYTES
from jamcore.plugins.jsonlines import MalformedError, excerpt

HEADER_BYTES = 4 << 10
"""All headers of one message; real ones have one or two lines."""
LENGTH_DIGITS = 12
_HEADERS_END = b"\r\n\r\n"


class Splitter(Protocol):
    """Cuts one stream into messages. Made anew for each connection."""

    @property
    def pending(self) -> int:
        """How many bytes of an unfinished message are held."""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the messages that ``chunk`` completes. To be taken to its end before the next chunk is fed.

        Raises:
            MalformedError: The bytes are no message of this form, or it is longer than the limit. Messages before it were yielded.
        """


class Framing(Protocol):
    """One form of telling messages apart, in both directions.

    One of a plugin's own may also translate: a splitter that yields JSON-RPC, and a ``framed`` that turns JSON-RPC into what the program
    reads, and :class:`~jamcore.plugins.jsonrpc.LineClient` speaks the program's own protocol. What a splitter cannot read it yields as it
    is, and the client refuses it, or raises :class:`~jamcore.plugins.jsonlines.MalformedError` for it.
    """

    def splitter(self) -> Splitter:
        """Return a splitter for a new stream."""

    def framed(self, message: bytes) -> bytes:
        """Return ``message`` as it is sent; nothing, where the peer does not wait for it any more."""


@dataclass(frozen=True, slots=True)
class LineFraming:
    """One message per line. ``limit`` bounds the length of a line in bytes."""

    limit: int = PROVIDER_LINE_BYTES

    def splitter(self) -> Splitter:
        """See :meth:`Framing.splitter`."""
        return LineSplitter(self.limit)

    def framed(self, message: bytes) -> bytes:
        """See :meth:`Framing.framed`. JSON escapes every line end inside it."""
        return message + b"\n"


@dataclass(frozen=True, slots=True)
class HeaderFraming:
    """Headers before each message as in the language server protocol. ``limit`` bounds what ``Content-Length`` may say, in bytes."""

    limit: int = PROVIDER_LINE_BYTES

    def splitter(self) -> Splitter:
        """See :meth:`Framing.splitter`."""
        return HeaderSplitter(self.limit)

    def framed(self, message: bytes) -> bytes:
        """See :meth:`Framing.framed`."""
        return b"Content-Length: %d\r\n\r\n%b" % (len(message), message)


class LineSplitter:
    """Cuts a byte stream into lines without looking at any byte twice, and bounds their length."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def pending(self) -> int:
        """How many bytes of an unfinished line are held."""
        return self._size

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that ``chunk`` completes, without their ends; blank ones are left out.

        Raises:
            MalformedError: A line is longer than the limit. Lines before it were yielded.
        """
        end = chunk.rfind(b"\n")
        if end >= 0:
            block = b"".join((*self._parts, chunk[:end])) if self._parts else chunk[:end]
            self._parts.clear()
            self._size = 0
            for line in block.split(b"\n"):
                self._check(len(line))
                if line and not line.isspace():
                    yield line
            chunk = chunk[end + 1 :]
        if chunk:
            self._parts.append(chunk)
            self._size += len(chunk)
            self._check(self._size)

    def _check(self, size: int) -> None:
        if size > self._limit:
            self._parts.clear()
            message = f"a line of more than {self._limit} bytes"
            raise MalformedError(message)


class HeaderSplitter:
    """Cuts a byte stream into messages by the length that the headers before each one say, and bounds both."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._needed = 0
        """How much must be held until the message that is being read is whole, as far as its headers are known."""

    @property
    def pending(self) -> int:
        """How many bytes of an unfinished message and its headers are held."""
        return self._size

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the messages that ``chunk`` completes, without their headers.

        Raises:
            MalformedError: Headers are too long or say no length, or a length beyond the limit. Messages before them were yielded.
        """
        self._parts.append(chunk)
        self._size += len(chunk)
        if self._size < self._needed:
            return
        held, place = b"".join(self._parts), 0
        while True:
            begin = self._begin(held, place)
            end = begin and begin + self._length(held[place:begin])
            if end is None or end > len(held):
                break
            yield held[begin:end]
            place = end
        self._parts = [held[place:]]
        self._size = len(held) - place
        self._needed = 0 if end is None else end - place

    def _begin(self, held: bytes, place: int) -> int | None:
        """Return where the message begins whose headers begin at ``place``; ``None``: they are not whole yet."""
        end = held.find(_HEADERS_END, place, place + HEADER_BYTES)
        if end >= 0:
            return end + len(_HEADERS_END)
        if len(held) - place < HEADER_BYTES:
            return None
        problem = f"headers of more than {HEADER_BYTES} bytes: {excerpt(held[place : place + HEADER_BYTES])}"
        raise MalformedError(problem)

    def _length(self, headers: bytes) -> int:
        fields = [line.partition(b":") for line in headers.split(b"\r\n")]
        lengths = [value.strip() for name, _, value in fields if name.strip().lower() == b"content-length"]
        if len(lengths) != 1 or not lengths[0].isdigit() or len(lengths[0]) > LENGTH_DIGITS:
            problem = f"headers that do not say how long the message is: {excerpt(headers)}"
            raise MalformedError(problem)
        length = int(lengths[0])
        if length > self._limit:
            problem = f"a message of more than {self._limit} bytes"
            raise MalformedError(problem)
        return length
