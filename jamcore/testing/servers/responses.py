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

from jamcore.testing.servers.dialect import CREATED_S, Frames, Placed, Reply, as_event, in_pieces
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
        return as_event({"type": "response.created", "response": {**_about(reply), "status": "in_progress", "output": []}})

    def frames(self, reply: Reply, placed: Placed) -> Frames:
        """See :meth:`Dialect.frames`: an item is added empty, comes as deltas, and is whole when it is done."""
        item = _item(placed)
        at = {"output_index": placed.place}
        begun = as_event({"type": "response.output_item.added", **at, "item": _item(placed, empty=True)})
        done = as_event({"type": "response.output_item.done", **at, "item": item})
        where = {"item_id": item["id"], **at}
        match placed.part:
            case Text() as part:
                within = {**where, "content_index": 0}
                open_part = {"type": "response.content_part.added", **within, "part": _content("")}
                deltas = ({"type": "response.output_text.delta", **within, "delta": delta} for delta in part.deltas)
                text = {"type": "response.output_text.done", **within, "text": part.whole}
                close_part = {"type": "response.content_part.done", **within, "part": _content(part.whole)}
                return Frames(
                    begun + as_event(open_part), tuple(map(as_event, deltas)), as_event(text) + as_event(close_part) + done
                )
            case Reasoning():
                return Frames(before=begun + done)
            case Call() as part:
                return Frames(before=begun + _argument_events("function_call_arguments", "arguments", where, part.encoded) + done)
            case CustomCall() as part:
                return Frames(before=begun + _argument_events("custom_tool_call_input", "input", where, part.input) + done)

    def end(self, reply: Reply) -> bytes:
        """See :meth:`Dialect.end`."""
        if reply.rule.finish == "open":
            return b""
        return as_event({"type": f"response.{reply.rule.finish}", "response": self.whole(reply)})

    def failed(self, reply: Reply, fault: FailedFault) -> bytes:
        """See :meth:`Dialect.failed`."""
        error = {"code": fault.code, "message": fault.message}
        return as_event(
            {"type": "response.failed", "response": {**_about(reply), "status": "failed", "error": error, "output": []}}
        )

    def whole(self, reply: Reply) -> Mapping[str, object]:
        """See :meth:`Dialect.whole`."""
        status = "in_progress" if reply.rule.finish == "open" else reply.rule.finish
        output = [_item(placed) for placed in reply.placed]
        return {**_about(reply), "status": status, "output": output, **_result(reply.rule)}

    def error(self, status: int, code: str, message: str) -> Mapping[str, object]:
        """See :meth:`Dialect.error`: the code and the type do not depend on the status."""
        return {"error": {"type": "scripted_error", "code": code or "scripted_fault", "message": message, "param": None}}

    def aside(self, method: str, path: str, body: JsonValue, models: Sequence[str]) -> Mapping[str, object] | None:
        """See :meth:`Dialect.aside`: its clients bring their own list of models."""
        return None


class ResponsesServer(ModelServer):
    """A scripted server for the Responses API."""

    dialect = ResponsesDialect()


def _about(reply: Reply) -> dict[str, object]:
    return {"id": f"resp_{reply.nth}", "object": "response", "created_at": CREATED_S, "model": reply.model}


def _content(text: str) -> dict[str, object]:
    return {"type": "output_text", "text": text, "annotations": []}


def _argument_events(kind: str, name: str, where: Mapping[str, object], text: str) -> bytes:
    """Return the events that bring what a tool is called with."""
    deltas = [{"type": f"response.{kind}.delta", **where, "delta": piece} for piece in in_pieces(text)]
    return b"".join(map(as_event, (*deltas, {"type": f"response.{kind}.done", **where, name: text})))


def _item(placed: Placed, *, empty: bool = False) -> dict[str, object]:
    """Return an output item as its last event and a whole answer hold it, or ``empty``, as a stream begins it."""
    status = "in_progress" if empty else "completed"
    match placed.part:
        case Text() as part:
            content = [] if empty else [_content(part.whole)]
            return {"type": "message", "role": "assistant", "id": f"msg_{placed.own}", "status": status, "content": content}
        case Reasoning() as part:
            summary = [] if empty else [{"type": "summary_text", "text": text} for text in part.summary]
            return {"type": "reasoning", "id": f"rs_{placed.own}", "summary": summary, "encrypted_content": part.encrypted_content}
        case Call() as part:
            call = {"call_id": placed.call_id, "name": part.name, "arguments": "" if empty else part.encoded}
            return {"type": "function_call", "id": f"fc_{placed.own}", "status": status, **call}
        case CustomCall() as part:
            call = {"call_id": placed.call_id, "name": part.name, "input": "" if empty else part.input}
            return {"type": "custom_tool_call", "id": f"ct_{placed.own}", "status": status, **call}


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
