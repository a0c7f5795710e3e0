"""Opening a database: where it may lie, who may read it, and what is refused by type."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from jamcore.store import Store, StoreUnusableError, open_store
from jamcore.system.files import Files

if TYPE_CHECKING:
    from tests.unit.store.conftest import HandClock, Make, OpenStore

ODD_NAMES = (
    "with space",
    "new\nline",
    "per%cent",
    "que?ry=1&x",
    "ha#sh",
    "ümläut",
    os.fsdecode(b"not-utf8-\xff"),
    "quote'\"s",
    "c:\\",
)


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_any_directory_name_will_do(tmp_path: Path, open_at: OpenStore, make: Make, name: str) -> None:
    """What a person calls a directory is never taken for a part of an address."""
    directory = tmp_path / name
    directory.mkdir()
    async with open_at(directory / "jam.db") as store:
        await store.transact(lambda repos: repos.agents.insert(make.agent()))
    assert (directory / "jam.db").exists()
    async with open_at(directory / "jam.db") as store:
        assert len(await store.read(lambda repos: repos.agents.list())) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]


async def test_the_files_are_private_whatever_the_umask_says(tmp_path: Path, clock: HandClock, make: Make) -> None:
    """Nobody else can read the database, its log or its index, from their first byte on."""
    before = os.umask(0)
    try:
        async with open_store(tmp_path / "jam.db", files=Files(), clock=clock, daemon_id=UUID(int=1)) as store:
            await store.transact(lambda repos: repos.agents.insert(make.agent()))
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == {"jam.db": 0o600, "jam.db-wal": 0o600, "jam.db-shm": 0o600}


async def test_every_connection_is_durable_and_checks_references(store: Store) -> None:
    """Write-ahead log, full sync and foreign keys hold on the writer's and on a reader's connection."""
    for look in (store.transact, store.read):
        pragmas = await look(
            lambda repos: [
                repos.agents._connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
                for name in ("journal_mode", "synchronous", "foreign_keys", "trusted_schema")
            ]
        )
        assert pragmas == ["wal", 2, 1, 0]


async def test_what_was_committed_is_there_without_a_close(tmp_path: Path, open_at: OpenStore, make: Make) -> None:
    """A copy of the files taken after a commit, as a crash leaves them, holds the transaction."""
    async with open_at(tmp_path / "jam.db") as store:
        await store.transact(lambda repos: repos.agents.insert(make.agent()))
        left = tmp_path / "left"
        left.mkdir()
        for suffix in ("", "-wal"):
            shutil.copy(tmp_path / f"jam.db{suffix}", left / f"jam.db{suffix}")
    async with open_at(left / "jam.db") as store:
        assert len(await store.read(lambda repos: repos.agents.list())) == 1


@pytest.mark.parametrize(
    "content", [b"this is no database, and never was one\n" * 40, os.urandom(8192), b"SQLite format 3\x00" + b"\xff" * 4080]
)
async def test_a_damaged_file_is_refused_and_preserved(tmp_path: Path, open_at: OpenStore, content: bytes) -> None:
    """Nothing is repaired, renamed or begun anew: the bytes stay for whoever can use them."""
    path = tmp_path / "jam.db"
    path.write_bytes(content)
    with pytest.raises(StoreUnusableError):
        async with open_at(path):
            pass
    assert path.read_bytes() == content
    assert [found.name for found in tmp_path.iterdir()] == ["jam.db"]


async def test_damage_that_shows_later_is_typed_too(tmp_path: Path, open_at: OpenStore, make: Make) -> None:
    """A page that went bad after the opening fails the read that meets it, by type."""
    path = tmp_path / "jam.db"
    async with open_at(path) as store:
        await store.transact(lambda repos: repos.agents.insert(make.agent()))
    with sqlite3.connect(path) as raw:
        page = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = 'agents'").fetchone()[0]
        size = raw.execute("PRAGMA page_size").fetchone()[0]
    raw.close()
    with path.open("r+b") as stream:
        stream.seek((page - 1) * size)
        stream.write(b"\xff" * size)
    async with open_at(path) as store:
        with pytest.raises(StoreUnusableError):
            await store.read(lambda repos: repos.agents.list())


async def test_an_absent_directory_is_refused(tmp_path: Path, clock: HandClock) -> None:
    """The store makes no directories: whoever owns the app directory does."""
    with pytest.raises(StoreUnusableError):
        async with open_store(tmp_path / "no" / "jam.db", files=Files(), clock=clock, daemon_id=UUID(int=1)):
            pass


async def test_a_directory_in_the_place_of_the_file_is_refused(tmp_path: Path, clock: HandClock) -> None:
    """It is not removed to make room."""
    (tmp_path / "jam.db").mkdir()
    with pytest.raises(StoreUnusableError):
        async with open_store(tmp_path / "jam.db", files=Files(), clock=clock, daemon_id=UUID(int=1)):
            pass
    assert (tmp_path / "jam.db").is_dir()


@pytest.mark.unprivileged
@pytest.mark.skipif(os.geteuid() == 0, reason="root reads and writes everything")
@pytest.mark.parametrize("mode", [0o000, 0o400])
async def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path, open_at: OpenStore, mode: int) -> None:
    """An unreadable and a read-only database are told at the opening, not at the first turn."""
    path = tmp_path / "jam.db"
    async with open_at(path):
        pass
    path.chmod(mode)
    try:
        with pytest.raises(StoreUnusableError):
            async with open_at(path):
                pass
    finally:
        path.chmod(0o600)


async def test_two_stores_share_nothing(tmp_path: Path, open_at: OpenStore, make: Make) -> None:
    """Two daemons in one process, each with its own database, see only their own rows."""
    async with open_at(tmp_path / "a.db") as one, open_at(tmp_path / "b.db") as other:
        await one.transact(lambda repos: repos.agents.insert(make.agent()))
        assert await other.read(lambda repos: repos.agents.list()) == ()


async def test_an_address_in_words_is_taken_as_a_url(tmp_path: Path, clock: HandClock) -> None:
    """Text is a database URL, as in the settings."""
    async with open_store(f"sqlite:///{tmp_path}/by-url.db", files=Files(), clock=clock, daemon_id=UUID(int=1)):
        assert stat.S_IMODE((tmp_path / "by-url.db").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "absent://jam:hunter2@db/jam",
        "postgresql+absent://jam:hunter2@db/jam",
        "postgresql://jam:hunter2@db:port/jam",
        "postgresql://jam:at@hunter2@127.0.0.1/jam",
    ],
)
async def test_an_address_that_leads_nowhere_is_refused(clock: HandClock, url: str) -> None:
    """By type and with the setting's name; what may be a password is not repeated."""
    with pytest.raises(StoreUnusableError, match="database_url") as refused:
        async with open_store(url, files=Files(), clock=clock, daemon_id=UUID(int=1)):
            pass
    assert "hunter2" not in str(refused.value.context())
    assert refused.value.__suppress_context__
