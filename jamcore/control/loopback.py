"""The control interface over TCP, for who asks for it: loopback alone, and nothing without the token, the right host and the right origin.

Every program of every user of this machine reaches a loopback port, and so does every page in a browser. So each request shows the token
that only the daemon's user can read; ``Host`` keeps out names that were made to lead here, ``Origin`` keeps out other pages.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from jamcore.control.failures import HostRefusedError, OriginRefusedError, TokenRefusedError, TokenUnusableError
from jamcore.system.files import Files

PLACE = "cfg/control-token"
"""Where the token lies below the app directory."""
TOKEN_BYTES = 32
TOKEN_LIMIT = 4096
LOOPBACK = "127.0.0.1"
_WRITTEN = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]*):)?(?P<port>[0-9]{1,5})\Z")


class LoopbackAddress(NamedTuple):
    """Where to listen."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def loopback_address(text: str) -> LoopbackAddress:
    """Read ``PORT`` or ``HOST:PORT``; without a host it is 127.0.0.1.

    Raises:
        ValueError: It is no such address, or none of this machine alone.
    """
    found = _WRITTEN.match(text)
    if found is None or not 1 <= int(found["port"]) <= 65535:
        raise ValueError("must be PORT or HOST:PORT, such as 127.0.0.1:8790")
    host = (found["host"] or LOOPBACK).strip("[]")
    host = LOOPBACK if host == "localhost" else host
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        raise ValueError("must be PORT or HOST:PORT with an address in numbers, such as 127.0.0.1:8790") from None
    if not loopback:
        raise ValueError(
            "must be a loopback address: Jam speaks no TLS, and the token would travel readable; use a tunnel, as of ssh -L"
        )
    return LoopbackAddress(host, int(found["port"]))


def control_token(app: Path, files: Files) -> str:
    """Return the token, making it when there is none.

    Raises:
        TokenUnusableError: It is not a private file of this user with a token in it, or it cannot be written.
    """
    path = app / PLACE
    try:
        if not os.path.lexists(path):
            files.make_private(path.parent)
            files.write_atomic(path, f"{secrets.token_urlsafe(TOKEN_BYTES)}\n".encode())
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as stream:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
                raise TokenUnusableError(path=str(path), problem="others may read it, or it is another user's")
            token = stream.read(TOKEN_LIMIT).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise TokenUnusableError(path=str(path), problem=str(error)) from error
    if len(token) < TOKEN_BYTES or not token.isprintable():
        raise TokenUnusableError(path=str(path), problem=f"it holds no token of {TOKEN_BYTES} or more characters")
    return token


@dataclass(frozen=True, slots=True)
class Doorkeeper:
    """Decides about each request that came over TCP."""

    address: LoopbackAddress
    token: str = field(repr=False)

    def require(self, headers: Mapping[str, str]) -> None:
        """Accept a request by its headers.

        Raises:
            HostRefusedError: It was sent to another name.
            OriginRefusedError: It comes from a page of another origin.
            TokenRefusedError: It does not show the token.
        """
        hosts = {str(self.address), f"localhost:{self.address.port}"}
        host = headers.get("Host", "").lower()
        if host not in hosts:
            raise HostRefusedError(host=host)
        origin = headers.get("Origin")
        if origin is not None and origin.lower() not in {f"http://{name}" for name in hosts}:
            raise OriginRefusedError(origin=origin)
        scheme, _, shown = headers.get("Authorization", "").partition(" ")
        same = hmac.compare_digest(shown.strip().encode(), self.token.encode())
        if scheme.lower() != "bearer" or not same:
            raise TokenRefusedError(shown="a wrong one" if shown else "none")
