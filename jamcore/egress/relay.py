"""The relay of one endpoint: HTTP on already connected sockets in, one pinned origin out (SEC-4, ENV-4).

It listens nowhere. Connections are handed to it by the engine; requests go to exactly the plan's origin and to exactly its paths; the
credential is added here and is in nothing that a guest can read. Answers stream through chunk by chunk.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Self

import aiohttp
import anyio
import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from anyio.abc import TaskGroup
from yarl import URL

from jamcore.domain.plan import ModelEndpoint
from jamcore.egress.bounds import CLOSE_S, GUEST_IDLE_S, RelayCredential, RelayLimits
from jamcore.egress.decisions import Refused, RelayDecision, error_answer, log_decision, shown_path
from jamcore.egress.headers import request_headers, response_headers
from jamcore.egress.redaction import SecretFilter
from jamcore.system.tasks import owned_tasks

_OWN_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
"""What aiohttp would add by itself."""


class _RefusedError(Exception):
    """Ends the handling of one request; never leaves this module."""

    def __init__(self, reason: Refused) -> None:
        super().__init__(reason.value)
        self.reason = reason


@dataclass(slots=True)
class _Exchange:
    """One request as it goes."""

    request: web.BaseRequest
    began: float
    upstream_status: int | None = None
    answer: web.StreamResponse | None = None
    bytes_up: int = 0
    bytes_down: int = 0
    body_refused: Refused | None = None


class _GuestGoneError(ConnectionError):
    """The guest's end of the connection is closed."""


class Relay:
    """Made by :meth:`open`; hand its :meth:`accept` to the engine."""

    def __init__(
        self,
        endpoint: ModelEndpoint,
        *,
        credential: RelayCredential | None,
        session: aiohttp.ClientSession,
        tasks: TaskGroup,
        limits: RelayLimits,
        decided: Callable[[RelayDecision], None],
        prefix: str = "",
    ) -> None:
        self.endpoint = endpoint
        self._prefix = prefix
        self._allowed = frozenset(endpoint.paths)
        self._known = frozenset(pair.partition("?")[0] for pair in endpoint.paths)
        self._credential = credential
        self._session = session
        self._tasks = tasks
        self._limits = limits
        self._decided = decided
        self._open = 0
        self._closed = False
        # A guest that goes away cancels its request, and with it the one upstream.
        self._server = web.Server(
            self._handle,
            handler_cancellation=True,
            auto_decompress=False,
            access_log=None,
            # A guest that sends nonsense gets its 400; its bytes do not belong in the daemon's log.
            logger=logging.Logger("jam.relay.http", level=logging.CRITICAL),  # noqa: LOG001 - its own; no global one is changed
            keepalive_timeout=GUEST_IDLE_S,
            lingering_time=1.0,
        )

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        endpoint: ModelEndpoint,
        *,
        credential: RelayCredential | None,
        limits: RelayLimits | None = None,
        decided: Callable[[RelayDecision], None] = log_decision,
        prefix: str = "",
    ) -> AsyncIterator[Self]:
        """Open a relay; it serves what it is given until the context ends.

        Args:
            endpoint: The plan's endpoint: origin and exact ``METHOD /path`` pairs.
            credential: What is added to each request, or nothing.
            limits: Other bounds than the defaults.
            decided: Told of every request when it is over.
            prefix: What every target must begin with; it is not sent on, and no log has it.
        """
        bounds = limits or RelayLimits()
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=bounds.connect_s, sock_read=bounds.silence_s)
        async with AsyncExitStack() as stack:
            session = await stack.enter_async_context(
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(limit=bounds.concurrent),
                    cookie_jar=aiohttp.DummyCookieJar(),
                    skip_auto_headers=_OWN_HEADERS,
                    auto_decompress=False,
                    trust_env=False,
                    timeout=timeout,
                )
            )
            tasks = await stack.enter_async_context(owned_tasks())
            relay = cls(
                endpoint, credential=credential, session=session, tasks=tasks, limits=bounds, decided=decided, prefix=prefix
            )
            try:
                yield relay
            finally:
                with anyio.move_on_after(CLOSE_S + 1, shield=True):
                    await relay._close()
                tasks.cancel_scope.cancel()

    def accept(self, connection: socket.socket) -> None:
        """Take over a connected stream socket and serve the requests on it. Called on the event loop."""
        if self._closed:
            connection.close()
        else:
            self._tasks.start_soon(self._adopt, connection)

    async def _adopt(self, connection: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._server, connection)
        except OSError:
            connection.close()  # it was gone before it was served

    async def _close(self) -> None:
        self._closed = True
        self._server.pre_shutdown()
        await self._server.shutdown(CLOSE_S)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        exchange = _Exchange(request, began=anyio.current_time())
        reason: Refused | None = None
        self._open += 1
        try:
            self._require_allowed(request)
            return await self._forward(exchange)
        except _RefusedError as error:
            reason = error.reason
            if exchange.answer is None:
                exchange.answer = error_answer(reason)
                return exchange.answer
            # The answer has begun: only a cut connection tells the guest that the rest is missing.
            if request.transport is not None:
                request.transport.abort()
            return exchange.answer
        except (ConnectionError, asyncio.CancelledError):
            reason = Refused.CLIENT_GONE
            raise
        except Exception:
            # Named boundary (request): a fault of ours ends one exchange, is logged, and tells the guest nothing of it.
            reason = Refused.BROKEN
            structlog.get_logger("jam.relay").exception("exchange failed")
            raise
        finally:
            self._open -= 1
            self._report(exchange, reason)

    def _require_allowed(self, request: web.BaseRequest) -> None:
        """Admit exactly the plan's pairs: the target as it was sent, not as anybody might normalise it."""
        asked = f"{request.method} {self._target(request)}"
        if asked not in self._allowed:
            # Which of both it is only helps to read the log: a query is a part of the pair, and as exact as the rest.
            known = asked.partition("?")[0] in self._known
            raise _RefusedError(Refused.QUERY if known else Refused.PATH)
        if "upgrade" in request.headers or "expect" in request.headers:
            raise _RefusedError(Refused.UPGRADE)
        if (request.content_length or 0) > self._limits.request_bytes:
            raise _RefusedError(Refused.REQUEST_TOO_LARGE)
        if self._open > self._limits.concurrent:
            raise _RefusedError(Refused.BUSY)

    def _target(self, request: web.BaseRequest) -> str:
        """Return what is asked for below the prefix; without the prefix, nothing that any plan allows."""
        target = request.raw_path
        if not hmac.compare_digest(target[: len(self._prefix)].encode(), self._prefix.encode()):
            return "/"
        return target[len(self._prefix) :]

    async def _forward(self, exchange: _Exchange) -> web.StreamResponse:
        request = exchange.request
        headers = request_headers(request.headers.items())
        if self._credential is not None:
            headers[self._credential.header] = self._credential.value
        body = self._body(exchange) if request.body_exists else None
        if body is not None and request.content_length is not None:
            headers["content-length"] = str(request.content_length)
        url = URL(self.endpoint.origin + self._target(request), encoded=True)
        try:
            async with self._session.request(request.method, url, headers=headers, data=body, allow_redirects=False) as upstream:
                exchange.upstream_status = upstream.status
                return await self._stream(exchange, upstream)
        except _GuestGoneError:
            raise
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _RefusedError(_classified(error, exchange)) from error

    async def _body(self, exchange: _Exchange) -> AsyncIterator[bytes]:
        """Pass the guest's body on. A failure in here reaches :meth:`_forward` as a broken upload, so the reason is noted first."""
        try:
            async for chunk in exchange.request.content.iter_any():
                exchange.bytes_up += len(chunk)
                if exchange.bytes_up > self._limits.request_bytes:
                    exchange.body_refused = Refused.REQUEST_TOO_LARGE
                    raise _RefusedError(Refused.REQUEST_TOO_LARGE)
                yield chunk
        except (aiohttp.ClientPayloadError, HttpProcessingError):
            exchange.body_refused = Refused.MALFORMED
            raise

    async def _stream(self, exchange: _Exchange, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
        """Pass the answer on as it comes: every chunk is written at once, and a slow guest slows the endpoint down."""
        if 300 <= upstream.status < 400:
            raise _RefusedError(Refused.REDIRECT)
        if (upstream.content_length or 0) > self._limits.response_bytes:
            raise _RefusedError(Refused.RESPONSE_TOO_LARGE)
        secret = self._credential.secret if self._credential else None
        headers = response_headers(upstream.headers, secret=secret)
        headers["server"] = "jam"
        answer = web.StreamResponse(status=upstream.status, headers=headers)
        exchange.answer = answer
        with _writing_to_guest():
            await answer.prepare(exchange.request)
        hide = SecretFilter(secret)
        async for chunk in upstream.content.iter_any():
            exchange.bytes_down += len(chunk)
            if exchange.bytes_down > self._limits.response_bytes:
                raise _RefusedError(Refused.RESPONSE_TOO_LARGE)
            if shown := hide.feed(chunk):
                with _writing_to_guest():
                    await answer.write(shown)
        with _writing_to_guest():
            await answer.write_eof(hide.end())
        return answer

    def _report(self, exchange: _Exchange, reason: Refused | None) -> None:
        request = exchange.request
        self._decided(
            RelayDecision(
                method=shown_path(request.method)[:16],
                path=shown_path(self._target(request)),
                status=exchange.answer.status if exchange.answer else 0,
                upstream_status=exchange.upstream_status,
                refused=reason,
                bytes_up=exchange.bytes_up,
                bytes_down=exchange.bytes_down,
                duration_s=anyio.current_time() - exchange.began,
            )
        )


@contextmanager
def _writing_to_guest() -> Iterator[None]:
    """Tell the guest's closed connection from the endpoint's: aiohttp has one error for both."""
    try:
        yield
    except ConnectionError as error:
        raise _GuestGoneError from error


def _classified(error: aiohttp.ClientError | TimeoutError, exchange: _Exchange) -> Refused:
    if exchange.body_refused is not None:
        return exchange.body_refused
    if exchange.answer is not None:
        return Refused.CUT
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return Refused.UNTRUSTED
    if isinstance(error, TimeoutError):
        return Refused.TIMEOUT
    return Refused.UNREACHABLE if isinstance(error, aiohttp.ClientConnectorError) else Refused.BROKEN


__all__ = ["Relay", "RelayCredential", "RelayLimits"]
