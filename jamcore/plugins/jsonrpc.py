"""A JSON-RPC client over a byte stream: one JSON object per line, or by headers; both sides may ask, both may notify.

Shared by every provider whose program speaks that way. The peer is a program in a guest, so nothing that it sends is believed: a message
that is too long or no JSON, a message of the wrong shape, an answer to a question that nobody asked, or the end of the stream ends the
connection with one typed error. That error fails every request that waits, once; what was delivered before it is still handed on.

    peer ─> reader ─┬─ answers ───────> the request that waits
                    ├─ requests ──────> ``asked``, one task each, after the notifications before it; then the writer
                    └─ notifications ─> bounded queue ─> dispatcher ─> ``notified`` one by one, at the end ``ended``
    requests, answers ─> bounded queue ─> writer ─> peer

The writer is a task of its own so that a cancelled request never leaves half a message behind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, TaskGroup

from jamcore.domain.errors import JamError
from jamcore.domain.limits import PROVIDER_REQUEST_S
from jamcore.domain.providers import ProviderGoneError, ProviderProtocolError, ProviderTimeoutError
from jamcore.plugins.framing import Framing, LineFraming, Splitter
from jamcore.plugins.jsonlines import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    Answer,
    Incoming,
    MalformedError,
    Notification,
    Params,
    Question,
    RemoteError,
    encode,
    parse,
)
from jamcore.plugins.jsonqueue import NotificationQueue, Tail, Waiter
from jamcore.system.guest import GuestProcess

CHUNK_BYTES = 1 << 18
"""One read of the peer's output."""
STDERR_BYTES = 64 << 10
"""What is kept of the peer's error output: its last words explain an end."""
SAID_CHARACTERS = 300
"""What an error quotes of them."""
LAST_WORDS_S = 0.2
"""After the end of the output: how long to wait for the rest of the error output. A surviving grandchild may hold it open."""
BROKEN_WRITE_S = 1.0
"""After the peer stopped reading: how long what it still writes is delivered before the connection counts as ended."""
OUTGOING_MESSAGES = 64
QUESTIONS_AT_ONCE = 32
"""Requests of the peer that are being answered; one more ends the connection, for nobody asks that much in good faith."""
UNWANTED_ANSWERS = 1_000
"""Answers that nobody waits for any longer; a peer that owes more has stopped answering."""

LINES = LineFraming()

Notified = Callable[[str, Params], Awaitable[None]]
"""Gets each notification, in order, one at a time. What it takes long for slows the peer down. It never waits for a request of the peer,
nor, where the peer's requests stand behind its notifications, for an answer that the peer may give only once it is answered itself."""
Asked = Callable[[str, Params], Awaitable[Any]]
"""Answers a request of the peer, once every notification before it has been handled; raises :class:`RemoteError` to refuse it."""
Ended = Callable[[JamError], Awaitable[None]]
"""Told once, after the last notification, why the connection ended. Not called when its owner closes it."""

__all__ = ["Asked", "Ended", "LineClient", "Notified", "RemoteError"]


class LineClient:
    """One connection. Use as an asynchronous context manager; it owns its tasks, not the streams.

    Every error it raises or reports is ``ProviderGoneError`` (the peer ended), ``ProviderProtocolError`` (it spoke nonsense),
    ``ProviderTimeoutError`` (one answer was late; the connection goes on) or ``RemoteError`` (it answered with an error).

    Args:
        stdin: What the peer reads.
        stdout: What the peer writes.
        stderr: Its error output; drained, and the last 64 KiB kept.
        provider: Name for errors.
        notified: See :data:`Notified`.
        asked: See :data:`Asked`; without it every request of the peer is refused at once.
        asked_at_once: Whether a request is handed on without waiting for the notifications before it: for who refuses every one, and so
            need not know what it is about.
        ended: See :data:`Ended`.
        jsonrpc: Whether to send the ``jsonrpc`` member; received ones are ignored either way.
        framing: How messages are told apart: as lines, unless told otherwise.
    """

    def __init__(
        self,
        stdin: ByteSendStream,
        stdout: ByteReceiveStream,
        stderr: ByteReceiveStream | None = None,
        *,
        provider: str,
        notified: Notified,
        asked: Asked | None = None,
        asked_at_once: bool = False,
        ended: Ended | None = None,
        jsonrpc: bool = False,
        framing: Framing = LINES,
    ) -> None:
        self._stdin, self._stdout, self._stderr = stdin, stdout, stderr
        self._provider, self._jsonrpc, self._framing = provider, jsonrpc, framing
        self._notified, self._asked, self._ended = notified, asked, ended
        self._asked_at_once = asked_at_once
        self._error: JamError | None = None
        self._last_id = 0
        self._waiting: dict[int, Waiter] = {}
        self._unwanted: set[int] = set()
        self._questions = 0
        self._queue = NotificationQueue()
        self._out, self._outgoing = anyio.create_memory_object_stream[bytes](OUTGOING_MESSAGES)
        self._tail = Tail(STDERR_BYTES)
        self._stderr_ended, self._closed = anyio.Event(), anyio.Event()
        self._reading = anyio.CancelScope()
        self._cut: str | None = None
        self._group: TaskGroup | None = None
        self._scopes: set[anyio.CancelScope] = set()
        self._leaving = False

    @classmethod
    def over(
        cls,
        process: GuestProcess,
        *,
        provider: str,
        notified: Notified,
        asked: Asked | None = None,
        asked_at_once: bool = False,
        ended: Ended | None = None,
        jsonrpc: bool = False,
        framing: Framing = LINES,
    ) -> LineClient:
        """Speak with a guest process, whose owner still has to close it."""
        streams = (process.stdin, process.stdout, process.stderr)
        return cls(
            *streams,
            provider=provider,
            notified=notified,
            asked=asked,
            asked_at_once=asked_at_once,
            ended=ended,
            jsonrpc=jsonrpc,
            framing=framing,
        )

    @property
    def error(self) -> JamError | None:
        """Why the connection ended; ``None`` while it lasts."""
        return self._error

    @property
    def stderr_tail(self) -> str:
        """The last of the peer's error output, without control characters."""
        return self._tail.text()

    async def __aenter__(self) -> Self:
        """Start reading."""
        self._group = await anyio.create_task_group().__aenter__()
        for task in (self._write, self._read, self._dispatch, self._drain_stderr):
            self._group.start_soon(self._shielded, task)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Stop. Requests that still wait fail; the body's own error passes as it is, not in a group."""
        assert self._group is not None
        self._fail(ProviderGoneError(self._provider, "the connection was closed"))
        self._out.close()
        self._leaving = True
        for scope in tuple(self._scopes):
            scope.cancel()
        if isinstance(error, anyio.get_cancelled_exc_class()):
            return await self._group.__aexit__(kind, error, traceback)
        self._group.cancel_scope.cancel()
        await self._group.__aexit__(None, None, None)
        return None

    async def request(
        self,
        method: str,
        params: Mapping[str, object] | None = None,
        *,
        timeout_s: float = PROVIDER_REQUEST_S,
        answered: Callable[[], None] | None = None,
    ) -> Any:  # noqa: ANN401 - JSON
        """Ask the peer and return its result. May be cancelled at any moment; a late answer is then dropped.

        Args:
            method: What is asked.
            params: With what.
            timeout_s: How long an answer is waited for.
            answered: Called at the answer's place among the notifications: those before it have been handled, and none after it. It may be
                called after this returned, but not after :meth:`caught_up` then did; not at all where the connection ends first.

        Raises:
            RemoteError: The peer answered with an error.
            ProviderTimeoutError: No answer within ``timeout_s``; the connection goes on.
            ProviderGoneError, ProviderProtocolError: The connection ended, before or while waiting.
        """
        self._raise_if_ended()
        self._last_id += 1
        id_, waiter = self._last_id, Waiter(answered)
        self._waiting[id_] = waiter
        try:
            with anyio.move_on_after(timeout_s):
                await self._send({"id": id_, "method": method, **({} if params is None else {"params": dict(params)})})
                await waiter.done.wait()
        finally:
            # Cancelled while it was handed to the writer it may have been sent or not: an answer is no surprise either way.
            if self._waiting.pop(id_, None) is not None:
                self._give_up(id_)
        if waiter.error is not None:
            raise replace(waiter.error)
        if not waiter.done.is_set():
            raise ProviderTimeoutError(self._provider, method, timeout_s)
        return waiter.result

    async def notify(self, method: str, params: Mapping[str, object] | None = None) -> None:
        """Tell the peer something.

        Raises:
            ProviderGoneError, ProviderProtocolError: The connection has ended.
        """
        await self._send({"method": method, **({} if params is None else {"params": dict(params)})})

    async def caught_up(self) -> None:
        """Wait until every notification that was read before now has been handled, or the connection has ended.

        An answer overtakes the notifications that came before it; where a protocol's answer is an end mark, this restores their order.
        Never called by the subscriber itself, which would wait for its own end.
        """
        await self._queue.caught_up()

    async def finish(self, timeout_s: float) -> bool:
        """Close the peer's input after what was sent, and wait until it ends its output. Return whether it did in time."""
        self._out.close()
        with anyio.move_on_after(timeout_s):
            await self._closed.wait()
        return self._closed.is_set()

    # ------------------------------------------------------------------------------------------------------ tasks

    async def _shielded(self, task: Callable[..., Awaitable[None]], *arguments: object) -> None:
        """Run a task that outlives a cancellation of the owner until the owner leaves: its finalisers still have to speak."""
        with anyio.CancelScope(shield=True) as scope:
            if not self._leaving:
                self._scopes.add(scope)
                try:
                    await task(*arguments)
                finally:
                    self._scopes.discard(scope)

    async def _write(self) -> None:
        try:
            async with self._outgoing:
                async for frame in self._outgoing:
                    await self._stdin.send(frame)
            await self._stdin.aclose()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._cut = "it no longer reads its input"
            self._reading.deadline = min(self._reading.deadline, anyio.current_time() + BROKEN_WRITE_S)

    async def _read(self) -> None:
        """Read until the end or the first nonsense, then end the connection."""
        splitter = self._framing.splitter()
        error: JamError | None = None
        try:
            with self._reading:
                await self._read_messages(splitter)
        except MalformedError as problem:
            error = ProviderProtocolError(self._provider, str(problem))
        self._fail(error or await self._gone(splitter.pending))
        self._queue.close()

    async def _read_messages(self, splitter: Splitter) -> None:
        while True:
            try:
                chunk = await self._stdout.receive(CHUNK_BYTES)
            except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                return
            for frame in splitter.feed(chunk):
                message = parse(frame)
                if isinstance(message, Notification):
                    await self._queue.put(message)
                else:
                    self._take(message)

    def _take(self, message: Incoming) -> None:
        if isinstance(message, Answer):
            waiter = self._waiting.pop(message.id, None)
            if waiter is not None:
                if waiter.answered is not None:
                    self._queue.mark(waiter.answered)
                waiter.settle(message.result, message.error)
            elif message.id in self._unwanted:
                self._unwanted.remove(message.id)
            else:
                problem = f"an answer with the id {message.id}, which no open request has"
                raise MalformedError(problem)
        elif isinstance(message, Question):
            if self._questions >= QUESTIONS_AT_ONCE:
                problem = f"more than {QUESTIONS_AT_ONCE} requests at once"
                raise MalformedError(problem)
            assert self._group is not None
            self._questions += 1
            self._group.start_soon(self._shielded, self._reply, message)

    async def _dispatch(self) -> None:
        try:
            async for message in self._queue:
                try:
                    await self._notified(message.method, message.params)
                except Exception as error:  # noqa: BLE001 - boundary: a subscriber that raises is the plugin's fault and ends its connection only
                    problem = f"{message.method[:80]} could not be handled: {type(error).__name__}: {error}"
                    self._fail(ProviderProtocolError(self._provider, problem))
                    self._reading.cancel()
                    break
        finally:
            self._queue.abandon()
        if self._error is not None and self._ended is not None:
            await self._ended(self._error)

    async def _reply(self, question: Question) -> None:
        try:
            if self._asked is None:
                raise RemoteError(METHOD_NOT_FOUND, f"{question.method[:80]} is not supported")  # noqa: TRY301 - one way out
            if not self._asked_at_once:
                await self.caught_up()  # what is asked about was announced before
            reply: dict[str, Any] = {"id": question.id, "result": await self._asked(question.method, question.params)}
        except RemoteError as refusal:
            reply = {"id": question.id, "error": {"code": refusal.number, "message": refusal.message}}
        except Exception as error:  # noqa: BLE001 - boundary: a handler that raises must not take the connection down
            reply = {"id": question.id, "error": {"code": INTERNAL_ERROR, "message": type(error).__name__}}
        finally:
            self._questions -= 1
        try:
            await self._send(reply)
        except (ProviderGoneError, ProviderProtocolError):
            return  # nobody is left to be answered

    async def _drain_stderr(self) -> None:
        try:
            while self._stderr is not None:
                self._tail.add(await self._stderr.receive(CHUNK_BYTES))
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass
        finally:
            self._stderr_ended.set()

    # ------------------------------------------------------------------------------------------------------ parts

    async def _send(self, message: Params) -> None:
        self._raise_if_ended()
        try:
            if frame := self._framing.framed(encode(message, jsonrpc=self._jsonrpc)):
                await self._out.send(frame)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._raise_if_ended()
            raise ProviderGoneError(self._provider, "its input is closed") from None

    async def _gone(self, pending: int) -> ProviderGoneError:
        with anyio.move_on_after(LAST_WORDS_S):
            await self._stderr_ended.wait()
        where = f"in the middle of a message ({pending} bytes of it)" if pending else "between two messages"
        how = self._cut if self._reading.cancelled_caught and self._cut else f"its output ended {where}"
        said = self.stderr_tail.strip()[-SAID_CHARACTERS:]
        return ProviderGoneError(self._provider, how + (f"; it said: {said}" if said else ""))

    def _fail(self, error: JamError) -> None:
        """End the connection: the first reason stands, and every request that waits gets it."""
        if self._error is None:
            self._error = error
            for waiter in self._waiting.values():
                waiter.settle(None, error)
            self._waiting.clear()
            self._outgoing.close()  # wakes whoever waits for room in the queue
        self._closed.set()

    def _give_up(self, id_: int) -> None:
        self._unwanted.add(id_)
        if len(self._unwanted) > UNWANTED_ANSWERS:
            self._fail(ProviderProtocolError(self._provider, f"{UNWANTED_ANSWERS} requests were never answered"))
            self._reading.cancel()

    def _raise_if_ended(self) -> None:
        """Raise a copy of the reason: one exception object raised in several tasks would share its traceback and notes."""
        if self._error is not None:
            raise replace(self._error)
