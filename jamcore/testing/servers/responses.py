"""A scripted model server for OpenAI's Responses API: what tests import, and a program of its own.

In a test::

    async with ResponsesServer(Script(rules=(say("Hel", "lo"),))) as model:
        ...  # point the client at model.api_url
        await model.wait_for(delta_sent(1, 1), timeout_s=5)

As a program (:mod:`jamcore.testing.servers.program`)::

    python -m jamcore.testing.servers.responses --script FILE.json --record REQUESTS.jsonl --hold-dir DIRECTORY
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from jamcore.testing.servers.dialect import Frames, Placed, Reply, as_event
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
from jamcore.testing.servers.ledger import (
    Predicate,
    RecordedRequest,
    ServerEvent,
    delta_sent,
    held_at,
    read_records,
    received,
)
from jamcore.testing.servers.program import run_program
from jamcore.testing.servers.script import (
    Call,
    CustomCall,
    Hold,
    Match,
    Pause,
    Reasoning,
    Rule,
    Script,
    Text,
    Usage,
    say,
)
from jamcore.testing.servers.server import ModelServer

__all__ = [
    "Call",
    "CustomCall",
    "CutFault",
    "DownFault",
    "FailedFault",
    "Fault",
    "GarbageFault",
    "Hold",
    "HttpFault",
    "Match",
    "Pause",
    "Predicate",
    "Reasoning",
    "RecordedRequest",
    "ResponsesServer",
    "Rule",
    "Script",
    "ServerEvent",
    "SilentFault",
    "SlowFault",
    "Text",
    "Usage",
    "delta_sent",
    "held_at",
    "main",
    "read_records",
    "received",
    "say",
]


class ResponsesDialect:
    """``POST …/responses``. A request that does not say ``"stream": false`` gets a stream."""

    model_path = "/responses"
    lacks: frozenset[str] = frozenset()
    broken = b'event: response.output_text.delta\ndata: {"type": "response.output_text.delta", "delta": \n\n'

    def streams(self, body: Mapping[str, JsonValue]) -> bool:
        """See :meth:`Dialect.streams`."""
        return body.get("stream") is not False

    def begin(self, reply: Reply) -> bytes:
        """See :meth:`Dialect.begin`."""
        return as_event({"type": "response.created", "response": {"id": f"resp_{reply.nth}"}})

    def frames(self, reply: Reply, placed: Placed) -> Frames:
        """See :meth:`Dialect.frames`."""
        item = _item(placed)
        done = as_event({"type": "response.output_item.done", "output_index": placed.place, "item": item})
        if not isinstance(placed.part, Text):
            return Frames(before=done)
        begun = {"type": "response.output_item.added", "output_index": placed.place, "item": {**item, "content": []}}
        where = {"item_id": item["id"], "output_index": placed.place, "content_index": 0}
        deltas = ({"type": "response.output_text.delta", **where, "delta": delta} for delta in placed.part.deltas)
        return Frames(as_event(begun), tuple(map(as_event, deltas)), done)

    def end(self, reply: Reply) -> bytes:
        """See :meth:`Dialect.end`."""
        if reply.rule.finish == "open":
            return b""
        return as_event({"type": f"response.{reply.rule.finish}", "response": {"id": f"resp_{reply.nth}", **_result(reply.rule)}})

    def failed(self, reply: Reply, fault: FailedFault) -> bytes:
        """See :meth:`Dialect.failed`."""
        error = {"code": fault.code, "message": fault.message}
        return as_event({"type": "response.failed", "response": {"id": f"resp_{reply.nth}", "status": "failed", "error": error}})

    def whole(self, reply: Reply) -> Mapping[str, object]:
        """See :meth:`Dialect.whole`."""
        status = "in_progress" if reply.rule.finish == "open" else reply.rule.finish
        output = [_item(placed) for placed in reply.placed]
        about = {"id": f"resp_{reply.nth}", "object": "response", "model": reply.model, "status": status}
        return {**about, "output": output, **_result(reply.rule)}

    def error(self, status: int, code: str, message: str) -> Mapping[str, object]:
        """See :meth:`Dialect.error`: the code and the type do not depend on the status."""
        return {"error": {"type": "scripted_error", "code": code or "scripted_fault", "message": message, "param": None}}

    def aside(self, method: str, path: str, body: JsonValue, models: Sequence[str]) -> Mapping[str, object] | None:
        """See :meth:`Dialect.aside`: its clients bring their own list of models."""
        return None


class ResponsesServer(ModelServer):
    """A scripted server for the Responses API."""

    dialect = ResponsesDialect()


def _item(placed: Placed) -> dict[str, object]:
    """Return an output item, as its last event and a whole answer hold it."""
    match placed.part:
        case Text() as part:
            content = [{"type": "output_text", "text": part.whole}]
            return {"type": "message", "role": "assistant", "id": f"msg_{placed.own}", "content": content}
        case Reasoning() as part:
            summary = [{"type": "summary_text", "text": text} for text in part.summary]
            return {"type": "reasoning", "id": f"rs_{placed.own}", "summary": summary, "encrypted_content": part.encrypted_content}
        case Call() as part:
            call = {"call_id": placed.call_id, "name": part.name, "arguments": part.encoded}
            return {"type": "function_call", "id": f"fc_{placed.own}", **call}
        case CustomCall() as part:
            call = {"call_id": placed.call_id, "name": part.name, "input": part.input}
            return {"type": "custom_tool_call", "id": f"ct_{placed.own}", **call}


def _result(rule: Rule) -> dict[str, object]:
    """Return what the end of an answer says: its cost, or why it is not complete."""
    if rule.finish == "incomplete":
        return {"incomplete_details": {"reason": "max_output_tokens"}}
    usage = rule.usage
    cost = {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
    return {"usage": cost}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server as a program; returns the exit status."""
    return run_program(ResponsesServer, arguments)


if __name__ == "__main__":
    sys.exit(main())
