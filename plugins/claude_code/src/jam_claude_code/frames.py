"""Claude Code's stream-json as a framing of Jam's line client: the same questions and answers in other words.

Both are one JSON object a line, both sides may ask, both may tell. So a control request is a request, its response an answer, and every
other frame a notification named by its type, with the whole frame as its parameters:

    {"type": "control_request", "request_id": R, "request": {"subtype": M, …}}      <->  {"id": R, "method": M, "params": {…}}
    {"type": "control_response", "response": {"request_id": R, "response": {…}}}    <->  {"id": R, "result": {…}}
    {"type": T, …}                                                                  <->  {"method": T, "params": {"type": T, …}}

With that the client's bounds, order, errors and end hold here too. What is no frame is handed on as it is, for the client to refuse.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from jam_claude_code.protocol import Told
from jamcore.api import EVENT_TEXT, LineFraming, text

FRAME_BYTES = 64 << 20
"""Longest line that is read; a picture or a document that the agent looked at is twice in its frame."""
WHOLE_BYTES = 4 << 20
"""A longer frame loses what nobody is shown: the end of its texts, so that the client takes it."""
ERROR = -32000

_LINE_END = b"\n"


class Frames:
    """How messages are told apart on one connection, and what both directions of it know: which questions of the program are open."""

    def __init__(self) -> None:
        self._open: set[str] = set()

    def splitter(self) -> FrameSplitter:
        """Return a splitter for the connection."""
        return FrameSplitter(self)

    def framed(self, message: bytes) -> bytes:
        """Return a message of the line client as it is sent; nothing, where the program does not wait for it any more."""
        frame = self.to_frame(message)
        return b"" if frame is None else frame + _LINE_END

    def to_message(self, line: bytes) -> bytes:
        """Return a line of the program as the line client reads it, without its end."""
        try:
            frame = json.loads(line)
        except (ValueError, RecursionError):
            return line
        if not isinstance(frame, dict) or not isinstance(frame.get("type"), str):
            return b'{"frame":' + line + b"}"
        kind = frame["type"]
        if kind == "control_response":
            return _answer(frame, line)
        if kind == "control_request":
            return self._question(frame, line)
        if kind == Told.WITHDRAWN:
            self._open.discard(str(frame.get("request_id")))
        if len(line) > WHOLE_BYTES:
            line = _shortened(frame)
        return b'{"method":' + json.dumps(kind).encode() + b',"params":' + line + b"}"

    def to_frame(self, line: bytes) -> bytes | None:
        """Return a line of the line client as the program reads it; ``None``: the program does not wait for it any more."""
        message: Mapping[str, Any] = json.loads(line)
        if "method" not in message:
            return self._reply(message)
        if "id" not in message:
            return _encoded(message["params"])
        request = {"subtype": message["method"], **message.get("params", {})}
        return _encoded({"type": "control_request", "request_id": str(message["id"]), "request": request})

    def _question(self, frame: Mapping[str, Any], line: bytes) -> bytes:
        request, asked = frame.get("request_id"), frame.get("request")
        if not isinstance(request, str) or not isinstance(asked, dict) or not isinstance(asked.get("subtype"), str):
            return b'{"frame":' + line + b"}"
        self._open.add(request)
        return _encoded({"id": request, "method": asked["subtype"], "params": asked})

    def _reply(self, message: Mapping[str, Any]) -> bytes | None:
        request = message["id"]
        if request not in self._open:
            return None
        self._open.discard(request)
        if "error" in message:
            said = {"subtype": "error", "request_id": request, "error": message["error"]["message"]}
        else:
            said = {"subtype": "success", "request_id": request, "response": message["result"]}
        return _encoded({"type": "control_response", "response": said})


class FrameSplitter:
    """What the program writes, line by line, as the line client reads it."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._lines = LineFraming(FRAME_BYTES).splitter()

    @property
    def pending(self) -> int:
        """How many bytes of an unfinished line are held."""
        return self._lines.pending

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the messages that ``chunk`` completes. A line that is too long ends the connection, as everywhere."""
        return map(self._frames.to_message, self._lines.feed(chunk))


def _answer(frame: Mapping[str, Any], line: bytes) -> bytes:
    response = frame.get("response")
    request = response.get("request_id") if isinstance(response, dict) else None
    if not isinstance(response, dict) or not isinstance(request, str) or not request.isascii() or not request.isdecimal():
        return b'{"frame":' + line + b"}"
    if response.get("subtype") == "success":
        return _encoded({"id": int(request), "result": response.get("response") or {}})
    return _encoded({"id": int(request), "error": {"code": ERROR, "message": str(response.get("error", ""))}})


def _shortened(frame: dict[str, Any]) -> bytes:
    """Return a frame whose texts are no longer than anybody is shown; half a character, which has no bytes, is a question mark."""
    return json.dumps(_cut(frame), ensure_ascii=False).encode(errors="replace")


def _cut(value: Any) -> Any:  # noqa: ANN401 - JSON
    match value:
        case str():
            return text(value, EVENT_TEXT)
        case list():
            return [_cut(entry) for entry in value]
        case dict():
            return {key: _cut(entry) for key, entry in value.items()}
        case _:
            return value


def _encoded(frame: Mapping[str, Any]) -> bytes:
    """Return JSON in one line; what is no text in a file of the person's is escaped, as JSON can."""
    return json.dumps(frame, separators=(",", ":"), allow_nan=False).encode()
