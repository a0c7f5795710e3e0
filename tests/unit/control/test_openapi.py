"""The OpenAPI document, from the same rows and records as the application (CTRL-2)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from jamcore.control.app import ROUTES
from jamcore.control.openapi import document

if TYPE_CHECKING:
    from tests.unit.control.conftest import Ask

pytestmark = pytest.mark.guarantee("CTRL-2")


def operations() -> dict[str, Any]:
    return {op["operationId"]: op for path in document(ROUTES)["paths"].values() for op in path.values()}


def test_every_route_is_documented() -> None:
    """Names are unique, and each operation has a summary and both kinds of answer."""
    assert set(operations()) == {route.name for route in ROUTES}
    assert len(ROUTES) == len({route.name for route in ROUTES})
    for operation in operations().values():
        assert operation["summary"]
        assert {"default"} < set(operation["responses"])


def test_every_reference_leads_somewhere() -> None:
    """The document is whole: no schema is named that it does not hold."""
    whole = document(ROUTES)
    schemas = set(whole["components"]["schemas"])
    text = json.dumps(whole)
    named = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert named <= schemas
    assert {"RoomView", "RoomRequest", "RoomEvent", "ErrorBody"} <= named


def test_bodies_and_parameters_are_there() -> None:
    """What a path names is a parameter, and what a route reads is a body."""
    say = operations()["say"]
    assert [each["name"] for each in say["parameters"]] == ["ref"]
    assert say["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/TurnRequest")
    assert "text/event-stream" in operations()["stream_events"]["responses"]["200"]["content"]


@pytest.mark.anyio
async def test_the_daemon_serves_it(ask: Ask) -> None:
    """At one path, as JSON."""
    said = await ask("GET", "/v1/openapi.json")
    assert said.status == 200
    assert said.json == json.loads(json.dumps(document(ROUTES)))
