"""A full disk, on a real small one (a tmpfs in a mount namespace of its own).

This file is also the program that runs there: ``python test_full_disk.py CASE DIRECTORY``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import anyio
import pytest

from jamcore.domain.events import CommandOutput, RoomEvent
from jamcore.domain.sessions import Agent, Room
from jamcore.store import Repos, Store, StoreFullError, open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files

DISK_KIB = 3072
DAEMON, ROOM = UUID(int=1), UUID(int=2)
AGENT = Agent(id=UUID(int=3), name="agent", provider="probe", created_at=datetime(2026, 1, 1, tzinfo=UTC))
CHUNK = CommandOutput(item="i", text="x" * 20_000)


@pytest.mark.needs("tmpfs")
@pytest.mark.unprivileged
@pytest.mark.parametrize("case", ["while_writing", "while_opening", "while_upgrading"])
def test_a_full_disk(tmp_path: Path, case: str) -> None:
    """Refused by type and nothing lost, at the opening, at a write, and before an upgrade; and it works again when there is room."""
    mount = f'mount -t tmpfs -o size={DISK_KIB}k tmpfs "$1" && shift && exec "$@"'
    argv = ["unshare", "-Urm", "sh", "-c", mount, "sh", str(tmp_path), sys.executable, __file__, case, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3]), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, timeout=100, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, [f"{case} holds"]), done.stderr


def seed(repos: Repos) -> None:
    """Put a room into the store."""
    repos.agents.insert(AGENT)
    repos.rooms.insert(Room(id=ROOM, name="room", agent_id=AGENT.id, request_digest="0" * 64, created_at=AGENT.created_at))


async def fill(store: Store) -> list[RoomEvent]:
    """Write until the disk is full; return what was acknowledged."""
    acknowledged: list[RoomEvent] = []
    for _ in range(DISK_KIB):
        try:
            acknowledged += await store.transact(lambda repos: repos.events.append(ROOM, None, [CHUNK] * 3))
        except StoreFullError:
            return acknowledged
    message = "the disk never became full"
    raise AssertionError(message)


async def while_writing(app: Path) -> None:
    """Every acknowledged event is there, none is half there, reading goes on, and there is a next life after it."""
    ballast = app / "ballast"
    ballast.write_bytes(b"x" * 1_700_000)
    async with open_store(app / "jam.db", files=Files(), clock=SystemClock(), daemon_id=DAEMON) as store:
        await store.transact(seed)
        acknowledged = await fill(store)
        assert acknowledged
        for _ in range(3):
            try:
                more = await store.transact(lambda repos: repos.events.append(ROOM, None, [CHUNK] * 30))
            except StoreFullError:
                continue
            acknowledged += more
        assert list(await store.read(lambda repos: repos.events.after(ROOM, 0, 10_000))) == acknowledged
        ballast.unlink()
        acknowledged += await store.transact(lambda repos: repos.events.append(ROOM, None, [CHUNK]))
        assert [event.seq for event in acknowledged] == list(range(1, len(acknowledged) + 1))
    async with open_store(app / "jam.db", files=Files(), clock=SystemClock(), daemon_id=DAEMON) as store:
        assert list(await store.read(lambda repos: repos.events.after(ROOM, 0, 10_000))) == acknowledged


async def while_opening(app: Path) -> None:
    """However little room there is, a new database is made or refused by type; afterwards it can be made."""
    path, ballast = app / "jam.db", app / "ballast"
    refused = 0
    for free_kib in range(0, 800, 25):
        _leave(ballast, app, free_kib)
        try:
            async with open_store(path, files=Files(), clock=SystemClock(), daemon_id=DAEMON) as store:
                await store.transact(seed)
        except StoreFullError:
            refused += 1
        ballast.unlink()
        async with open_store(path, files=Files(), clock=SystemClock(), daemon_id=DAEMON) as store:
            await store.transact(seed)
            assert await store.read(lambda repos: len(repos.rooms.list())) == 1
        for left in app.iterdir():
            left.unlink()
    assert refused > 5


async def while_upgrading(app: Path) -> None:
    """Without room for the copy no upgrade begins, and the old database is as it was."""
    import jamcore.store.migrate as migrate_module

    path, ballast = app / "jam.db", app / "ballast"
    async with open_store(path, files=Files(), clock=SystemClock(), daemon_id=DAEMON) as store:
        await store.transact(seed)
    before = path.read_bytes()
    known, migrate_module.HEAD = migrate_module.HEAD, "9999"
    _leave(ballast, app, 64)
    try:
        async with open_store(path, files=Files(), clock=SystemClock(), daemon_id=DAEMON):
            message = "there was room for a copy"
            raise AssertionError(message)
    except StoreFullError:
        pass
    migrate_module.HEAD = known
    assert path.read_bytes() == before
    assert sorted(found.name for found in app.iterdir()) == ["ballast", "jam.db"]


def _leave(ballast: Path, app: Path, free_kib: int) -> None:
    """Fill the disk up to so many KiB."""
    with ballast.open("wb", buffering=0) as stream:
        state = os.statvfs(app)
        for _ in range(state.f_bavail * state.f_frsize // 1024 - free_kib):
            stream.write(b"x" * 1024)


CASES: dict[str, Callable[[Path], Awaitable[None]]] = {
    case.__name__: case for case in (while_writing, while_opening, while_upgrading)
}

if __name__ == "__main__":
    anyio.run(CASES[sys.argv[1]], Path(sys.argv[2]))
    print(sys.argv[1], "holds")
