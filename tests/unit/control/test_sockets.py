"""The private socket: short, ours alone, and never taken from somebody else (SEC-6)."""

from __future__ import annotations

import errno
import os
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import anyio
import pytest
from aiohttp import web

from jamcore.control import wire
from jamcore.control.app import build_app
from jamcore.control.failures import ForeignDaemonError, SocketOccupiedError, SocketPathTooLongError, UnsafeRuntimeDirectoryError
from jamcore.control.peer import peer_uid
from jamcore.control.reach import Reach
from jamcore.control.server import _forget_former
from jamcore.control.sockets import forget, forget_dead, listen, require_private, runtime_directory, socket_path
from jamcore.testing.fake_daemon.daemon import running

if TYPE_CHECKING:
    from tests.unit.control.conftest import Served

pytestmark = [pytest.mark.guarantee("SEC-6"), pytest.mark.unprivileged]
NOBODY = 65534


@pytest.fixture
def umask() -> Iterator[None]:
    """An open umask, so that nothing is private by luck."""
    old = os.umask(0)
    yield
    os.umask(old)


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory that leaves room for a socket's path, wherever pytest's own lies."""
    with TemporaryDirectory(prefix="jam-", dir="/tmp") as directory:
        yield Path(directory)


def test_the_socket_is_private(tmp_path: Path, umask: None) -> None:
    """0600 in 0700 whatever the umask, and gone with its directory at the end."""
    path = tmp_path / "run" / "a.sock"
    listener = listen(path, replace_stale=False)
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.lstat().st_mode) == 0o700
    forget(path, listener)
    assert not path.parent.exists()


def test_an_end_leaves_the_sockets_of_others(tmp_path: Path) -> None:
    """Two daemons of one user share the directory; the first to end takes its own socket alone."""
    first, second = tmp_path / "run" / "a.sock", tmp_path / "run" / "b.sock"
    one, two = listen(first, replace_stale=False), listen(second, replace_stale=False)
    forget(first, one)
    assert second.exists()
    forget(second, two)


def test_a_directory_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """Also when it leads to a private directory of one's own: a link can be turned."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "run").symlink_to(tmp_path / "real")
    with pytest.raises(UnsafeRuntimeDirectoryError) as refused:
        require_private(tmp_path / "run")
    assert "symbolic link" in refused.value.reason


@pytest.mark.parametrize("mode", [0o701, 0o710, 0o750, 0o777, 0o1777])
def test_a_directory_that_others_can_enter_is_refused(tmp_path: Path, mode: int) -> None:
    """It is not tightened silently: somebody may be in it already."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(mode)
    with pytest.raises(UnsafeRuntimeDirectoryError):
        require_private(tmp_path / "run")


@pytest.mark.needs("root")
def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    """Whoever made the predictable name first owns what happens in it."""
    (tmp_path / "run").mkdir(mode=0o700)
    os.chown(tmp_path / "run", NOBODY, NOBODY)
    with pytest.raises(UnsafeRuntimeDirectoryError) as refused:
        require_private(tmp_path / "run")
    assert refused.value.reason == f"it belongs to uid {NOBODY}"


def test_a_file_or_nothing_to_make_it_in_is_refused(tmp_path: Path) -> None:
    """What is not a directory, or cannot become one, is named."""
    (tmp_path / "run").write_text("")
    for path in (tmp_path / "run", tmp_path / "absent" / "run"):
        with pytest.raises(UnsafeRuntimeDirectoryError):
            require_private(path)


def test_a_stale_socket_is_replaced_only_by_who_holds_the_lock(tmp_path: Path) -> None:
    """Without the lock a socket in the way may be a living daemon's."""
    path = tmp_path / "run" / "a.sock"
    dead = listen(path, replace_stale=False)
    dead.close()
    with pytest.raises(SocketOccupiedError):
        listen(path, replace_stale=False)
    forget(path, listen(path, replace_stale=True))


def test_only_a_dead_daemon_s_socket_is_forgotten(tmp_path: Path) -> None:
    """One that is listened on, a file and a link to a dead one stay; what is absent is fine."""
    alive, dead, link, file = (tmp_path / "run" / name for name in ("a.sock", "b.sock", "link", "file"))
    listener = listen(alive, replace_stale=False)
    listen(dead, replace_stale=False).close()
    link.symlink_to(dead)
    file.touch()
    for path in (alive, link, file, tmp_path / "absent"):
        forget_dead(path)
    assert sorted(path.name for path in alive.parent.iterdir()) == ["a.sock", "b.sock", "file", "link"]
    forget_dead(dead)
    assert not dead.exists()
    listener.close()


def test_a_dead_socket_that_cannot_be_removed_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime directory of an earlier session may be read-only by now: that is no reason for a daemon not to start."""
    dead = tmp_path / "run" / "b.sock"
    listen(dead, replace_stale=False).close()

    def refuse(_path: Path, *, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, "read-only" if missing_ok else "missing")

    monkeypatch.setattr(Path, "unlink", refuse)
    forget_dead(dead)
    assert dead.exists()


def test_a_dead_socket_of_the_same_app_directory_is_forgotten_wherever_it_lies(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A life that was killed in a session with another runtime directory; what lies beside it is another daemon's and stays."""
    app, session, temporary = (short / name for name in ("app", "session", "temporary"))
    for directory in (session, temporary):
        directory.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(session))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    elsewhere = {socket_path(app, place) for place in (session / "jam", temporary / f"jam-{os.geteuid()}")}
    for path in elsewhere:
        listen(path, replace_stale=False).close()
    beside = socket_path(short / "another", session / "jam")
    listen(beside, replace_stale=False).close()
    path = socket_path(app, short / "chosen")
    living = listen(path, replace_stale=False)
    _forget_former(app, path)
    assert [found for found in elsewhere if found.exists()] == []
    assert path.exists()
    assert beside.exists()
    forget_dead(beside)
    forget(path, living)


@pytest.mark.parametrize("kind", ["file", "link", "directory"])
def test_what_is_no_socket_is_never_removed(tmp_path: Path, kind: str) -> None:
    """A file, a link or a directory in the socket's place stays, lock or not."""
    (tmp_path / "run").mkdir(mode=0o700)
    path = tmp_path / "run" / "a.sock"
    {"file": path.touch, "link": lambda: path.symlink_to("/nowhere"), "directory": path.mkdir}[kind]()
    with pytest.raises(SocketOccupiedError):
        listen(path, replace_stale=True)
    assert os.path.lexists(path)


def test_a_deep_app_directory_has_a_short_socket(tmp_path: Path) -> None:
    """The path depends on the app directory by a digest alone, so its depth does not matter."""
    deep = tmp_path.joinpath(*["d" * 100] * 5)
    deep.mkdir(parents=True)
    path = socket_path(deep, tmp_path / "run")
    assert len(os.fsencode(path)) < 108
    assert path != socket_path(deep.parent, tmp_path / "run")
    (tmp_path / "link").symlink_to(deep)
    assert path == socket_path(tmp_path / "link", tmp_path / "run")


def test_a_long_runtime_directory_falls_back(tmp_path: Path) -> None:
    """A runtime directory that is too long itself is not used."""
    path = socket_path(tmp_path, Path("/" + "r" * 107))
    assert path.parent == Path(f"/tmp/jam-{os.geteuid()}")


def test_no_short_path_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing fits the error names the setting."""
    monkeypatch.setattr("jamcore.control.sockets.SOCKET_PATH_BYTES", 20)
    with pytest.raises(SocketPathTooLongError) as refused:
        socket_path(tmp_path, tmp_path)
    assert "JAM_RUNTIME_DIRECTORY" in refused.value.hint


def test_the_session_directory_counts_only_if_it_is_ours(tmp_path: Path) -> None:
    """XDG_RUNTIME_DIR is used when it is a directory of this user, and an explicit choice wins over it."""
    assert runtime_directory(None, {"XDG_RUNTIME_DIR": str(tmp_path)}) == tmp_path / "jam"
    assert runtime_directory(Path("/x"), {"XDG_RUNTIME_DIR": str(tmp_path)}) == Path("/x")
    for other in ("", "relative", str(tmp_path / "absent")):
        assert runtime_directory(None, {"XDG_RUNTIME_DIR": other}).name == f"jam-{os.geteuid()}"


def test_the_kernel_names_the_peer(tmp_path: Path) -> None:
    """The uid comes from the kernel, not from the peer."""
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert peer_uid(ours) == os.geteuid()


@pytest.mark.anyio
async def test_another_uid_is_refused_by_type(served: Served, tmp_path: Path) -> None:
    """A daemon of another user answers this one with a refusal on every route, also on those that do not exist."""
    runner = web.AppRunner(build_app(served.fake.services(), owner_uid=os.geteuid() + 1))
    await runner.setup()
    try:
        await web.UnixSite(runner, str(tmp_path / "s")).start()
        for target in ("/v1/health", "/nowhere"):
            async with wire.exchange(await wire.connect(tmp_path / "s"), wire.Request("GET", target, {})) as answer:
                assert answer.status == 403
                assert b"control.peer_refused" in await answer.read()
    finally:
        await runner.cleanup()
    assert served.fake.calls == []


@pytest.mark.anyio
@pytest.mark.needs("root")
async def test_a_real_process_of_another_user_is_refused(served: Served) -> None:
    """Even with every mode opened by hand, a process under another uid gets no service."""
    for path in (served.socket, *list(served.socket.parents)[:-1]):
        if path.lstat().st_uid == 0 and str(path).startswith(str(served.directory.parents[3])):
            path.chmod(0o777)
    program = (
        "import os, socket, sys; os.setuid(65534); s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        "s.sendall(b'GET /v1/health HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n');"
        "print(b''.join(iter(lambda: s.recv(4096), b'')).decode())"
    )
    done = await anyio.run_process([sys.executable, "-c", program, str(served.socket)], check=False)
    assert b" 403 " in done.stdout.splitlines()[0], (done.stdout, done.stderr)
    assert b"65534" in done.stdout
    assert served.fake.calls == []


@pytest.mark.anyio
async def test_a_client_sends_nothing_to_another_users_daemon(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client asks the kernel who listens before it sends a credential or a message."""
    monkeypatch.setattr("jamcore.control.reach.peer_uid", lambda _: os.geteuid() + 1)
    with pytest.raises(ForeignDaemonError):
        await Reach(served.directory, environ={}).open()
    assert served.fake.calls == []


@pytest.mark.anyio
async def test_serving_leaves_nothing(app_directory: Path) -> None:
    """The socket, its directory and the daemon's address go with the daemon; the address was private."""
    async with running(app_directory, app_directory / "run"):
        assert stat.S_IMODE((app_directory / "daemon.json").stat().st_mode) == 0o600
    assert list(app_directory.iterdir()) == []


@pytest.mark.anyio
async def test_a_dead_daemons_socket_is_taken_over(app_directory: Path) -> None:
    """After a SIGKILL the socket's name is still there; the next daemon of the same directory replaces it."""
    path = socket_path(app_directory, app_directory / "run")
    listen(path, replace_stale=False).close()
    async with running(app_directory, app_directory / "run") as (_, taken):
        assert taken == path
