"""Copies a guest's databases, in the sandbox and as the guest's own user. Standard library only (CONT-5).

The daemon never imports this: it hands the text to a Python in the sandbox (``-I -S -c``). What costs a start time (``re``, ``json``) is
not imported. What has to be done before the guest stands still is done when ``ready`` is said. A copy is made with SQLite's own backup
into a fresh file, so that equal databases have equal copies; that all are made is said at once, and they are checked and sent after that.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable

from jamcore.continuity.databases.guest.place import CHUNK, OWN, STAGED, Home, RefusedError, Request, put, say, serve

HEADER = 100
MAGIC = b"SQLite format 3\0"
PLAIN = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-"
BUSY = (5, 6)
"""SQLite's codes for a lock that somebody else holds."""


def copy(home: Home, _own: int, request: Request) -> None:
    """Copy everything that is asked for when the word comes, and say so; then check the copies and send them."""
    say("ready")
    if not os.read(0, 1):
        return
    limits = request.limits
    copied: list[tuple[bytes, bytes, int]] = []
    room = limits["bytes"]
    for path in chosen(home, request):
        number = len(copied)
        if number >= limits["databases"]:
            raise RefusedError(path, "more databases than a checkpoint may hold")
        staged = b"/".join((home.path, OWN, STAGED, b"%d" % number))
        page, mode = back_up(home, path, staged, room, limits["wait_ms"] / 1000)
        size = os.stat(staged).st_size
        room -= size
        copied.append((path, staged, size))
        say("copy", path.hex(), size, page, mode)
    say("copied", len(copied))
    for path, staged, size in copied:
        if limits["check"]:
            check(path, staged)
        say("sending", path.hex())
        send(staged, size)
        os.unlink(staged)
    say("done")


def chosen(home: Home, request: Request) -> list[bytes]:
    """Return the paths to copy: each that is named exactly, and whatever a pattern with stars finds that is not empty.

    They are ordered name by name, as in a generation's table.
    """
    paths: dict[bytes, bool] = {}
    for pattern in request.values["pattern"]:
        for path in home.find(pattern):
            exact = path == pattern.encode()
            paths[path] = paths.get(path, False) or exact
    for text in request.values["path"]:
        paths[bytes.fromhex(text)] = True
    return [path for path in sorted(paths, key=lambda path: path.split(b"/")) if paths[path] or holds_something(home, path)]


def holds_something(home: Home, path: bytes) -> bool:
    """Say whether a name that a pattern found is more than an empty file: a database that nothing was written to yet."""
    try:
        seen = os.lstat(home.path + b"/" + path)
    except OSError:
        return False
    return not (stat.S_ISREG(seen.st_mode) and seen.st_size == 0) and not stat.S_ISDIR(seen.st_mode)


def back_up(home: Home, path: bytes, staged: bytes, room: int, wait_s: float) -> tuple[int, int]:
    """Make one copy, and return its page size and the mode of the original."""
    mode = look(home, path, room)
    try:
        source = connect(b"file:" + quoted(home.path + b"/" + path) + b"?mode=rw", wait_s)
        try:
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM sqlite_master").fetchone()
            (pages,), (page,) = (source.execute(f"PRAGMA {what}").fetchone() for what in ("page_count", "page_size"))
            if pages * page > room:
                raise RefusedError(path, "it is larger than a checkpoint may hold")
            target = connect(b"file:" + quoted(staged) + b"?mode=rwc", 0)
            try:
                target.execute("PRAGMA journal_mode=OFF")
                target.execute("PRAGMA synchronous=OFF")
                source.backup(target, progress=never_waiting(path))
            finally:
                target.close()
        finally:
            source.close()
    except sqlite3.Error as error:
        raise reason(path, error) from None
    return page, mode


def look(home: Home, path: bytes, room: int) -> int:
    """Look at what is to be copied before SQLite does, and return its mode."""
    parent, _, name = path.rpartition(b"/")
    try:
        directory = home.enter(parent)
    except FileNotFoundError:
        raise RefusedError(path, "it is not there") from None
    try:
        seen = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISREG(seen.st_mode):
            raise RefusedError(path, "it is no regular file")
        if seen.st_dev != home.device:
            raise RefusedError(path, "it lies on another file system")
        if seen.st_size > room:
            raise RefusedError(path, "it is larger than a checkpoint may hold")
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
        # Closed before SQLite opens it: closing drops the locks that a process has on a file.
        try:
            begins = os.read(descriptor, HEADER)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise RefusedError(path, "it is not there") from None
    except PermissionError:
        raise RefusedError(path, "it cannot be read") from None
    finally:
        os.close(directory)
    if len(begins) < HEADER or not begins.startswith(MAGIC):
        raise RefusedError(path, "it is no SQLite database")
    return stat.S_IMODE(seen.st_mode)


def check(path: bytes, staged: bytes) -> None:
    """Let SQLite look through a copy."""
    try:
        copied = connect(b"file:" + quoted(staged) + b"?mode=ro&immutable=1", 0)
        try:
            (verdict,) = copied.execute("PRAGMA quick_check(1)").fetchone()
        finally:
            copied.close()
    except sqlite3.Error as error:
        raise reason(path, error) from None
    if verdict != "ok":
        raise RefusedError(path, f"it is damaged: {str(verdict)[:160]}")


def connect(uri: bytes, wait_s: float) -> sqlite3.Connection:
    """Open a database whose schema is not trusted."""
    connection = sqlite3.connect(uri.decode("ascii"), uri=True, timeout=wait_s, isolation_level=None)
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA cell_size_check=ON")
    return connection


def never_waiting(path: bytes) -> Callable[[int, int, int], None]:
    """Return what ends a backup that meets a lock: the library itself would try for ever."""

    def progress(status: int, _remaining: int, _total: int) -> None:
        if status & 0xFF in BUSY:
            raise RefusedError(path, "a program holds it locked", busy=True)

    return progress


def reason(path: bytes, error: sqlite3.Error) -> RefusedError:
    """Return why SQLite did not do it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in BUSY or "is locked" in str(error):
        return RefusedError(path, "a program holds it locked", busy=True)
    return RefusedError(path, f"SQLite cannot read it: {str(error)[:160]}")


def quoted(path: bytes) -> bytes:
    """Return a path as a part of a URI."""
    return b"".join(b"%c" % byte if byte in PLAIN else b"%%%02x" % byte for byte in path)


def send(staged: bytes, size: int) -> None:
    """Send the bytes of a copy."""
    with open(staged, "rb", buffering=0) as stream:
        left = size
        while left:
            data = stream.read(min(CHUNK, left))
            if not data:
                raise OSError("a copy was cut while it was sent")
            put(data)
            left -= len(data)


if __name__ == "__main__":
    serve(copy)
