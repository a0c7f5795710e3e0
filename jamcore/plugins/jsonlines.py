"""Shapes of JSON-RPC, without any input or output: bytes to messages and back. How they are told apart is in :mod:`.framing`.

The ``jsonrpc`` member is optional in both directions: some providers leave it out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from jamcore.domain.errors import RefusalError

REMOTE_MESSAGE_CHARACTERS = 2_000
"""What is kept of an error's text: some programs list every method they know, kilobytes long, when asked for one that they lack."""
EXCERPT_CHARACTERS = 120
"""What is quoted of a line that cannot be read: enough to recognise a stray log line."""
METHOD_NOT_FOUND = -32601
INTERNAL_ERROR = -32603

RequestId = int | str
Params = dict[str, Any]

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})")
_REPLACEMENT = rb"\ufffd"
_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC and its kin: titles, clipboards
    r"|\x1b[ -/]*[0-~]?|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)


@dataclass(eq=False)
class RemoteError(RefusalError):
    """The peer answered a request with an error of its own; raised by a handler, it is how this side refuses the peer's request.

    ``number`` and ``message`` are JSON-RPC's ``code`` and ``message``; the message is cut and holds no control characters.
    """

    code: ClassVar[str] = "provider.remote_error"
    hint: ClassVar[str] = "The provider's words are in the context."

    number: int
    message: str
    data: object = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The peer's answer to one of our requests."""

    id: int
    result: Any
    error: RemoteError | None


@dataclass(frozen=True, slots=True)
class Question:
    """A request of the peer's own; its ids are a space apart from ours."""

    id: RequestId
    method: str
    params: Params


@dataclass(frozen=True, slots=True)
class Notification:
    """Something the peer tells, with no answer. ``size`` is its length in bytes."""

    method: str
    params: Params
    size: int


Incoming = Answer | Question | Notification


class MalformedError(ValueError):
    """The bytes are no message; its text says why, and never reaches anybody but inside a typed error.

    A :class:`~jamcore.plugins.framing.Splitter` raises it, and the client over it ends the connection with ``ProviderProtocolError``.
    """


def parse(line: bytes) -> Incoming:
    """Read one line as a message.

    Half a surrogate pair is no text, and nothing could store or print it: it becomes U+FFFD. Programs that count UTF-16 write one
    wherever they cut a text inside such a character. A byte order mark before it, as some programs write first of all, is passed over.

    Raises:
        MalformedError: It is no JSON, no object, or an object that is neither an answer, a request nor a notification.
    """
    if _SURROGATE.search(line) is not None:
        line = _ESCAPE.sub(lambda found: _REPLACEMENT if found["half"] else found[0], line)
    try:
        message = json.loads(line.decode("utf-8-sig"))  # strictly: json itself would let half a pair pass that is written in bytes
    except (ValueError, RecursionError) as error:
        problem = f"a line that is no JSON: {excerpt(line)}"
        raise MalformedError(problem) from error
    if not isinstance(message, dict):
        problem = f"a {type(message).__name__} instead of an object: {excerpt(line)}"
        raise MalformedError(problem)
    if "method" in message:
        return _call(message, line)
    return _answer(message, line)


def _call(message: dict[str, Any], line: bytes) -> Question | Notification:
    method, params = message["method"], message.get("params")
    if not isinstance(method, str):
        problem = f"a method that is no text: {excerpt(line)}"
        raise MalformedError(problem)
    if params is None:
        params = {}
    if not isinstance(params, dict):
        problem = f"parameters of {method[:80]} that are no object"
        raise MalformedError(problem)
    if "id" not in message:
        return Notification(method, params, len(line))
    id_ = message["id"]
    if not isinstance(id_, int | str) or isinstance(id_, bool):
        problem = f"a request with the id {str(id_)[:40]!r}"
        raise MalformedError(problem)
    return Question(id_, method, params)


def _answer(message: dict[str, Any], line: bytes) -> Answer:
    if ("result" in message) == ("error" in message):
        problem = f"neither a call nor an answer: {excerpt(line)}"
        raise MalformedError(problem)
    id_ = message.get("id")
    if not isinstance(id_, int) or isinstance(id_, bool):
        problem = f"an answer with the id {str(id_)[:40]!r}: {excerpt(line)}"
        raise MalformedError(problem)
    if "result" in message:
        return Answer(id_, message["result"], None)
    return Answer(id_, None, _remote_error(message["error"], line))


def _remote_error(error: object, line: bytes) -> RemoteError:
    if not isinstance(error, dict) or not isinstance(error.get("code"), int) or not isinstance(error.get("message"), str):
        problem = f"an error of the wrong shape: {excerpt(line)}"
        raise MalformedError(problem)
    return RemoteError(error["code"], plain(error["message"], REMOTE_MESSAGE_CHARACTERS), error.get("data"))


def encode(message: Mapping[str, Any], *, jsonrpc: bool) -> bytes:
    """Return ``message`` as bytes without a line end."""
    full = {"jsonrpc": "2.0", **message} if jsonrpc else message
    return json.dumps(full, separators=(",", ":"), allow_nan=False).encode()


def excerpt(line: bytes) -> str:
    """Return the beginning of a line as harmless text."""
    text = plain(line[: 4 * EXCERPT_CHARACTERS].decode(errors="replace"), EXCERPT_CHARACTERS)
    return repr(text) + ("…" if len(line) > len(text) else "")


def plain(text: str, limit: int) -> str:
    """Return at most ``limit`` characters of ``text`` without terminal control sequences (SEC-3); tabs and line ends stay."""
    return _CONTROL.sub("", text[: 2 * limit])[:limit]
