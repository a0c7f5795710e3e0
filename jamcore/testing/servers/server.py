"""A scripted model server, on loopback: what is common to all APIs.

It answers requests to the model as its script says, in the form of its dialect, and records each request before it answers. Real
clients talk to it; nothing in it knows which client.

Another process can follow and steer it: ``GET /_control/requests`` and ``/_control/events`` give lists,
``POST /_control/release/NAME`` opens a gate.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Literal, Self

import anyio
from aiohttp import web
from pydantic import BaseModel, JsonValue

from jamcore.system.clock import Clock, SystemClock
from jamcore.testing.servers.dialect import Dialect, Reply
from jamcore.testing.servers.gates import HOLD_LIMIT_S, Gates
from jamcore.testing.servers.history import USUAL, Normalisation, conversation, last_user_text
from jamcore.testing.servers.ledger import (
    HEADER_CHARS,
    HEADERS_LIMIT,
    Ledger,
    Predicate,
    RecordedRequest,
    RecordFile,
    ServerEvent,
)
from jamcore.testing.servers.script import GATE_NAME, Chosen, Request, Script, choose
from jamcore.testing.servers.steps import Answer, error_bytes, steps
from jamcore.testing.servers.stream import EventStream

BODY_LIMIT = 64 * 1024 * 1024
"""Bytes of a request body: a conversation of some thousand turns, with room."""

SHUTDOWN_S = 0.2
"""How long streams may go on when the server ends; then they are cut."""

CONTROL = "/_control/"
EVENTS, WHOLE = "text/event-stream", "application/json"


class ModelServer:
    """One server; use it as an async context manager, which binds on entry and cuts all streams on exit.

    A subclass names the dialect of its API.

    Args:
        script: What it answers.
        port: The port on 127.0.0.1; 0: one that is free.
        record: A file to which each request is appended as one line of JSON (:func:`read_records` reads it).
        hold_directory: Where a file named like a gate releases that gate.
        hold_limit_s: How long an answer waits at a gate before the stream is cut.
        clock: Where the times in records come from.
        normalisation: What the client writes itself among what the model is told: no rule sees it, and no recorded conversation has it.

    Raises:
        ValueError: The script has a part that this API cannot say.
    """

    dialect: ClassVar[Dialect]

    def __init__(
        self,
        script: Script,
        *,
        port: int = 0,
        record: Path | None = None,
        hold_directory: Path | None = None,
        hold_limit_s: float = HOLD_LIMIT_S,
        clock: Clock | None = None,
        normalisation: Normalisation = USUAL,
    ) -> None:
        unsayable = {part.kind for rule in script.rules for part in rule.answer} & self.dialect.lacks
        if unsayable:
            raise ValueError(
                f"the API of {self.dialect.model_path} has no part of an answer of the kind {', '.join(sorted(unsayable))}"
            )
        self._script = script
        self._asked_port = port
        self._record_path = record
        self._record: RecordFile | None = None
        self._gates = Gates(hold_directory)
        self._hold_limit_s = hold_limit_s
        self._clock = clock or SystemClock()
        self._normalisation = normalisation
        self._ledger = Ledger()
        self._used: Counter[int] = Counter()
        self._model_requests = 0
        self._base_url = ""
        self._stack = AsyncExitStack()

    @property
    def base_url(self) -> str:
        """``http://127.0.0.1:PORT``, valid once the server runs."""
        if not self._base_url:
            raise RuntimeError("the server does not run yet")
        return self._base_url

    @property
    def api_url(self) -> str:
        """The base URL with the version, as some clients want it: ``http://127.0.0.1:PORT/v1``."""
        return f"{self.base_url}/v1"

    @property
    def requests(self) -> tuple[RecordedRequest, ...]:
        """All requests so far, in order of arrival; requests to ``/_control/`` are not among them."""
        return self._ledger.requests

    @property
    def model_requests(self) -> tuple[RecordedRequest, ...]:
        """The requests that asked the model."""
        return tuple(request for request in self.requests if request.nth is not None)

    @property
    def unmatched(self) -> tuple[RecordedRequest, ...]:
        """The requests that nothing answered, neither a rule nor the API itself.

        A test that expects a complete script asserts that there are none.
        """
        return tuple(request for request in self.requests if request.rule is None and not request.aside)

    @property
    def events(self) -> tuple[ServerEvent, ...]:
        """All events so far."""
        return self._ledger.events

    async def wait_for(self, predicate: Predicate, timeout_s: float) -> ServerEvent:
        """Return the first event, past or coming, that ``predicate`` accepts.

        Raises:
            TimeoutError: None came within ``timeout_s`` seconds.
        """
        return await self._ledger.wait_for(predicate, timeout_s)

    def release(self, gate: str) -> None:
        """Open a gate: answers that wait there go on, later ones do not wait."""
        self._gates.release(gate)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            if self._record_path is not None:
                self._record = stack.enter_context(RecordFile(self._record_path))
            app = web.Application(client_max_size=BODY_LIMIT)
            app.router.add_get(f"{CONTROL}requests", self._list_requests)
            app.router.add_get(f"{CONTROL}events", self._list_events)
            app.router.add_post(f"{CONTROL}release/{{gate}}", self._release)
            app.router.add_route("*", "/{path:.*}", self._handle)
            # handler_cancellation: a client that leaves ends its stream at once, also one that is silent or held.
            runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN_S)
            stack.push_async_callback(runner.cleanup)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", self._asked_port).start()
            self._base_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with anyio.CancelScope(shield=True):  # bounded by SHUTDOWN_S
            await self._stack.aclose()

    async def _handle(self, http: web.Request) -> web.StreamResponse:
        body = _parsed(await http.read())
        is_model = http.method == "POST" and http.path.endswith(self.dialect.model_path)
        if not is_model or not isinstance(body, dict):
            return self._beside_the_model(http, body, is_model=is_model)
        self._model_requests += 1
        nth = self._model_requests
        items = conversation(body, self._normalisation)
        canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        chosen = choose(self._script, Request(nth, http.path, canonical, items), self._used)
        request = self._keep(http, body, nth=nth, rule=None if chosen is None else chosen.place)
        if chosen is None:
            said = last_user_text(items)[:200]
            text = f"no rule of the script matches model request {nth}; last user text: {said!r}; items: {len(items)}"
            return self._refuse(request, 400, "no_script_rule", text)
        self._used[chosen.place] += 1
        return await self._answer(http, request, chosen, nth)

    def _beside_the_model(self, http: web.Request, body: JsonValue, *, is_model: bool) -> web.Response:
        known = None if is_model else self.dialect.aside(http.method, http.path, body, self._script.models)
        request = self._keep(http, body, aside=known is not None)
        if known is not None:
            self._happened("completed", request.index)
            return web.json_response(known)
        status, code = (400, "body_is_no_object") if is_model else (404, "no_such_path")
        return self._refuse(request, status, code, f"{http.method} {http.path} is not understood by the scripted server")

    def _keep(
        self, http: web.Request, body: JsonValue, *, nth: int | None = None, rule: int | None = None, aside: bool = False
    ) -> RecordedRequest:
        headers = tuple((name.lower(), value[:HEADER_CHARS]) for name, value in list(http.headers.items())[:HEADERS_LIMIT])
        request = RecordedRequest(
            index=len(self._ledger.requests) + 1,
            nth=nth,
            method=http.method,
            path=http.path,
            headers=headers,
            body=body,
            rule=rule,
            aside=aside,
            received_s=self._clock.monotonic(),
            normalisation=self._normalisation,
        )
        if self._record is not None:
            self._record.append(request)
        self._ledger.add_request(request)
        return request

    def _refuse(self, request: RecordedRequest, status: int, code: str, message: str) -> web.Response:
        self._happened("refused", request.index)
        return web.Response(status=status, body=error_bytes(self.dialect, status, code, message), content_type=WHOLE)

    async def _answer(self, http: web.Request, request: RecordedRequest, chosen: Chosen, nth: int) -> web.StreamResponse:
        body = request.body if isinstance(request.body, dict) else {}
        todo = steps(self.dialect, Reply(nth, body, chosen.rule), chosen.fault)
        if isinstance(todo[0], Answer):
            self._happened("refused", request.index)
            first = todo[0]
            return web.Response(status=first.status, body=first.body, headers=first.headers, content_type=WHOLE)
        stream = EventStream(
            http,
            content_type=EVENTS if self.dialect.streams(body) else WHOLE,
            gate=lambda name: self._at_gate(request.index, stream.deltas, name),
            on_delta=lambda sent: self._happened("delta", request.index, delta=sent),
        )
        ended: Literal["completed", "cut", "left"] = "left"
        try:
            with suppress(ConnectionError):
                ended = await stream.run(todo)
        finally:
            self._happened(ended, request.index, delta=stream.deltas)
        return stream.response

    async def _at_gate(self, index: int, deltas: int, name: str) -> bool:
        self._happened("held", index, delta=deltas, gate=name)
        return await self._gates.passed(name, self._hold_limit_s)

    def _happened(
        self,
        kind: Literal["delta", "held", "completed", "cut", "refused", "left"],
        index: int,
        *,
        delta: int = 0,
        gate: str = "",
    ) -> None:
        self._ledger.add_event(ServerEvent(kind=kind, index=index, delta=delta, gate=gate, at_s=self._clock.monotonic()))

    async def _list_requests(self, _: web.Request) -> web.Response:
        return _json_list(self.requests)

    async def _list_events(self, _: web.Request) -> web.Response:
        return _json_list(self.events)

    async def _release(self, http: web.Request) -> web.Response:
        gate = http.match_info["gate"]
        if GATE_NAME.fullmatch(gate) is None:
            return web.Response(status=400, body=error_bytes(self.dialect, 400, "bad_gate", gate[:64]), content_type=WHOLE)
        self.release(gate)
        return web.json_response({"released": gate})


def _parsed(data: bytes) -> JsonValue:
    """Return the parsed body; what is no JSON comes back as text."""
    try:
        parsed: JsonValue = json.loads(data)
    except ValueError:
        return data.decode(errors="replace")
    return parsed


def _json_list(records: tuple[BaseModel, ...]) -> web.Response:
    return web.json_response([record.model_dump(mode="json") for record in records])
