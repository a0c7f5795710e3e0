"""An answer as the steps that a server takes: pure, so that what is sent can be tested without a socket."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from jamcore.testing.servers.faults import (
    CutFault,
    FailedFault,
    Fault,
    GarbageFault,
    HttpFault,
    SilentFault,
    SlowFault,
    http_body,
    http_headers,
)
from jamcore.testing.servers.script import Call, Chosen, CustomCall, Hold, Part, Pause, Reasoning, Rule, Text, Usage

NOT_EVENTS = b"\x00\xff\xfe this is no stream of events\n\n"
BROKEN_JSON = b'event: response.output_text.delta\ndata: {"type": "response.output_text.delta", "delta": \n\n'


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole HTTP answer that is no stream."""

    status: int
    body: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Send:
    """Bytes of the stream; ``delta`` says that they are one delta of a text."""

    data: bytes
    delta: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing for ``seconds``."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Gate:
    """Do nothing until the gate is released."""

    name: str


@dataclass(frozen=True, slots=True)
class Cut:
    """Close the connection inside the stream."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Say nothing until the client leaves."""


Step = Answer | Send | Wait | Gate | Cut | Silence


def steps(chosen: Chosen, nth: int) -> tuple[Step, ...]:
    """Return what to do for the ``nth`` model request."""
    healthy = tuple(_stream(chosen.rule, nth))
    return healthy if chosen.fault is None else tuple(_faulty(chosen.fault, healthy, nth))


def encode(event: Mapping[str, object]) -> bytes:
    """Return one server-sent event; ``event["type"]`` is its name."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def _faulty(fault: Fault, healthy: tuple[Step, ...], nth: int) -> Iterator[Step]:
    created = Send(encode(_created(nth)))
    match fault:
        case HttpFault():
            yield Answer(fault.status, http_body(fault), http_headers(fault))
        case CutFault():
            yield from _until_delta(healthy, fault.after_deltas)
            yield Cut()
        case SlowFault():
            yield Wait(fault.first_byte_s)
            yield from healthy
        case GarbageFault(form="bytes"):
            yield Send(NOT_EVENTS)
        case GarbageFault():
            yield created
            yield Send(BROKEN_JSON)
            yield from healthy[1:]
        case SilentFault():
            yield created
            yield Silence()
        case FailedFault():
            yield created
            error = {"code": fault.code, "message": fault.message}
            yield Send(encode({"type": "response.failed", "response": {"id": f"resp_{nth}", "status": "failed", "error": error}}))


def _until_delta(healthy: tuple[Step, ...], deltas: int) -> Iterator[Step]:
    """Yield the steps up to and with the given number of deltas; an answer with fewer is cut before its last event."""
    yield healthy[0]
    for step in healthy[1:-1]:
        is_delta = isinstance(step, Send) and step.delta
        if deltas == 0:
            return
        yield step
        deltas -= is_delta


def _stream(rule: Rule, nth: int) -> Iterator[Step]:
    yield Send(encode(_created(nth)))
    place = 0
    for part in rule.answer:
        if isinstance(part, Hold):
            yield Gate(part.gate)
        elif isinstance(part, Pause):
            yield Wait(part.seconds)
        else:
            yield from _item(part, nth, place)
            place += 1
    yield Send(_end(rule, nth))


def _item(part: Part, nth: int, place: int) -> Iterator[Step]:
    if isinstance(part, Text):
        yield from _text(part, nth, place)
    else:
        item = _whole(part, nth, place)
        yield Send(encode({"type": "response.output_item.done", "output_index": place, "item": item}))


def _text(part: Text, nth: int, place: int) -> Iterator[Step]:
    item: dict[str, object] = {"type": "message", "role": "assistant", "id": f"msg_{nth}_{place}", "content": []}
    yield Send(encode({"type": "response.output_item.added", "output_index": place, "item": item}))
    gate_after = None if part.hold is None else min(part.hold.after, len(part.deltas))
    for sent, delta in enumerate(part.deltas):
        if part.hold is not None and sent == gate_after:
            yield Gate(part.hold.gate)
        if sent and part.delay_s:
            yield Wait(part.delay_s)
        where = {"item_id": item["id"], "output_index": place, "content_index": 0}
        yield Send(encode({"type": "response.output_text.delta", **where, "delta": delta}), delta=True)
    if part.hold is not None and gate_after == len(part.deltas):
        yield Gate(part.hold.gate)
    done = {**item, "content": [{"type": "output_text", "text": part.whole}]}
    yield Send(encode({"type": "response.output_item.done", "output_index": place, "item": done}))


def _whole(part: Part, nth: int, place: int) -> dict[str, object]:
    """Return an output item that is sent in one event."""
    own = f"{nth}_{place}"
    match part:
        case Reasoning():
            summary = [{"type": "summary_text", "text": text} for text in part.summary]
            return {"type": "reasoning", "id": f"rs_{own}", "summary": summary, "encrypted_content": part.encrypted_content}
        case Call():
            call = {"call_id": part.call_id or f"call_{own}", "name": part.name, "arguments": part.encoded}
            return {"type": "function_call", "id": f"fc_{own}", **call}
        case CustomCall():
            call = {"call_id": part.call_id or f"call_{own}", "name": part.name, "input": part.input}
            return {"type": "custom_tool_call", "id": f"ct_{own}", **call}
        case _:
            raise TypeError(f"{part.kind} is no output item")


def _created(nth: int) -> dict[str, object]:
    return {"type": "response.created", "response": {"id": f"resp_{nth}"}}


def _end(rule: Rule, nth: int) -> bytes:
    match rule.finish:
        case "completed":
            return encode({"type": "response.completed", "response": {"id": f"resp_{nth}", "usage": _usage(rule.usage)}})
        case "incomplete":
            details = {"reason": "max_output_tokens"}
            return encode({"type": "response.incomplete", "response": {"id": f"resp_{nth}", "incomplete_details": details}})
        case "open":
            return b""


def _usage(usage: Usage) -> dict[str, object]:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
