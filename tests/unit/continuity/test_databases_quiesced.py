"""Databases of a real sandbox whose programs write all the time: copied while they stand still, by a helper that is confined (CONT-5)."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import anyio
import pytest

from jamcore.continuity.databases.guest_calls import GuestDatabases, source_of
from jamcore.domain.continuity import DatabaseBusyError
from jamcore.domain.plan import GUEST_HOME
from jamcore.domain.sandboxes import ExecSpec, SandboxSpec
from jamcore.engines.bubblewrap.engine import BubblewrapEngine, open_engine
from jamcore.engines.port import EngineContext
from jamcore.system.files import Files
from jamcore.system.guest import GuestProcess

pytestmark = [pytest.mark.anyio, pytest.mark.needs("bubblewrap"), pytest.mark.guarantee("CONT-2", "CONT-5")]

NAME = "jam-d"
WRITER = """
import os, sqlite3, sys
db = sqlite3.connect("chat.db", isolation_level=None)
db.execute("PRAGMA journal_mode=" + sys.argv[1])
db.execute("CREATE TABLE IF NOT EXISTS message (id INTEGER PRIMARY KEY, turn INTEGER, text TEXT)")
os.write(1, b"ready")
turn = 0
while True:
    turn += 1
    db.execute("BEGIN")
    for text in ("asked", "answered"):
        db.execute("INSERT INTO message (turn, text) VALUES (?, ?)", (turn, text * 300))
    db.execute("COMMIT")
"""
HOLDER = WRITER.replace(
    'os.write(1, b"ready")', 'db.execute("BEGIN EXCLUSIVE"); os.write(1, b"ready"); import time; time.sleep(600)'
)
FORKS = """
import os
try:
    os.fork()
except BlockingIOError:
    os.write(1, b"refused")
"""


class Guest:
    """A sandbox, and the way to its databases."""

    def __init__(self, engine: BubblewrapEngine, home: Path) -> None:
        self.engine = engine
        self.databases = GuestDatabases(self.python, GUEST_HOME, "host")
        self.home = home

    @asynccontextmanager
    async def python(self, arguments: tuple[str, ...]) -> AsyncIterator[GuestProcess]:
        """Run the engine's own Python."""
        program, variables = self.engine.python()
        spec = ExecSpec(argv=(program, *arguments), cwd=GUEST_HOME, environment=variables, while_frozen=True)
        process = await self.engine.exec(NAME, spec)
        try:
            yield process
        finally:
            await process.aclose()

    async def copy(self) -> bytes:
        """Copy the database as a checkpoint does, and return its bytes."""
        async with self.databases.copying(("chat.db",)) as copies:
            async with self.engine.frozen(NAME):
                await copies.begin()
                await copies.made()
            return b"".join([data async for _, content in copies.each() async for data in content])


@pytest.fixture
async def guest(tmp_path: Path) -> AsyncIterator[Guest]:
    root = Files().make_private(tmp_path / "engine")
    disk = Files().make_private(tmp_path / "disk")
    async with open_engine(EngineContext(root=root, runtime=root)) as engine:
        await engine.create(SandboxSpec(name=NAME, guest_disk=str(disk)))
        yield Guest(engine, disk / "home")


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
async def test_every_copy_is_of_one_moment_between_two_transactions(guest: Guest, tmp_path: Path, journal: str) -> None:
    """Whatever the writer was about when it was stopped, no copy holds half of a turn, and each holds what the one before had."""
    seen = 0
    async with guest.python(("-c", WRITER, journal)) as writer:
        assert await writer.stdout.receive() == b"ready"
        for _ in range(5):
            try:
                (tmp_path / "copy.db").write_bytes(await guest.copy())
            except DatabaseBusyError:
                assert journal == "DELETE"  # it was stopped while it had the lock: the next attempt finds it elsewhere
                continue
            with closing(sqlite3.connect(f"file:{tmp_path / 'copy.db'}?immutable=1", uri=True)) as copied:
                turns = [count for (count,) in copied.execute("SELECT count(*) FROM message GROUP BY turn")]
                assert copied.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert set(turns) <= {2}
            assert len(turns) >= seen
            seen = len(turns)
            await anyio.sleep(0.02)
    assert seen or journal == "DELETE"


async def test_a_lock_that_a_still_guest_holds_is_said_at_once(guest: Guest) -> None:
    """It is not waited for: the guest stands still meanwhile."""
    async with guest.python(("-c", HOLDER, "DELETE")) as holder:
        assert await holder.stdout.receive() == b"ready"
        with pytest.raises(DatabaseBusyError, match="locked"):
            await guest.copy()


async def test_the_helper_can_start_nothing(guest: Guest) -> None:
    """Its limits are set before it looks at the guest's home."""
    confined = source_of("copying").rpartition("\nexec(")[0]
    limits = "{'memory': 1 << 29, 'cpu_s': 9, 'bytes': 1 << 20}"
    async with guest.python(("-I", "-S", "-c", f"{confined}\nm.confine({limits})\n{FORKS}")) as process:
        assert await process.stdout.receive() == b"refused"
