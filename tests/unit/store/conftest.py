"""A store on a SQLite file of its own, and records to put into it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

import anyio
import pytest

from jamcore.store import Store, open_store
from jamcore.system.files import Files
from jamcore.testing.store.records import HandClock, Seed
from jamcore.testing.store.records import Records as Make

if TYPE_CHECKING:
    from jamcore.testing.needs import Probe

__all__ = ["HandClock", "Make", "OpenStore", "Seed"]


def pytest_jam_needs() -> dict[str, Probe]:
    """Contribute ``tmpfs``: a small disk can be mounted in a namespace of one's own."""
    return {"tmpfs": _probe_tmpfs}


def _probe_tmpfs() -> str | None:
    script = "mount -t tmpfs -o size=64k tmpfs /mnt"
    done = subprocess.run(["unshare", "-Urm", "sh", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return None if done.returncode == 0 else done.stderr.decode(errors="replace").strip()


class OpenStore(Protocol):
    """Opens a store on a file whose schema is up to date; the same file and daemon give the daemon's next life."""

    def __call__(
        self, path: Path, *, daemon_id: UUID | None = None, busy_timeout_s: float = 5
    ) -> AbstractAsyncContextManager[Store]:
        """Open it."""


@pytest.fixture
def clock() -> HandClock:
    """A clock that the test sets."""
    return HandClock()


@pytest.fixture
def make(clock: HandClock) -> Make:
    """Records."""
    return Make(clock)


@pytest.fixture(scope="session")
def blank_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database without rows of interest: the schema is made once and copied."""
    path = tmp_path_factory.mktemp("blank") / "jam.db"

    async def prepare() -> None:
        async with open_store(path, files=Files(), clock=HandClock(), daemon_id=UUID(int=1)):
            pass

    anyio.run(prepare)
    return path


@pytest.fixture
def open_at(blank_database: Path, clock: HandClock) -> OpenStore:
    """Open stores."""

    def open_it(path: Path, *, daemon_id: UUID | None = None, busy_timeout_s: float = 5) -> AbstractAsyncContextManager[Store]:
        if not path.exists():
            shutil.copy(blank_database, path)
        daemon = daemon_id or UUID(int=1)
        return open_store(path, files=Files(), clock=clock, daemon_id=daemon, busy_timeout_s=busy_timeout_s)

    return open_it


@pytest.fixture
async def store(open_at: OpenStore, tmp_path: Path) -> AsyncIterator[Store]:
    """A store."""
    async with open_at(tmp_path / "jam.db") as opened:
        yield opened


@pytest.fixture
async def seeded(store: Store, make: Make) -> Seed:
    """What the store holds already."""
    return await store.transact(make.seed)
