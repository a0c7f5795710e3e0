"""The private Unix socket: where it lies, how it is made, and who may speak on it (SEC-6).

The path of a Unix socket is limited to 108 bytes, so it cannot lie in the app directory, which may be deep. It lies in a short
directory that only this user can enter, under a name derived from the app directory.
"""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from jamcore.control.failures import SocketOccupiedError, SocketPathTooLongError, UnsafeRuntimeDirectoryError
from jamcore.domain.limits import SOCKET_PATH_BYTES

PRIVATE_DIRECTORY = 0o700
PRIVATE_SOCKET = 0o600
BACKLOG = 512
"""Connections that wait to be accepted: a client makes one per request, and the kernel refuses beyond this at once."""
RUNTIME_VARIABLE = "XDG_RUNTIME_DIR"

_BIND_ATTEMPTS = 3
"""The directory may be removed by a daemon that ends just now; it is made again at most this often."""
_DIGEST_HEX = 16


def runtime_directory(chosen: Path | None, environ: Mapping[str, str]) -> Path:
    """Return the directory for sockets: the chosen one, ``$XDG_RUNTIME_DIR/jam``, or one below the temporary directory by uid.

    The session's directory counts only if it is this user's: under ``su`` the variable names another user's.
    """
    if chosen is not None:
        return chosen
    session = environ.get(RUNTIME_VARIABLE, "")
    if session.startswith("/"):
        try:
            found = Path(session).stat()
        except OSError:
            found = None
        if found is not None and stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
            return Path(session) / "jam"
    return Path(tempfile.gettempdir()) / f"jam-{os.geteuid()}"


def socket_path(app_directory: Path, runtime: Path) -> Path:
    """Return the socket of an app directory: its name is a digest, so that it is short and two directories never share one.

    Falls back to the system's own temporary directory when ``runtime`` is too long.

    Raises:
        SocketPathTooLongError: Even that is too long.
    """
    *_, last = places = [directory / _name(app_directory) for directory in (runtime, _fallback())]
    for path in places:
        if len(os.fsencode(path)) < SOCKET_PATH_BYTES:
            return path
    raise SocketPathTooLongError(path=str(last), limit=SOCKET_PATH_BYTES)


def former_places(app_directory: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return where an earlier life of an app directory's daemon may have had its socket, by what its own settings do not say."""
    session = runtime_directory(None, environ)
    return tuple(directory / _name(app_directory) for directory in (session, runtime_directory(None, {}), _fallback()))


def _name(app_directory: Path) -> str:
    real = os.fsencode(os.path.realpath(app_directory))
    return f"{hashlib.sha256(real).hexdigest()[:_DIGEST_HEX]}.sock"


def _fallback() -> Path:
    return Path("/tmp") / f"jam-{os.geteuid()}"  # noqa: S108 - require_private refuses what is not ours alone


def require_private(directory: Path) -> None:
    """Make the directory with mode 0700 if it is absent, and accept it only if nobody else can enter or replace it.

    Raises:
        UnsafeRuntimeDirectoryError: It is a symbolic link, not a directory, another user's, open to others, or cannot be made.
    """
    try:
        directory.mkdir(mode=PRIVATE_DIRECTORY)
    except FileExistsError:
        pass
    except OSError as error:
        raise UnsafeRuntimeDirectoryError(path=str(directory), reason=error.strerror or type(error).__name__) from error
    found = directory.lstat()
    if problem := _problem(found):
        raise UnsafeRuntimeDirectoryError(path=str(directory), reason=problem)


def listen(path: Path, *, replace_stale: bool) -> socket.socket:
    """Return a listening socket at ``path``, mode 0600 from its first moment; the caller owns it.

    Args:
        path: From :func:`socket_path`.
        replace_stale: Remove a socket that is there. Only who holds the lock of the app directory may say so: the lock is what proves
            that no daemon answers on it (OWN-7).

    Raises:
        UnsafeRuntimeDirectoryError: See :func:`require_private`.
        SocketOccupiedError: Something else is there, or a socket that may not be replaced.
    """
    for attempt in range(1, _BIND_ATTEMPTS + 1):
        require_private(path.parent)
        _make_room(path, replace_stale=replace_stale)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Linux takes the mode of the new name from the socket itself, so no umask has to be changed for the whole process.
            os.fchmod(listener.fileno(), PRIVATE_SOCKET)
            listener.bind(str(path))
            path.chmod(PRIVATE_SOCKET)
            listener.listen(BACKLOG)
            listener.setblocking(False)
        except FileNotFoundError:
            listener.close()
            if attempt == _BIND_ATTEMPTS:
                raise
        except BaseException:
            listener.close()
            raise
        else:
            return listener
    raise AssertionError("unreachable: the last attempt raises")


def forget(path: Path, listener: socket.socket) -> None:
    """Close the socket and remove its name, and its directory when that is empty: a daemon that ends leaves nothing."""
    listener.close()
    path.unlink(missing_ok=True)
    try:
        path.parent.rmdir()
    except OSError:
        return  # another daemon of this user still has a socket there


def forget_dead(path: Path) -> None:
    """Remove the socket of a daemon that was killed, if it is this user's and nobody listens on it. What is anything else stays."""
    try:
        found = path.lstat()
        if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
            probe.connect(str(path))
    except ConnectionRefusedError:
        with suppress(OSError):  # in a directory that is read-only it stays, and hurts nobody
            path.unlink(missing_ok=True)
    except OSError:
        return  # gone, out of reach, or alive and busy


def _problem(found: os.stat_result) -> str:
    if stat.S_ISLNK(found.st_mode):
        return "it is a symbolic link"
    if not stat.S_ISDIR(found.st_mode):
        return "it is not a directory"
    if found.st_uid != os.geteuid():
        return f"it belongs to uid {found.st_uid}"
    if stat.S_IMODE(found.st_mode) & 0o077:
        return f"others may enter it: mode {stat.S_IMODE(found.st_mode):04o}"
    return ""


def _make_room(path: Path, *, replace_stale: bool) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
        raise SocketOccupiedError(path=str(path), reason="it is not a socket of this user")
    if not replace_stale:
        raise SocketOccupiedError(path=str(path), reason="a daemon may be listening on it")
    path.unlink()
