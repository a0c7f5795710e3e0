"""Reading server-sent events."""

from __future__ import annotations

import codecs
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

EVENT_BYTES = 32 << 20
"""Longest event: its text is at most 2**20 characters, escaped as JSON, beside a diff of the same length."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event; ``id`` is absent when it carries no number."""

    kind: str
    data: str
    id: int | None = None


async def read_events(chunks: AsyncIterator[bytes]) -> AsyncGenerator[ServerEvent, None]:
    """Yield whole events; comments (heartbeats) and a last, cut event are dropped.

    Raises:
        ValueError: An event is longer than :data:`EVENT_BYTES`, or no text.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    parts: list[str] = []
    held = ""  # a line end at the end of a chunk: the second one of an event's end may begin the next
    length = 0
    async for chunk in chunks:
        *whole, rest = (held + decoder.decode(chunk)).split("\n\n")
        for text in whole:
            if event := _event("".join((*parts, text))):
                yield event
            parts, length = [], 0
        held = "\n" if rest.endswith("\n") else ""
        parts.append(rest.removesuffix("\n"))
        length += len(rest)
        if length > EVENT_BYTES:
            raise ValueError("event too long")


def _event(text: str) -> ServerEvent | None:
    fields: dict[str, str] = {}
    for line in text.split("\n"):
        name, _, value = line.partition(":")
        if name:
            fields[name] = value.removeprefix(" ")
    if "data" not in fields:
        return None
    return ServerEvent(kind=fields.get("event", "message"), data=fields["data"], id=int(fields["id"]) if "id" in fields else None)
