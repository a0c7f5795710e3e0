"""Which requests a provider may name for its model endpoint: exact ones only, so that the relay interprets nothing (SEC-4, PLAN-5)."""

from __future__ import annotations

import pytest

from jamcore.domain.provider_rules import endpoint_path_ok


@pytest.mark.guarantee("SEC-4", "PLAN-5")
@pytest.mark.parametrize(
    "pair",
    ["POST /v1/responses", "GET /v1/models", "POST /v1/messages?beta=true", "POST /v1beta/m:stream?alt=sse&key=", "GET /a.b/c"],
)
def test_an_exact_request_can_be_named(pair: str) -> None:
    """A method and a path, and the query with which a program always asks."""
    assert endpoint_path_ok(pair)


@pytest.mark.guarantee("SEC-4", "PLAN-5")
@pytest.mark.parametrize(
    "pair",
    [
        "/v1/messages",
        "post /v1/messages",
        "POST v1/messages",
        "POST /v1/../messages",
        "POST /v1//messages",
        "POST /v1/%6dessages",
        "POST /v1/messages?",
        "POST /v1/messages?beta",
        "POST /v1/messages?=true",
        "POST /v1/messages?beta=true&",
        "POST /v1/messages?beta=true?v=2",
        "POST /v1/messages?beta=%74rue",
        "POST /v1/messages?beta=*",
        "POST /v1/messages?beta=a/../b",
        "POST /v1/messages?beta=true#top",
        "POST /v1/messages#top",
        "POST /v1/messages?beta=true HTTP/1.1",
        "POST /v1/messages?beta=true\n",
        "POST /..?beta=true",
    ],
)
def test_what_would_need_interpretation_cannot_be_named(pair: str) -> None:
    """No pattern, no escape, no empty part, no fragment, and nothing that leads elsewhere."""
    assert not endpoint_path_ok(pair)
