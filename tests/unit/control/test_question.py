"""The quick question: the usual case is answered, and everything else is left to the typed client."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from anyio import to_thread

from jamcore.control import question
from jamcore.control.directory import RECORD
from jamcore.control.versions import API_VERSION, jam_version

if TYPE_CHECKING:
    from tests.unit.control.conftest import Served

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

WHOLE = b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"items":[]}'


def write_record(directory: Path, **changes: object) -> None:
    values = {"socket": str(directory / "s"), "version": jam_version(), "api": API_VERSION, **changes}
    (directory / RECORD).write_text(json.dumps(values))


@contextmanager
def answering(directory: Path, answer: bytes) -> Iterator[None]:
    """Listen in a directory, answer one request with these bytes, and close."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(directory / "s"))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        thread.join(10)


async def test_it_is_the_answer_that_the_typed_client_gets(served: Served) -> None:
    """Value for value: a list that is printed as it came is the list of the records."""
    said = await to_thread.run_sync(question.ask, served.directory, "/v1/providers")
    assert said == {"items": [view.model_dump(mode="json") for view in await served.client.providers()]}
    assert said["items"]


async def test_a_refusal_is_left_to_the_typed_client(served: Served) -> None:
    """What is not a success has a code and a hint, which only the typed client shows."""
    assert await to_thread.run_sync(question.ask, served.directory, "/v1/rooms/nobody-knows-it") is None


def test_a_whole_answer_is_taken(tmp_path: Path) -> None:
    """The bytes of a good answer, for comparison with those below."""
    write_record(tmp_path)
    with answering(tmp_path, WHOLE):
        assert question.ask(tmp_path, "/v1/rooms") == {"items": []}


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        WHOLE[:-1],
        WHOLE + b" ",
        WHOLE.replace(b"Content-Length: 12\r\n", b""),
        WHOLE.replace(b"200 OK", b"500 No"),
        WHOLE.replace(b"items", b'it"ms'),
    ],
    ids=["nothing", "cut", "longer", "without a length", "a fault", "no JSON"],
)
def test_an_answer_that_is_not_whole_and_good_is_none(tmp_path: Path, answer: bytes) -> None:
    """Nothing is guessed: half a list would look like a whole one."""
    write_record(tmp_path)
    with answering(tmp_path, answer):
        assert question.ask(tmp_path, "/v1/rooms") is None


@pytest.mark.parametrize("change", [{"version": "0.0.0"}, {"api": API_VERSION + 1}, {"socket": 1}])
def test_a_daemon_of_another_release_is_not_asked(tmp_path: Path, change: dict[str, object]) -> None:
    """Its answers may have another form; the typed client says what to do about it."""
    write_record(tmp_path, **change)
    assert question.ask(tmp_path, "/v1/rooms") is None


@pytest.mark.parametrize("content", [None, "", "[]", "{}", "\x00"])
def test_where_nobody_can_be_found_it_is_none(tmp_path: Path, content: str | None) -> None:
    """No record, or one that cannot be read."""
    if content is not None:
        (tmp_path / RECORD).write_text(content)
    assert question.ask(tmp_path, "/v1/rooms") is None


def test_where_nobody_listens_it_is_none(tmp_path: Path) -> None:
    """The record of a daemon that died."""
    write_record(tmp_path)
    assert question.ask(tmp_path, "/v1/rooms") is None
