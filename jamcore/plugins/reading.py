"""Reading what a provider's program says, tolerantly: what is missing, or has another shape, is nothing; all that is kept is bounded.

None of these ever raises, whatever JSON it is given: a program in a guest is not believed, and one odd member must not end a turn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from jamcore.domain.approvals import CUT
from jamcore.domain.errors import InvalidInputError
from jamcore.domain.events import TEXT_LIMIT
from jamcore.domain.ids import ProviderIdentity, provider_identity
from jamcore.domain.providers import ProviderProtocolError

EVENT_TEXT = TEXT_LIMIT
"""Characters kept of one text, as everywhere in Jam; more is cut and marked."""
SHOWN_TEXT = 64 << 10
"""Characters kept of a tool's arguments or result: for people to read, the model has the whole."""
IDENTIFIER = 256
"""Characters kept of an id."""


def member(value: object, *path: str) -> object:
    """Return what lies at ``path`` inside nested objects, or ``None``."""
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def entries(value: object) -> tuple[Mapping[str, object], ...]:
    """Return the objects in a list; anything else has none."""
    return tuple(entry for entry in value if isinstance(entry, Mapping)) if isinstance(value, list) else ()


def text(value: object, limit: int = EVENT_TEXT) -> str:
    """Return ``value`` when it is text, cut and marked beyond ``limit`` characters; anything else is no text."""
    if not isinstance(value, str):
        return ""
    return value if len(value) <= limit else value[: max(0, limit - len(CUT))] + CUT[:limit]


def shown(value: object, limit: int = SHOWN_TEXT) -> str:
    """Return JSON as bounded text for people: text as it is, nothing for nothing, of a list of content its texts and what else is in it."""
    if value is None or value == {}:
        return ""
    if isinstance(value, str):
        return text(value, limit)
    blocks = entries(value)
    if (
        blocks
        and isinstance(value, list)
        and len(blocks) == len(value)
        and all(isinstance(block.get("type"), str) for block in blocks)
    ):
        return text("\n".join(_block(block) for block in blocks), limit)
    return text(_dumped(value, ordered=False), limit)


def as_json(value: object) -> str:
    """Return JSON whole, its members by name, so that equal values are equal texts: what somebody decides about, who bounds it."""
    return _dumped(value, ordered=True)


def number(value: object) -> int:
    """Return ``value`` when it is a whole number of 0 or more, else 0."""
    return max(0, whole(value) or 0)


def whole(value: object) -> int | None:
    """Return ``value`` when it is a whole number, as a command's exit code is, else ``None``: it is not known."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def identifier(value: object) -> str:
    """Return a provider's id as bounded text; anything else is no id."""
    return value[:IDENTIFIER] if isinstance(value, str) else ""


def reported_identity(value: object, *, provider: str) -> ProviderIdentity:
    """Return a thread's id exactly as the provider reported it (CONT-1); the one reader that refuses what it does not understand.

    Raises:
        ProviderProtocolError: It is none, or it could be nobody's id.
    """
    if not isinstance(value, str):
        raise ProviderProtocolError(provider=provider, problem="an answer without a thread's id")
    try:
        return provider_identity(value)
    except InvalidInputError as error:
        raise ProviderProtocolError(provider=provider, problem=f"a thread's id that is {text(error.problem, 200)}") from error


def _dumped(value: object, *, ordered: bool) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=ordered)
    except RecursionError:  # it was read in a shallower place than this
        return "[nested too deeply to be shown]"


def _block(block: Mapping[str, object]) -> str:
    said = block.get("text")
    return said if isinstance(said, str) else f"[{block['type']}]"
