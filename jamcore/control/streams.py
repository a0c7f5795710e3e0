"""Server-sent events: numbered, resumable, with a heartbeat, and a bound on how slow a reader may be (CTRL-2)."""

from __future__ import annotations

import fcntl
import logging
import socket
import sys
import termios
from asyncio import Transport
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import anyio
from aiohttp import web

from jamcore.control.errors import FAULT_STATUS, body_of, stamp, status_of
from jamcore.control.schemas import StreamEnd
from jamcore.domain.errors import InvalidInputError, JamError
from jamcore.domain.events import RoomEvent
from jamcore.domain.operation_views import OperationLine
from jamcore.domain.records import Record

HEARTBEAT_S = 15.0
"""A comment this often tells both sides that the other lives, and keeps intermediaries from closing an idle stream."""
SLOW_READER_S = 30.0
"""A reader for which a write waits may take nothing for this long at most. Then the stream is cut: every event is numbered.

It is what the reader takes that counts and not how long a write lasts: an event that is long for a slow line arrives in the end, where
a bound on the write would cut it at the same place each time.
"""
KERNEL_BYTES = 16 << 10
"""What lies in the kernel for a reader of a Unix socket: it is told that something was taken only when about this much was."""
PARTING_S = 2.0
"""The end mark of a daemon that stops may wait this long for the reader: without it the stream is cut, which costs as little."""
MAX_SEQ = (1 << 63) - 1
_SEQ_DIGITS = len(str(MAX_SEQ))

STOPPING = web.AppKey("stopping", anyio.Event)
"""Set when the application begins to shut down: streams end by themselves then."""

_LOG = logging.getLogger(__name__)


def resume_point(request: web.Request) -> tuple[int, bool]:
    """Return after which event to begin, and whether to wait for more.

    ``Last-Event-ID`` wins over ``?after=``: a reader that reconnects repeats its URL and adds the header.

    Raises:
        InvalidInputError: A number is no sequence number, or ``follow`` is neither 0 nor 1.
    """
    text = request.headers.get("Last-Event-ID") or request.query.get("after", "0")
    if not (text.isascii() and text.isdigit() and len(text) <= _SEQ_DIGITS and int(text) <= MAX_SEQ):
        raise InvalidInputError(field="after", problem="not a sequence number")
    follow = request.query.get("follow", "1")
    if follow not in {"0", "1"}:
        raise InvalidInputError(field="follow", problem="neither 0 nor 1")
    return int(text), follow == "1"


class Numbered(Protocol):
    """What has numbered events, such as the service of rooms."""

    def events(
        self, ref: str, *, after: int, follow: bool
    ) -> AbstractAsyncContextManager[AsyncIterator[RoomEvent] | AsyncIterator[OperationLine]]:
        """Stream what comes after a number; with ``follow`` wait for more."""


class RoomStream:
    """One reader of one room, or of the story of one operation."""

    def __init__(
        self,
        rooms: Numbered,
        ref: str,
        *,
        after: int,
        follow: bool,
        heartbeat_s: float = HEARTBEAT_S,
        slow_reader_s: float = SLOW_READER_S,
    ) -> None:
        self._rooms = rooms
        self._ref = ref
        self._after = after
        self._follow = follow
        self._heartbeat_s = heartbeat_s
        self._slow_reader_s = slow_reader_s
        self._writing = anyio.Lock()
        self._writes = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Stream until the events end, the reader goes, or the daemon stops. ``end``, ``refusal`` or ``fault`` marks a whole one."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"} | stamp())
        try:
            await self._stream(request, response)
        except Exception as error:
            if not response.prepared:
                raise
            # What has begun can only be cut; the middleware cannot answer any more.
            level = logging.DEBUG if _is_only(error, ConnectionError) else logging.WARNING
            _LOG.log(level, "%s: stream cut", request.path, exc_info=error)
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _stream(self, request: web.Request, response: web.StreamResponse) -> None:
        # Entered before anything is sent, so that an unknown room is an ordinary typed answer.
        async with self._rooms.events(self._ref, after=self._after, follow=self._follow) as events:
            await response.prepare(request)
            whole = False
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch, request)
                tasks.start_soon(_cancel_when, request.app[STOPPING], tasks.cancel_scope)
                async with anyio.create_task_group() as beating:
                    beating.start_soon(self._beat, response)
                    end = await self._pump(events, response)
                    beating.cancel_scope.cancel()
                whole = True
                await self._finish(response, end)
                tasks.cancel_scope.cancel()
            if not whole:
                with anyio.fail_after(PARTING_S):
                    await self._finish(response, _frame("end", StreamEnd(reason="shutdown")))

    async def _pump(self, events: AsyncIterator[RoomEvent] | AsyncIterator[OperationLine], response: web.StreamResponse) -> bytes:
        """Send the events; return the mark that ends the stream."""
        try:
            async for event in events:
                await self._write(response, b"id: %d\n" % event.seq + _frame("event", event))
        except JamError as error:
            return _frame("fault" if status_of(error) >= FAULT_STATUS else "refusal", body_of(error))
        return _frame("end", StreamEnd(reason="complete"))

    async def _beat(self, response: web.StreamResponse) -> None:
        while True:
            await anyio.sleep(self._heartbeat_s)
            await self._write(response, b": heartbeat\n\n")

    async def _write(self, response: web.StreamResponse, data: bytes) -> None:
        async with self._writing:
            self._writes += 1
            await response.write(data)

    async def _finish(self, response: web.StreamResponse, end: bytes) -> None:
        async with self._writing:
            self._writes += 1
            await response.write(end)
            await response.write_eof()

    async def _watch(self, request: web.Request) -> None:
        """Cut the stream when one write waits from one look to the next, and the reader took nothing between them.

        Raises:
            TimeoutError: So it is.
        """
        if request.transport is None:
            return
        _keep_little(request.transport)
        before: tuple[int, int] | None = None
        while True:
            await anyio.sleep(self._slow_reader_s / 2)
            waits = (self._writes, _not_taken(request.transport)) if self._writing.locked() else None
            if waits is not None and before is not None and waits[0] == before[0] and waits[1] >= before[1]:
                raise TimeoutError(f"{waits[1]} bytes wait for a reader that takes nothing")
            before = waits


def _keep_little(transport: Transport) -> None:
    """See :data:`KERNEL_BYTES`. A longer line needs what lies in the kernel, and its reader's progress shows in smaller steps."""
    connection = transport.get_extra_info("socket")
    if connection is not None and connection.family is socket.AF_UNIX:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES)


def _not_taken(transport: Transport) -> int:
    """Return how many bytes were written and not taken by the reader yet; what the kernel has of them is known on Linux alone."""
    connection = transport.get_extra_info("socket")
    kernel = 0
    if connection is not None and sys.platform == "linux":
        kernel = int.from_bytes(fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    return transport.get_write_buffer_size() + kernel


def _is_only(error: Exception, kind: type[Exception]) -> bool:
    """Whether an error, or everything in a group of them, is of one kind."""
    return error.split(kind)[1] is None if isinstance(error, ExceptionGroup) else isinstance(error, kind)


async def _cancel_when(stopping: anyio.Event, scope: anyio.CancelScope) -> None:
    await stopping.wait()
    scope.cancel()


def _frame(kind: str, record: Record) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), record.model_dump_json().encode())
