"""Which headers pass a relay, in each direction: pure functions over names and values (SEC-4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from multidict import CIMultiDict

from jamcore.domain.environment import is_secret_like

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "trailers",
        "transfer-encoding",
        "upgrade",
    }
)
"""RFC 9110, section 7.6.1: these belong to one connection."""

_NEVER_UP = frozenset(
    {
        "host",
        "cookie",
        "cookie2",
        "expect",
        "forwarded",
        "via",
        "from",
        "referer",
        "origin",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "true-client-ip",
        "x-original-url",
        "x-rewrite-url",
        "x-original-host",
        "x-host",
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
        "accept-encoding",
    }
)
"""Whom the guest says it is or talks to, and what would change the request behind the relay's back. The relay asks for an answer that
is not compressed, so that it can keep the credential out of it."""

_NEVER_UP_PREFIXES = ("proxy-", "x-forwarded", "sec-websocket", "cf-")

_NEVER_DOWN = frozenset(
    {
        "location",
        "content-location",
        "refresh",
        "set-cookie",
        "set-cookie2",
        "www-authenticate",
        "proxy-authenticate",
        "proxy-authentication-info",
        "authentication-info",
        "alt-svc",
        "clear-site-data",
        "link",
        "nel",
        "report-to",
        "reporting-endpoints",
        "server",
        "strict-transport-security",
        "via",
        "date",
    }
)
"""Where else to go, what to remember, whom to tell: nothing of it is for a guest that reaches one endpoint."""

_HARMLESS_KEYS = frozenset({"idempotency-key"})


def request_headers(given: Iterable[tuple[str, str]]) -> CIMultiDict[str]:
    """Return what of a guest's headers goes upstream: no authorization of its own, no host, nothing of the hop."""
    pairs = list(given)
    named = _named_by_connection(pairs)
    kept: CIMultiDict[str] = CIMultiDict()
    for name, value in pairs:
        low = name.lower()
        dropped = (
            low in _HOP_BY_HOP
            or low in _NEVER_UP
            or low in named
            or low.startswith(_NEVER_UP_PREFIXES)
            or low == "content-length"  # the relay frames the body itself
            or (is_secret_like(low) and low not in _HARMLESS_KEYS)
        )
        if not dropped:
            kept.add(name, value)
    kept["accept-encoding"] = "identity"
    return kept


def response_headers(given: Mapping[str, str], *, secret: str | None) -> CIMultiDict[str]:
    """Return what of an answer's headers goes to the guest. One that holds the secret is left out."""
    pairs = list(given.items())
    named = _named_by_connection(pairs)
    kept: CIMultiDict[str] = CIMultiDict()
    for name, value in pairs:
        low = name.lower()
        if low in _HOP_BY_HOP or low in _NEVER_DOWN or low in named or (secret is not None and secret in value):
            continue
        kept.add(name, value)
    return kept


def _named_by_connection(pairs: list[tuple[str, str]]) -> frozenset[str]:
    """Headers that a Connection header declares to belong to this hop; the framing and the host cannot be among them usefully."""
    values = (value for name, value in pairs if name.lower() == "connection")
    return frozenset(part.strip().lower() for value in values for part in value.split(","))
