"""The fake daemon in this process, and clients of it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import anyio
import pytest

from jamcore.control import wire
from jamcore.control.client import JamClient
from jamcore.control.reach import Reach
from jamcore.testing.fake_daemon.daemon import running
from jamcore.testing.fake_daemon.state import FakeServices


class Said(NamedTuple):
    """A raw answer."""

    status: int
    headers: Mapping[str, str]
    json: Any


class Ask(Protocol):
    """Sends one raw request to the served fake."""

    async def __call__(self, method: str, target: str, body: bytes = b"", **headers: str) -> Said:
        """Return the answer."""


@pytest.fixture
def ask(served: Served) -> Ask:
    """Send raw requests, as a client that is not Jam's own would; header names have ``_`` for ``-``."""

    async def send(method: str, target: str, body: bytes = b"", **headers: str) -> Said:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        async with wire.exchange(await wire.connect(served.socket), wire.Request(method, target, fields, body)) as answer:
            return Said(answer.status, answer.headers, json.loads(await answer.read()))

    return send


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    """Wait until a condition holds, and fail when it does not within seconds."""

    async def wait(condition: Callable[[], bool]) -> None:
        with anyio.fail_after(10):
            while not condition():  # noqa: ASYNC110 - what is waited for cannot set an event: it lies behind a socket
                await anyio.sleep(0.002)

    return wait


@pytest.fixture
def fake_command() -> tuple[str, ...]:
    """How the fake is run as a program."""
    return (sys.executable, "-P", "-m", "jamcore.testing.fake_daemon")


@pytest.fixture
def app_directory(tmp_path: Path) -> Path:
    """A private app directory."""
    directory = tmp_path / "app"
    directory.mkdir(mode=0o700)
    return directory


class Served(NamedTuple):
    """A running fake."""

    fake: FakeServices
    client: JamClient
    socket: Path
    directory: Path


@pytest.fixture
async def served(app_directory: Path) -> AsyncIterator[Served]:
    """The fake behind the real server, and a client of it."""
    async with running(app_directory, app_directory / "run") as (fake, path):
        yield Served(fake, JamClient(Reach(app_directory, environ={})), path, app_directory)


@pytest.fixture
def make_client(app_directory: Path) -> Callable[..., JamClient]:
    """Make a client with other ways to the daemon."""

    def make(**options: object) -> JamClient:
        return JamClient(Reach(app_directory, environ=os.environ, **options))  # type: ignore[arg-type]

    return make
