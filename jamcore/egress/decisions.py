"""What a relay decided about each request, and the errors that a guest gets: in the shape that model clients read (SEC-4)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

import structlog
from aiohttp import web

PATH_CHARACTERS = 200


class Refused(StrEnum):
    """Why a request did not get an answer from upstream, or not the whole one. Stable: they are the guest's error codes."""

    PATH = "relay_path_refused"
    QUERY = "relay_query_refused"
    UPGRADE = "relay_upgrade_refused"
    BUSY = "relay_busy"
    REQUEST_TOO_LARGE = "relay_request_too_large"
    MALFORMED = "relay_request_malformed"
    REDIRECT = "relay_redirect_refused"
    UNREACHABLE = "relay_upstream_unreachable"
    UNTRUSTED = "relay_upstream_untrusted"
    TIMEOUT = "relay_upstream_timeout"
    BROKEN = "relay_upstream_broken"
    RESPONSE_TOO_LARGE = "relay_response_too_large"
    CUT = "relay_upstream_cut"
    CLIENT_GONE = "relay_client_gone"


STATUS: Mapping[Refused, int] = MappingProxyType(
    {
        Refused.PATH: 404,
        Refused.QUERY: 404,
        Refused.UPGRADE: 400,
        Refused.BUSY: 503,
        Refused.REQUEST_TOO_LARGE: 413,
        Refused.MALFORMED: 400,
        Refused.TIMEOUT: 504,
    }
)
"""The status of an error answer; everything else is 502."""

WORDS: Mapping[Refused, str] = MappingProxyType(
    {
        Refused.PATH: "This sandbox may only send the requests that its plan names.",
        Refused.QUERY: "This sandbox may send this request only with the query that its plan names, or with none.",
        Refused.UPGRADE: "This sandbox may not change the protocol of its connection.",
        Refused.BUSY: "Too many requests of this sandbox are open; try again when one has ended.",
        Refused.REQUEST_TOO_LARGE: "The request is larger than Jam lets through.",
        Refused.MALFORMED: "The request's body is not framed as its headers say.",
        Refused.REDIRECT: "The model endpoint answered with a redirect, which Jam does not follow.",
        Refused.UNREACHABLE: "The model endpoint cannot be reached from this machine.",
        Refused.UNTRUSTED: "The model endpoint's certificate is not trusted by this machine.",
        Refused.TIMEOUT: "The model endpoint did not answer in time.",
        Refused.RESPONSE_TOO_LARGE: "The answer is larger than Jam lets through.",
        Refused.BROKEN: "The model endpoint broke the connection before it answered.",
    }
)


@dataclass(frozen=True, slots=True)
class RelayDecision:
    """One request, when it is over. Holds no header, no body and no secret; ``path`` is a guest's text, bounded and escaped.

    ``status`` is what the guest got, ``upstream_status`` what the endpoint said; ``refused`` says why they differ or why the answer is cut.
    """

    method: str
    path: str
    status: int
    upstream_status: int | None
    refused: Refused | None
    bytes_up: int
    bytes_down: int
    duration_s: float

    @property
    def allowed(self) -> bool:
        """Whether the request went to the endpoint."""
        return self.upstream_status is not None


def error_answer(reason: Refused) -> web.Response:
    """Return the answer for a refused request; the connection ends with it, since its body may be unread."""
    body = {"error": {"message": WORDS[reason], "type": "relay_error", "param": None, "code": reason.value}}
    answer = web.Response(
        status=STATUS.get(reason, 502), body=json.dumps(body).encode(), content_type="application/json", headers={"server": "jam"}
    )
    answer.force_close()
    return answer


def shown_path(text: str) -> str:
    """Return a guest's request target as bounded, printable ASCII."""
    return text[:PATH_CHARACTERS].encode("unicode_escape").decode()[:PATH_CHARACTERS]


def log_decision(decision: RelayDecision) -> None:
    """Write a decision to the daemon's log."""
    structlog.get_logger("jam.relay").info(
        "relay",
        method=decision.method,
        path=decision.path,
        status=decision.status,
        upstream=decision.upstream_status,
        refused=decision.refused.value if decision.refused else None,
        up=decision.bytes_up,
        down=decision.bytes_down,
        seconds=round(decision.duration_s, 3),
    )
