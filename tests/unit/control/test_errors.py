"""Errors over the wire: by code and family, never by wording."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar
from uuid import UUID

import pytest

from jamcore.control.errors import body_of, status_of
from jamcore.control.failures import PeerRefusedError, RemoteFaultError, RemoteRefusalError
from jamcore.domain.cells import UnknownProviderError
from jamcore.domain.continuity import CheckpointCorruptError, ContinuityRefusedError
from jamcore.domain.errors import ConflictError, FaultError, IllegalTransitionError, InvalidInputError, JamError, NotFoundError
from jamcore.domain.requests import TurnRequest

if TYPE_CHECKING:
    from tests.unit.control.conftest import Ask, Served

STATUSES = [
    (InvalidInputError(field="f", problem="p"), 400),
    (NotFoundError(kind="room", ref="r"), 404),
    (ConflictError(kind="room", ref="r", problem="p"), 409),
    (IllegalTransitionError(machine="m", ref="r", old="a", new="b"), 409),
    (UnknownProviderError(provider="p", known=("codex",)), 422),
    (ContinuityRefusedError(session="s", failure="missing", detail=""), 422),
    (PeerRefusedError(peer_uid="1"), 403),
    (CheckpointCorruptError(checkpoint="c", detail="d"), 500),
    (FaultError(), 500),
    (JamError(), 500),
]


@pytest.mark.guarantee("CTRL-3")
@pytest.mark.parametrize(("error", "status"), STATUSES, ids=lambda value: getattr(value, "code", str(value)))
def test_the_status_follows_from_code_and_family(error: JamError, status: int) -> None:
    """A refusal is a 4xx, a fault a 5xx, and nothing else is looked at."""
    assert status_of(error) == status


def test_the_message_is_a_sentence_without_references() -> None:
    """A person reads the class's own sentence; ids of guarantees stay in the source."""
    body = body_of(ContinuityRefusedError(session="s", failure="missing", detail=""))
    assert body.message == "The exact conversation cannot be brought back, so nothing was started"
    assert body.context == {"session": "s", "failure": "missing", "detail": "", "room": ""}


@pytest.mark.anyio
@pytest.mark.guarantee("CTRL-3")
@pytest.mark.parametrize(("error", "status"), STATUSES, ids=lambda value: getattr(value, "code", str(value)))
async def test_the_client_raises_what_the_daemon_raised(served: Served, error: JamError, status: int) -> None:
    """Code, hint and context arrive unchanged; refusal and fault stay apart."""
    served.fake.fail_with = error
    kind = RemoteRefusalError if status < 500 else RemoteFaultError
    with pytest.raises(kind) as raised:
        await served.client.health()
    assert (raised.value.code, raised.value.hint, raised.value.context()) == (error.code, error.hint, error.context())


@pytest.mark.anyio
@pytest.mark.guarantee("CTRL-3")
async def test_what_nobody_foresaw_leaves_without_details(served: Served, ask: Ask, caplog: pytest.LogCaptureFixture) -> None:
    """The client learns the code alone; the log has the rest."""
    served.fake.fail_with = RuntimeError("password=hunter2")
    said = await ask("GET", "/v1/health")
    assert (said.status, said.json["code"], said.json["context"]) == (500, "fault.internal", {})
    assert "hunter2" not in json.dumps(said.json)
    assert "hunter2" in caplog.text


@pytest.mark.anyio
@pytest.mark.guarantee("CTRL-3")
async def test_context_is_bounded(served: Served, ask: Ask) -> None:
    """A fault with a megabyte of detail becomes a few hundred characters."""

    @dataclass(eq=False)
    class LoudError(FaultError):
        code: ClassVar[str] = "fault.loud"
        detail: str

    served.fake.fail_with = LoudError(detail="x" * 1_000_000)
    assert len((await ask("GET", "/v1/health")).json["context"]["detail"]) <= 400


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("method", "target", "body", "field"),
    [
        ("POST", "/v1/rooms", b"", "body"),
        ("POST", "/v1/rooms", b"[]", "body"),
        ("POST", "/v1/rooms", b"{not json", "body"),
        ("POST", "/v1/rooms", b'{"id": "no", "provider": "codex"}', "body.id"),
        (
            "POST",
            "/v1/rooms",
            b'{"id": "00000000-0000-0000-0000-000000000001", "provider": "codex", "endpoint": {}}',
            "body.endpoint.origin",
        ),
        ("POST", "/v1/rooms", b'{"id": "00000000-0000-0000-0000-000000000001", "provider": "codex", "colour": 1}', "body.colour"),
        ("POST", "/v1/rooms/x/turns", b'{"id": "00000000-0000-0000-0000-000000000001", "text": "  "}', "body.text"),
        ("GET", "/v1/rooms/%00x", b"", "ref"),
        ("GET", "/v1/rooms/a%0Ab", b"", "ref"),
        ("GET", f"/v1/rooms/{'a' * 201}", b"", "ref"),
        ("GET", "/v1/rooms/%1b%5B2J", b"", "ref"),
        ("POST", f"/v1/providers/{'p' * 201}/install", b"", "name"),
        ("GET", "/v1/rooms/x/events?after=-1", b"", "after"),
        ("GET", "/v1/rooms/x/events?after=99999999999999999999999", b"", "after"),
        ("GET", "/v1/rooms/x/events?after=%D9%A1", b"", "after"),
        ("GET", "/v1/rooms/x/events?follow=yes", b"", "follow"),
    ],
)
async def test_bad_input_is_named(served: Served, ask: Ask, method: str, target: str, body: bytes, field: str) -> None:
    """A wrong request is a typed 400 that names the field, and no service is asked."""
    said = await ask(method, target, body)
    assert (said.status, said.json["code"], said.json["context"]["field"]) == (400, "input.invalid", field)
    assert said.json["hint"]
    assert served.fake.calls == []


@pytest.mark.anyio
@pytest.mark.guarantee("ENV-4")
async def test_a_refused_secret_is_not_repeated(ask: Ask, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the answer nor the log holds the value that was wrong."""
    caplog.set_level(logging.DEBUG)
    for body in (b'{"value": ["sk-verysecret"]}', b'{"valu": "sk-verysecret"}', b'{"value": "sk-verysecret"'):
        said = await ask("PUT", "/v1/credentials/openai", body)
        assert said.status == 400
        assert "verysecret" not in json.dumps(said.json) + caplog.text


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("method", "target", "body", "status", "code"),
    [
        ("GET", "/v2/rooms", b"", 404, "input.no_such_route"),
        ("PATCH", "/v1/rooms", b"", 405, "input.method_not_allowed"),
        ("POST", "/v1/rooms", b" " * (64 << 10) + b"{}", 413, "input.too_large"),
        ("POST", "/v1/rooms/x/turns", b" " * (8 << 20) + b"{}", 413, "input.too_large"),
    ],
)
async def test_what_the_server_itself_refuses_has_the_same_form(
    ask: Ask, method: str, target: str, body: bytes, status: int, code: str
) -> None:
    """Unknown routes, methods and oversized bodies are answered with a typed body too."""
    said = await ask(method, target, body)
    assert (said.status, said.json["code"]) == (status, code)


@pytest.mark.anyio
async def test_the_longest_message_is_accepted_and_one_more_character_is_not(served: Served) -> None:
    """2**20 characters pass, whatever their escaped size; the bound is on characters, as the provider counts them."""
    served.fake.fail_with = NotFoundError(kind="room", ref="x")
    with pytest.raises(RemoteRefusalError) as reached:
        await served.client.say("x", TurnRequest(id=UUID(int=1), text="\x01" * (1 << 20)))
    assert reached.value.code == "input.not_found"
    with pytest.raises(RemoteRefusalError) as refused:
        await served.client.say("x", TurnRequest(id=UUID(int=1), text="a" * ((1 << 20) + 1)))
    assert refused.value.code == "input.invalid"


@pytest.mark.anyio
async def test_a_client_of_another_interface_is_told_so(served: Served, ask: Ask) -> None:
    """Another protocol number is refused by type, except for asking who answers and for stopping it."""
    said = await ask("GET", "/v1/rooms", Jam_Api="99")
    assert (said.status, said.json["code"]) == (422, "daemon.other_version")
    assert (await ask("GET", "/v1/health", Jam_Api="99")).status == 200
    assert (await ask("POST", "/v1/shutdown", Jam_Api="99")).status == 202
    assert [name for name, _ in served.fake.calls] == ["health", "shutdown"]
