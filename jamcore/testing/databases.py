"""Databases of a guest for tests and benchmarks: a conversation in SQLite, and the way to it without an engine.

A benchmark of a capture with a changed database needs four lines::

    made = Conversation(home / "chat.db")
    made.fill(20 << 20)
    capture = CaptureList(entries=(*others, CaptureEntry(pattern="chat.db", kind=CaptureKind.DATABASE)))
    made.change_one(); await broker.capture(..., capture_list=capture, databases=host_databases(home))

:func:`host_databases` runs the helper as a child of the caller: with the program and the limits that it has in a sandbox, and without one.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

from jamcore.continuity.databases.guest_calls import DatabaseBounds, GuestDatabases
from jamcore.system.guest import GuestProcess
from jamcore.testing.local_guest import local_guest

ROW_BYTES = 2000


class Conversation:
    """A program's messages in a database with a write-ahead log, as many coding agents keep them."""

    def __init__(self, path: Path, *, page: int = 4096) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path)) as made, made:
            made.execute(f"PRAGMA page_size={page}")
            made.execute("PRAGMA journal_mode=WAL")
            made.execute("CREATE TABLE IF NOT EXISTS message (id INTEGER PRIMARY KEY, text BLOB)")

    @contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """Hold the database open, so that what is written stays in its log."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as held:
            held.execute("PRAGMA wal_autocheckpoint=0")
            yield held

    def say(self, text: str) -> None:
        """Add a message."""
        with closing(sqlite3.connect(self.path)) as held, held:
            held.execute("INSERT INTO message (text) VALUES (?)", (text,))

    def texts(self) -> list[str]:
        """Return all messages."""
        with closing(sqlite3.connect(self.path)) as held:
            return [str(text) for (text,) in held.execute("SELECT text FROM message ORDER BY id")]

    def fill(self, size: int) -> None:
        """Add messages that no compression shrinks until the database has ``size`` bytes."""
        with closing(sqlite3.connect(self.path)) as held, held:
            rows = ((os.urandom(ROW_BYTES),) for _ in range(size // (ROW_BYTES + 48)))
            held.executemany("INSERT INTO message (text) VALUES (?)", rows)

    def change_one(self, number: int = 7) -> None:
        """Change one message in its place: one page of the database."""
        with closing(sqlite3.connect(self.path)) as held, held:
            held.execute("UPDATE message SET text = ? WHERE id = ?", (os.urandom(ROW_BYTES), number))


def host_databases(home: Path, *, bounds: DatabaseBounds | None = None, program: str | None = None) -> GuestDatabases:
    """Return the way to the databases below a directory of this machine.

    Args:
        home: The directory.
        bounds: The helper's bounds; the usual ones by default.
        program: What Python runs instead of the helper, for a test of what is believed.
    """

    @asynccontextmanager
    async def run(arguments: tuple[str, ...]) -> AsyncIterator[GuestProcess]:
        wanted = arguments if program is None else (*arguments[:3], program, *arguments[4:])
        async with local_guest(home.parent / "helper") as guest:
            yield await guest.start((sys.executable, *wanted), cwd="/")

    return GuestDatabases(run, str(home), "host", bounds or DatabaseBounds())
