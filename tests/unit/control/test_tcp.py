"""The control interface over TCP: only when asked for, on loopback alone, and behind a token, a host and an origin."""

from __future__ import annotations

import json
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import anyio
import pytest

from jamcore.control.failures import SettingsInvalidError, TcpUnusableError, TokenUnusableError
from jamcore.control.loopback import PLACE, Doorkeeper, LoopbackAddress, control_token, loopback_address
from jamcore.control.server import serving
from jamcore.control.settings import load_settings
from jamcore.system.files import Files
from jamcore.testing.fake_daemon.daemon import services_of
from jamcore.testing.fake_daemon.state import FakeServices

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.guarantee("CTRL-2")]


@pytest.fixture
async def address(app_directory: Path, free_tcp_port: int) -> AsyncIterator[LoopbackAddress]:
    """The fake behind the real server, on its socket and on a port."""
    found = loopback_address(str(free_tcp_port))
    async with anyio.create_task_group() as tasks:
        fake = FakeServices(tasks, app_directory, services_of)
        async with serving(fake.services(), app_directory=app_directory, files=Files(), runtime=app_directory / "run", tcp=found):
            yield found
        tasks.cancel_scope.cancel()


async def said(address: LoopbackAddress, method: str = "GET", path: str = "/v1/health", **headers: str) -> tuple[int, str]:
    """Send a request with headers, ``_`` for ``-``; return the status and the error's code."""
    async with (
        aiohttp.ClientSession() as session,
        session.request(
            method, f"http://{address}{path}", headers={name.replace("_", "-"): value for name, value in headers.items()}
        ) as answer,
    ):
        if answer.status == 401:
            assert answer.headers["WWW-Authenticate"] == "Bearer"
        return answer.status, json.loads(await answer.read()).get("code", "")


async def test_without_the_token_nothing_is_answered(address: LoopbackAddress, app_directory: Path) -> None:
    """Neither a question nor a change nor a path that does not exist; with it, from the file that is private, all are."""
    path = app_directory / PLACE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    token = path.read_text().strip()
    assert len(token) >= 32
    for shown in ({}, {"Authorization": "Bearer"}, {"Authorization": f"Basic {token}"}, {"Authorization": f"Bearer {token[:-1]}"}):
        for method, target in (("GET", "/v1/health"), ("POST", "/v1/shutdown"), ("GET", "/v1/openapi.json"), ("GET", "/nowhere")):
            assert await said(address, method, target, **shown) == (401, "control.token_refused"), (shown, target)
    assert await said(address, Authorization=f"Bearer {token}") == (200, "")
    assert await said(address, path="/nowhere", Authorization=f"Bearer {token}") == (404, "input.no_such_route")


async def test_another_name_or_another_page_is_refused(address: LoopbackAddress, app_directory: Path) -> None:
    """A name that was made to lead here, and a page of another origin, even with the token."""
    shown = {"Authorization": f"Bearer {control_token(app_directory, Files())}"}
    for host in ("evil.example", f"evil.example:{address.port}", "127.0.0.1", f"127.0.0.1:{address.port + 1}", "localhost"):
        assert await said(address, Host=host, **shown) == (403, "control.host_refused"), host
    for origin in ("http://evil.example", "null", f"https://{address}", f"http://localhost:{address.port + 1}", "http://localhost"):
        assert await said(address, Origin=origin, **shown) == (403, "control.origin_refused"), origin
    for origin in (f"http://{address}", f"http://localhost:{address.port}"):
        assert await said(address, Origin=origin, Host=f"localhost:{address.port}", **shown) == (200, "")


async def test_a_port_that_is_taken_is_a_refusal(app_directory: Path) -> None:
    """By name of the setting's address; the socket is not left behind."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = LoopbackAddress("127.0.0.1", taken.getsockname()[1])
        async with anyio.create_task_group() as tasks:
            fake = FakeServices(tasks, app_directory, services_of)
            with pytest.raises(TcpUnusableError):
                async with serving(
                    fake.services(), app_directory=app_directory, files=Files(), runtime=app_directory / "run", tcp=address
                ):
                    pass
    assert not (app_directory / "daemon.json").exists()
    assert not (app_directory / "run").exists()


def test_nothing_listens_unless_it_was_asked_for(tmp_path: Path) -> None:
    """The setting is absent by default; what it accepts is loopback alone."""
    assert load_settings(tmp_path, {}).settings.tcp() is None
    for text, expected in (
        ("8790", "127.0.0.1:8790"),
        (":8790", "127.0.0.1:8790"),
        ("localhost:8790", "127.0.0.1:8790"),
        ("127.0.0.2:1", "127.0.0.2:1"),
        ("[::1]:8790", "[::1]:8790"),
    ):
        assert str(load_settings(tmp_path, {}, listen_tcp=text).settings.tcp()) == expected
    for text in ("0.0.0.0:8790", "192.0.2.1:8790", "[::]:8790", "example.org:8790", "0", "65536", "127.0.0.1", "x", "1.2.3.4"):
        with pytest.raises(SettingsInvalidError) as refused:
            load_settings(tmp_path, {}, listen_tcp=text)
        assert refused.value.option == "listen_tcp"


def test_a_token_that_others_may_read_is_refused(app_directory: Path) -> None:
    """Nothing is repaired silently: it may have been read. A link and an empty file are no token either."""
    files = Files()
    token = control_token(app_directory, files)
    assert control_token(app_directory, files) == token
    path = app_directory / PLACE
    path.chmod(0o640)
    with pytest.raises(TokenUnusableError):
        control_token(app_directory, files)
    path.chmod(0o600)
    path.write_text("\n")
    with pytest.raises(TokenUnusableError):
        control_token(app_directory, files)
    path.unlink()
    path.symlink_to(app_directory / "elsewhere")
    with pytest.raises(TokenUnusableError):
        control_token(app_directory, files)
    path.unlink()
    assert control_token(app_directory, files) != token
    assert token not in repr(Doorkeeper(loopback_address("1"), token))
