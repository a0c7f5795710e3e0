"""A way in from the host's own loopback, for guests that have no network of their own (host processes).

A loopback port can be reached by everybody on the machine, and what is behind it adds a credential. So the kernel is asked whose the other
end of each connection is, and only the guest's own user is let in; and the address holds a random word, which the relay requires, so that
one host's programs cannot use another host's endpoint by trying ports.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

import anyio
import structlog
from anyio import to_thread
from anyio.abc import TaskGroup

from jamcore.system.tasks import owned_tasks

BACKLOG = 64
WORD_BYTES = 16
_TABLE = Path("/proc/net/tcp")

Take = Callable[[socket.socket], None]


def user_of(connection: socket.socket, table: Path = _TABLE) -> int | None:
    """Return the user whose process holds the other end of a loopback connection; ``None`` when the kernel does not say. Blocking."""
    client, server = _row(connection.getpeername()), _row(connection.getsockname())
    try:
        lines = table.read_text().splitlines()[1:]
    except OSError:
        return None
    fields = (line.split() for line in lines)
    return next((int(row[7]) for row in fields if (row[1], row[2]) == (client, server)), None)


class LoopbackDoor:
    """Listens on one loopback port while its context is open. Made by :meth:`open`."""

    def __init__(self, listener: socket.socket, user: int, tasks: TaskGroup) -> None:
        self.prefix = f"/{secrets.token_urlsafe(WORD_BYTES)}"
        self._listener = listener
        self._user = user
        self._tasks = tasks
        self._take: Take | None = None

    @property
    def url(self) -> str:
        """The address for the guest, with its word."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}{self.prefix}"

    @classmethod
    @asynccontextmanager
    async def open(cls, *, user: int | None = None) -> AsyncIterator[Self]:
        """Listen on a port that the kernel chooses; connections are closed until somebody takes them (:meth:`hand_to`).

        Args:
            user: Whose connections are let in; by default this process's own user.
        """
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(BACKLOG)
            listener.setblocking(False)
            async with owned_tasks() as tasks:
                door = cls(listener, os.geteuid() if user is None else user, tasks)
                tasks.start_soon(door._listen)
                try:
                    yield door
                finally:
                    tasks.cancel_scope.cancel()

    def hand_to(self, take: Take) -> None:
        """Give every connection of the user to ``take``, which owns it then."""
        self._take = take

    async def _listen(self) -> None:
        while True:
            await anyio.wait_readable(self._listener)
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                continue
            except OSError as error:  # no descriptor is left, or it was gone before it was taken
                structlog.get_logger("jam.relay").warning("a connection could not be taken", problem=error.strerror)
                await anyio.sleep(0.1)
                continue
            self._tasks.start_soon(self._admit, connection)

    async def _admit(self, connection: socket.socket) -> None:
        """Let a connection of the right user in. Nothing is read from it before."""
        taken = False
        try:
            connection.setblocking(False)
            user = await to_thread.run_sync(user_of, connection)
            if user != self._user:
                structlog.get_logger("jam.relay").warning("a connection of another user was refused", user=user)
            elif self._take is not None:
                taken = True
                self._take(connection)
        except OSError:
            pass  # it was gone before it could be asked about
        finally:
            if not taken:
                connection.close()


def _row(address: tuple[str, int]) -> str:
    """Return an address as the kernel's table writes it: the IPv4 address as one number of this machine's byte order."""
    number = int.from_bytes(socket.inet_aton(address[0]), sys.byteorder)
    return f"{number:08X}:{address[1]:04X}"
