"""The part of ``codex app-server``'s protocol that the plugin uses, read tolerantly: unknown fields and kinds never hurt.

Names live here so that the contract test can compare them with the schema that the pinned program generates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256
from typing import Any

from jam_codex.description import NAME
from jamcore.api import ProviderProtocolError, ProviderTurn, TurnOutcome, identifier, member, reported_identity, text


class Ask(StrEnum):
    """Requests that the plugin sends."""

    INITIALIZE = "initialize"
    THREAD_START = "thread/start"
    THREAD_RESUME = "thread/resume"
    TURNS_LIST = "thread/turns/list"
    TURN_START = "turn/start"
    TURN_INTERRUPT = "turn/interrupt"
    TERMINALS_CLEAN = "thread/backgroundTerminals/clean"


INITIALIZED = "initialized"


class Told(StrEnum):
    """Notifications that mean something to the plugin; all others are passed over."""

    STATUS = "thread/status/changed"
    TURN_STARTED = "turn/started"
    TURN_COMPLETED = "turn/completed"
    ITEM_STARTED = "item/started"
    ITEM_COMPLETED = "item/completed"
    MESSAGE_DELTA = "item/agentMessage/delta"
    OUTPUT_DELTA = "item/commandExecution/outputDelta"
    REASONING_DELTA = "item/reasoning/textDelta"
    SUMMARY_DELTA = "item/reasoning/summaryTextDelta"
    USAGE = "thread/tokenUsage/updated"
    ERROR = "error"
    WARNING = "warning"
    GUARDIAN_WARNING = "guardianWarning"
    CONFIG_WARNING = "configWarning"
    MODEL_REROUTED = "model/rerouted"


OUTCOMES: Mapping[str, TurnOutcome] = {
    "completed": TurnOutcome.COMPLETED,
    "interrupted": TurnOutcome.INTERRUPTED,
    "failed": TurnOutcome.FAILED,
    "inProgress": TurnOutcome.INTERRUPTED,  # listed by a process that does not run it: nobody does
}

_AGENT = re.compile(r"[^/]*/(\d+\.\d+\.\d+[0-9A-Za-z.+-]*)")


def nonsense(problem: str) -> ProviderProtocolError:
    """Return the error for an answer that is not what the protocol says."""
    return ProviderProtocolError(provider=NAME, problem=problem)


def version_of(answer: object) -> str:
    """Return the program's version from the answer to ``initialize``.

    Raises:
        ProviderProtocolError: There is none in it.
    """
    agent = member(answer, "userAgent")
    match = _AGENT.match(agent) if isinstance(agent, str) else None
    if match is None:
        raise nonsense(f"no version in the answer to initialize: {text(agent, 80)!r}")
    return match[1]


def thread_of(answer: object) -> str:
    """Return the thread's id from the answer to ``thread/start`` or ``thread/resume``, exactly as it was reported.

    Raises:
        ProviderProtocolError: There is none in it, or it could be nobody's id.
    """
    return reported_identity(member(answer, "thread", "id"), provider=NAME)


def turn_of(answer: object) -> str:
    """Return the turn's id from the answer to ``turn/start``.

    Raises:
        ProviderProtocolError: There is none in it.
    """
    turn = identifier(member(answer, "turn", "id"))
    if not turn:
        raise nonsense("an answer without a turn's id")
    return turn


def turns_page(answer: object) -> tuple[tuple[ProviderTurn, ...], str | None]:
    """Return one page of a thread's turns, oldest first, and the cursor of the next.

    Raises:
        ProviderProtocolError: It is no page of turns.
    """
    data = member(answer, "data")
    if not isinstance(data, list):
        raise nonsense("an answer without a list of turns")
    cursor = member(answer, "nextCursor")
    return tuple(_turn(entry) for entry in data), cursor if isinstance(cursor, str) and cursor else None


def _turn(entry: object) -> ProviderTurn:
    turn, status = identifier(member(entry, "id")), member(entry, "status")
    if not turn or not isinstance(status, str) or status not in OUTCOMES:
        raise nonsense(f"a turn with the status {text(status, 40)!r}")
    return ProviderTurn(provider_turn=turn, outcome=OUTCOMES[status], text_digest=_text_digest(entry))


def _text_digest(entry: object) -> str | None:
    """Return the digest of the text that began a turn, when the turn came with its items and it is nothing but text."""
    items = member(entry, "items")
    said = next((item for item in items if member(item, "type") == "userMessage"), None) if isinstance(items, list) else None
    content = member(said, "content")
    if not isinstance(content, list) or len(content) != 1 or member(content[0], "type") != "text":
        return None
    words = member(content[0], "text")
    return sha256(words.encode(errors="surrogatepass")).hexdigest() if isinstance(words, str) else None


def is_busy(params: Mapping[str, Any]) -> bool:
    """Whether a changed status says that a turn runs."""
    return member(params, "status", "type") == "active"
