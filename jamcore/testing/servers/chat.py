"""A scripted model server for OpenAI's Chat Completions API: what tests import, and a program of its own.

In a test::

    async with ChatServer(Script(rules=(say("Hel", "lo"),))) as model:
        ...  # point the client at model.api_url
        await model.wait_for(delta_sent(1, 1), timeout_s=5)

As a program (:mod:`jamcore.testing.servers.program`)::

    python -m jamcore.testing.servers.chat --script FILE.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pydantic import JsonValue

from jamcore.testing.servers.dialect import CREATED_S, Frames, Placed, Reply, in_pieces
from jamcore.testing.servers.faults import FailedFault
from jamcore.testing.servers.program import run_program
from jamcore.testing.servers.script import Call, Reasoning, Text, Usage
from jamcore.testing.servers.server import ModelServer

ERROR_CODES = MappingProxyType({401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"})
"""What the API calls an error of a status; any other has no code."""

END = b"data: [DONE]\n\n"


class ChatDialect:
    """``POST …/chat/completions`` and ``GET …/models``.

    A request that says ``"stream": true`` gets a stream, with its cost at the end if it says ``include_usage``. All texts of an answer are
    one content. Reasoning comes as ``reasoning_content``, which is not of the API itself but of most servers that are compatible with it;
    its opaque content has no place there.
    """

    model_path = "/chat/completions"
    lacks = frozenset({"custom_call"})
    broken = b'data: {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": \n\n'

    def streams(self, body: Mapping[str, JsonValue]) -> bool:
        """See :meth:`Dialect.streams`."""
        return body.get("stream") is True

    def begin(self, reply: Reply) -> bytes:
        """See :meth:`Dialect.begin`."""
        return _chunk(reply, {"role": "assistant", "content": ""})

    def frames(self, reply: Reply, placed: Placed) -> Frames:
        """See :meth:`Dialect.frames`: nothing marks the beginning or the end of a part."""
        match placed.part:
            case Text() as part:
                return Frames(deltas=tuple(_chunk(reply, {"content": text}) for text in part.deltas))
            case Reasoning() as part:
                return Frames(before=b"".join(_chunk(reply, {"reasoning_content": text}) for text in part.summary))
            case Call() as part:
                begun = {"index": placed.call, **_call(placed, part, "")}
                pieces = ({"index": placed.call, "function": {"arguments": piece}} for piece in in_pieces(part.encoded))
                return Frames(before=b"".join(_chunk(reply, {"tool_calls": [call]}) for call in (begun, *pieces)))
            case part:
                raise TypeError(f"{part.kind} is no part of a message")

    def end(self, reply: Reply) -> bytes:
        """See :meth:`Dialect.end`."""
        if reply.rule.finish == "open":
            return b""
        cost = _data({**_about(reply, "chat.completion.chunk"), "choices": [], "usage": _usage(reply.rule.usage)})
        return _chunk(reply, {}, _finish_reason(reply)) + (cost if _wants_usage(reply) else b"") + END

    def failed(self, reply: Reply, fault: FailedFault) -> bytes:
        """See :meth:`Dialect.failed`."""
        return _data(_error("server_error", fault.code, fault.message))

    def whole(self, reply: Reply) -> Mapping[str, object]:
        """See :meth:`Dialect.whole`."""
        parts = [placed.part for placed in reply.placed]
        texts = [part.whole for part in parts if isinstance(part, Text)]
        thoughts = [text for part in parts if isinstance(part, Reasoning) for text in part.summary]
        calls = [_call(placed, placed.part, placed.part.encoded) for placed in reply.placed if isinstance(placed.part, Call)]
        message: dict[str, object] = {"role": "assistant", "content": "".join(texts) if texts else None, "refusal": None}
        if thoughts:
            message["reasoning_content"] = "".join(thoughts)
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(reply)}
        return {**_about(reply, "chat.completion"), "choices": [choice], "usage": _usage(reply.rule.usage)}

    def error(self, status: int, code: str, message: str) -> Mapping[str, object]:
        """See :meth:`Dialect.error`: the type says whose fault it is."""
        kind = "server_error" if status >= 500 else "requests" if status == 429 else "invalid_request_error"
        return _error(kind, code or ERROR_CODES.get(status), message)

    def aside(self, method: str, path: str, body: JsonValue, models: Sequence[str]) -> Mapping[str, object] | None:
        """See :meth:`Dialect.aside`."""
        if method != "GET" or not path.endswith("/models"):
            return None
        known = [{"id": name, "object": "model", "created": CREATED_S, "owned_by": "script"} for name in models]
        return {"object": "list", "data": known}


class ChatServer(ModelServer):
    """A scripted server for the Chat Completions API."""

    dialect = ChatDialect()


def _about(reply: Reply, kind: str) -> dict[str, object]:
    return {"id": f"chatcmpl-{reply.nth}", "object": kind, "created": CREATED_S, "model": reply.model}


def _data(value: Mapping[str, object]) -> bytes:
    """Return one event of the stream: they have no names."""
    return f"data: {json.dumps(value)}\n\n".encode()


def _chunk(reply: Reply, delta: Mapping[str, object], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    usage = {"usage": None} if _wants_usage(reply) else {}
    return _data({**_about(reply, "chat.completion.chunk"), "choices": [choice], **usage})


def _call(placed: Placed, call: Call, arguments: str) -> dict[str, object]:
    return {"id": placed.call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _error(kind: str, code: str | None, message: str) -> dict[str, object]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _finish_reason(reply: Reply) -> str | None:
    return reply.reason(done="stop", tools="tool_calls", limit="length")


def _wants_usage(reply: Reply) -> bool:
    options = reply.body.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def _usage(usage: Usage) -> dict[str, object]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server as a program; returns the exit status."""
    return run_program(ChatServer, arguments)


if __name__ == "__main__":
    sys.exit(main())
