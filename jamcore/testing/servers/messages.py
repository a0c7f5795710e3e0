"""A scripted model server for Anthropic's Messages API: what tests import, and a program of its own.

In a test::

    async with MessagesServer(Script(rules=(say("Hel", "lo"),))) as model:
        ...  # point the client at model.base_url: it adds the version itself
        await model.wait_for(delta_sent(1, 1), timeout_s=5)

As a program (:mod:`jamcore.testing.servers.program`)::

    python -m jamcore.testing.servers.messages --script FILE.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pydantic import JsonValue

from jamcore.testing.servers.dialect import Frames, Placed, Reply, as_event, in_pieces
from jamcore.testing.servers.faults import FailedFault
from jamcore.testing.servers.program import run_program
from jamcore.testing.servers.script import Call, Reasoning, Text, Usage
from jamcore.testing.servers.server import ModelServer

ERROR_TYPES = MappingProxyType(
    {
        400: "invalid_request_error",
        401: "authentication_error",
        402: "billing_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        504: "timeout_error",
        529: "overloaded_error",
    }
)
"""What the API calls an error of a status; any other is an ``api_error``."""

COUNT_PATH = "/messages/count_tokens"
CHARACTERS_OF_A_TOKEN = 4


class MessagesDialect:
    """``POST …/messages``, ``POST …/messages/count_tokens`` and ``GET …/models``.

    A request that says ``"stream": true`` gets a stream. Thinking comes as one delta for each text of its summary, signed with its
    opaque content.
    """

    model_path = "/messages"
    lacks = frozenset({"custom_call"})
    broken = b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 0, "delta": \n\n'

    def streams(self, body: Mapping[str, JsonValue]) -> bool:
        """See :meth:`Dialect.streams`."""
        return body.get("stream") is True

    def begin(self, reply: Reply) -> bytes:
        """See :meth:`Dialect.begin`: no output has been counted yet."""
        usage = {**_usage(reply.rule.usage), "output_tokens": 1}
        message = {**_message(reply), "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        return as_event({"type": "message_start", "message": message}) + as_event({"type": "ping"})

    def frames(self, reply: Reply, placed: Placed) -> Frames:
        """See :meth:`Dialect.frames`: a block begins empty, and everything in it comes as deltas."""
        at = {"index": placed.place}
        begun = as_event({"type": "content_block_start", **at, "content_block": _block(placed, empty=True)})
        deltas = [as_event({"type": "content_block_delta", **at, "delta": delta}) for delta in _deltas(placed)]
        done = as_event({"type": "content_block_stop", **at})
        if isinstance(placed.part, Text):
            return Frames(begun, tuple(deltas), done)
        return Frames(before=b"".join((begun, *deltas, done)))

    def end(self, reply: Reply) -> bytes:
        """See :meth:`Dialect.end`."""
        if reply.rule.finish == "open":
            return b""
        stopped = as_event({"type": "message_delta", "delta": _stopped(reply), "usage": _usage(reply.rule.usage)})
        return stopped + as_event({"type": "message_stop"})

    def failed(self, reply: Reply, fault: FailedFault) -> bytes:
        """See :meth:`Dialect.failed`."""
        return as_event(_error(fault.code, fault.message))

    def whole(self, reply: Reply) -> Mapping[str, object]:
        """See :meth:`Dialect.whole`."""
        content = [_block(placed) for placed in reply.placed]
        return {**_message(reply), "content": content, **_stopped(reply), "usage": _usage(reply.rule.usage)}

    def error(self, status: int, code: str, message: str) -> Mapping[str, object]:
        """See :meth:`Dialect.error`: the code is the error's type."""
        return _error(code or ERROR_TYPES.get(status, "api_error"), message)

    def aside(self, method: str, path: str, body: JsonValue, models: Sequence[str]) -> Mapping[str, object] | None:
        """See :meth:`Dialect.aside`: tokens are counted by the characters of the body, the same for the same body."""
        if method == "POST" and path.endswith(COUNT_PATH) and isinstance(body, dict):
            return {"input_tokens": len(json.dumps(body)) // CHARACTERS_OF_A_TOKEN}
        if method == "GET" and path.endswith("/models"):
            known = [{"type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z"} for name in models]
            ends = (models[0], models[-1]) if models else (None, None)
            return {"data": known, "has_more": False, "first_id": ends[0], "last_id": ends[1]}
        return None


class MessagesServer(ModelServer):
    """A scripted server for the Messages API."""

    dialect = MessagesDialect()


def _message(reply: Reply) -> dict[str, object]:
    return {"id": f"msg_{reply.nth}", "type": "message", "role": "assistant", "model": reply.model}


def _stopped(reply: Reply) -> dict[str, object]:
    return {"stop_reason": reply.reason(done="end_turn", tools="tool_use", limit="max_tokens"), "stop_sequence": None}


def _error(kind: str, message: str) -> dict[str, object]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def _block(placed: Placed, *, empty: bool = False) -> dict[str, object]:
    """Return a block of content as a whole answer holds it, or ``empty``, as a stream begins it."""
    match placed.part:
        case Text() as part:
            return {"type": "text", "text": "" if empty else part.whole}
        case Reasoning() as part:
            thought = "" if empty else "".join(part.summary)
            return {"type": "thinking", "thinking": thought, "signature": "" if empty else part.encrypted_content or ""}
        case Call() as part:
            return {"type": "tool_use", "id": placed.call_id, "name": part.name, "input": {} if empty else _input(part)}
        case part:
            raise TypeError(f"{part.kind} is no block of content")


def _deltas(placed: Placed) -> list[dict[str, object]]:
    match placed.part:
        case Text() as part:
            return [{"type": "text_delta", "text": text} for text in part.deltas]
        case Reasoning() as part:
            thoughts: list[dict[str, object]] = [{"type": "thinking_delta", "thinking": text} for text in part.summary]
            return [*thoughts, {"type": "signature_delta", "signature": part.encrypted_content or ""}]
        case Call() as part:
            return [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *in_pieces(part.encoded))]
        case part:
            raise TypeError(f"{part.kind} is no block of content")


def _input(call: Call) -> JsonValue:
    """Return the arguments as a value; what is no JSON can only be said as a text."""
    try:
        value: JsonValue = json.loads(call.encoded)
    except ValueError:
        return call.encoded
    return value


def _usage(usage: Usage) -> dict[str, object]:
    """Return what an answer cost. Here cached tokens are beside the input tokens, not among them."""
    return {
        "input_tokens": usage.input_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server as a program; returns the exit status."""
    return run_program(MessagesServer, arguments)


if __name__ == "__main__":
    sys.exit(main())
