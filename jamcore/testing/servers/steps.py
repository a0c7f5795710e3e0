"""An answer as the steps that a server takes: pure, so that what is sent can be tested without a socket."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from jamcore.testing.servers.dialect import Dialect, Frames, Reply
from jamcore.testing.servers.faults import (
    CutFault,
    DownFault,
    FailedFault,
    Fault,
    GarbageFault,
    HttpFault,
    SilentFault,
    SlowFault,
)
from jamcore.testing.servers.script import Hold, Pause, Said, Text

NOT_EVENTS = b"\x00\xff\xfe this is no stream of events\n\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole HTTP answer with a status of 400 and more."""

    status: int
    body: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Send:
    """Bytes of the answer; ``delta`` says that they are one delta of a text."""

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
    """Close the connection inside the answer."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Close the connection before the head of the answer."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Say nothing until the client leaves."""


Step = Answer | Send | Wait | Gate | Cut | Drop | Silence


def steps(dialect: Dialect, reply: Reply, fault: Fault | None = None) -> tuple[Step, ...]:
    """Return what to do for one request; the first step alone may be an :class:`Answer`."""
    stream = tuple(_stream(dialect, reply))
    if dialect.streams(reply.body):
        return stream if fault is None else tuple(_faulty_stream(dialect, reply, fault, stream))
    whole = (*_waits(stream), Send(json.dumps(dialect.whole(reply)).encode()))
    return whole if fault is None else tuple(_faulty_whole(dialect, fault, whole))


def error_bytes(dialect: Dialect, status: int, code: str, message: str) -> bytes:
    """Return the body of an answer with a status of 400 and more."""
    return json.dumps(dialect.error(status, code, message)).encode()


def _faulty_stream(dialect: Dialect, reply: Reply, fault: Fault, healthy: tuple[Step, ...]) -> Iterator[Step]:
    match fault:
        case CutFault():
            yield from _until_delta(healthy, fault.after_deltas)
            yield Cut()
        case SilentFault():
            yield from _until_delta(healthy, fault.after_deltas)
            yield Silence()
        case GarbageFault(form="json"):
            yield from (healthy[0], Send(dialect.broken), *healthy[1:])
        case FailedFault():
            yield from (healthy[0], Send(dialect.failed(reply, fault)))
        case _:
            yield from _faulty(dialect, fault, healthy)


def _faulty_whole(dialect: Dialect, fault: Fault, healthy: tuple[Step, ...]) -> Iterator[Step]:
    last = healthy[-1]
    half = Send(last.data[: len(last.data) // 2]) if isinstance(last, Send) else last
    match fault:
        case CutFault():
            yield from (*healthy[:-1], half, Cut())
        case SilentFault():
            yield Silence()
        case GarbageFault(form="json"):
            yield from (*healthy[:-1], half)
        case FailedFault():
            yield Answer(500, error_bytes(dialect, 500, fault.code, fault.message), {})
        case _:
            yield from _faulty(dialect, fault, healthy)


def _faulty(dialect: Dialect, fault: Fault, healthy: tuple[Step, ...]) -> Iterator[Step]:
    """Yield the steps of a fault that looks the same in a stream and in a whole answer."""
    match fault:
        case HttpFault():
            usual = error_bytes(dialect, fault.status, fault.code, fault.message)
            yield Answer(fault.status, usual if fault.body is None else fault.body.encode(), fault.headers)
        case DownFault():
            yield Drop()
        case SlowFault():
            yield from (Wait(fault.first_byte_s), *healthy)
        case _:
            yield Send(NOT_EVENTS)


def _until_delta(healthy: tuple[Step, ...], deltas: int) -> Iterator[Step]:
    """Yield the steps up to and with the given number of deltas; an answer with fewer stops before its end."""
    yield healthy[0]
    for step in healthy[1:-1]:
        is_delta = isinstance(step, Send) and step.delta
        if deltas == 0:
            return
        yield step
        deltas -= is_delta


def _stream(dialect: Dialect, reply: Reply) -> Iterator[Step]:
    yield Send(dialect.begin(reply))
    placed = iter(reply.placed)
    for part in reply.rule.answer:
        if isinstance(part, Hold):
            yield Gate(part.gate)
        elif isinstance(part, Pause):
            yield Wait(part.seconds)
        else:
            yield from _said(part, dialect.frames(reply, next(placed)))
    yield Send(dialect.end(reply))


def _said(part: Said, frames: Frames) -> Iterator[Step]:
    if frames.before:
        yield Send(frames.before)
    delay_s, hold = (part.delay_s, part.hold) if isinstance(part, Text) else (0, None)
    gate_after = None if hold is None else min(hold.after, len(frames.deltas))
    for sent, delta in enumerate(frames.deltas):
        if hold is not None and sent == gate_after:
            yield Gate(hold.gate)
        if sent and delay_s:
            yield Wait(delay_s)
        yield Send(delta, delta=True)
    if hold is not None and gate_after == len(frames.deltas):
        yield Gate(hold.gate)
    if frames.after:
        yield Send(frames.after)


def _waits(stream: tuple[Step, ...]) -> Iterator[Step]:
    """Yield the holds and pauses of an answer: a whole one waits for all of them before its first byte."""
    return (step for step in stream if isinstance(step, Wait | Gate))
