"""One question to a daemon that runs already: a plain socket, the standard library, no event loop and no records.

Most of what a command costs before it prints is imports, and a list is printed as it comes. So this knows the usual case alone. Whatever
is unusual (no daemon, one of another release, another user's, a refusal, an answer that is late or cut) is ``None``, and the typed client
asks again: it knows what each of these means and what to do about it. A question changes nothing, so asking twice is harmless.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

from jamcore.control.directory import RECORD, RECORD_BYTES
from jamcore.control.peer import peer_uid
from jamcore.control.versions import API_HEADER, API_VERSION, jam_version

ANSWER_S = 5.0
"""A list is answered in milliseconds; the typed client waits for a busy daemon, and says how long."""
ANSWER_BYTES = 8 << 20
_CHUNK = 1 << 16
_OK = b"HTTP/1.1 200 "


def ask(directory: Path, target: str) -> Any | None:  # noqa: ANN401 - JSON
    """Return the daemon's answer to a ``GET`` as plain JSON values, or ``None`` when it is not the usual case.

    Args:
        directory: The app directory.
        target: Path and query, percent-encoded.
    """
    try:
        path = _socket_of(directory)
        return None if path is None else _body(_exchange(path, target))
    except (OSError, ValueError, KeyError, TypeError):  # all that a file, a socket, or a text that is no JSON can raise
        return None


def _socket_of(directory: Path) -> str | None:
    """Return where the last daemon of this very release listens."""
    with (directory / RECORD).open("rb") as stream:
        record = json.loads(stream.read(RECORD_BYTES))
    ours = record["version"] == jam_version() and record["api"] == API_VERSION
    return str(record["socket"]) if ours else None


def _exchange(path: str, target: str) -> bytes:
    head = f"GET {target} HTTP/1.1\r\nHost: jam\r\nConnection: close\r\n{API_HEADER}: {API_VERSION}\r\n\r\n"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_S)
        connection.connect(path)
        if peer_uid(connection) not in {os.geteuid(), None}:
            raise PermissionError
        connection.sendall(head.encode("ascii"))
        answer = bytearray()
        while chunk := connection.recv(_CHUNK):
            answer += chunk
            if len(answer) > ANSWER_BYTES:
                raise ValueError("longer than a list is")
        return bytes(answer)


def _body(answer: bytes) -> Any | None:  # noqa: ANN401 - JSON
    """Return the JSON of a whole, good answer; only one that says its length can be told from one that was cut."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *fields = head.split(b"\r\n")
    lengths = [value.strip() for name, _, value in (field.partition(b":") for field in fields) if name.lower() == b"content-length"]
    if not status.startswith(_OK) or lengths != [b"%d" % len(body)]:
        return None
    return json.loads(body)
