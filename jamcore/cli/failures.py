"""What to do about a failed turn, by its code: what the agent or its model says of it is the vendor's own text, and rarely says that."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

OTHER = "other"
"""The code of what a provider cannot tell apart; a code that is not known is as good as that."""

WHAT_TO_DO: Mapping[str, str] = MappingProxyType(
    {
        "unauthorised": "The endpoint did not take the key: `jam credential ls` shows which there are, `jam credential set` replaces one.",
        "bad_request": "The endpoint refused what the agent sent: do model and endpoint belong together? A new room takes others.",
        "not_found": "The endpoint knows no such model or path: a new room takes others (`jam room new --model … --endpoint …`).",
        "rate_limited": "The endpoint takes no more for now: wait a little, then say it again.",
        "usage_limit": "The account's quota or credit is used up: have it raised, or use another key (`jam credential set`).",
        "overloaded": "The endpoint has too much to do: wait a little, then say it again.",
        "server_error": "The endpoint failed: say it again later.",
        "unreachable": "The endpoint could not be reached: is its server up, and its address right? Then say it again.",
        "stream_cut": "The answer broke off on its way: say it again.",
        "stream_silent": "The endpoint stopped answering: say it again later.",
        "context_full": "The conversation is too long for the model: ask for less at once, or go on in a new room (`jam room new`).",
        "length_limit": "The answer is longer than the model may give: ask for less at once, or tell it to go on.",
        "request_limit": "The agent made as many requests as it may in one turn: tell it to go on.",
        "policy": "The model or its endpoint will not do this: say it in other words.",
        "http_error": "The endpoint refused; its own text is all that is known. Say it again, or use another endpoint in a new room.",
        OTHER: "The agent's own text is all that is known: say it again. If it stays so, `jam doctor` looks at what the agent needs.",
    }
)


def what_to_do(code: str) -> str:
    """Return a sentence for a person; empty for a code of Jam's own, whose text says it already."""
    return "" if "." in code else WHAT_TO_DO.get(code, WHAT_TO_DO[OTHER])
