"""The schema and its versions, as far as a file is concerned; the rest is in the store suite."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex

from jamcore.domain.approvals import ApprovalPolicy
from jamcore.store import StoreNewerError, open_store
from jamcore.store.migrate import HEAD
from jamcore.store.tables.schema import METADATA
from jamcore.system.files import Files
from jamcore.testing.store.schema import migration_scripts, newer_code

if TYPE_CHECKING:
    from tests.unit.store.conftest import HandClock, Make, OpenStore

SQLITE: Any = sqlite.dialect  # SQLAlchemy's dialect classes have no types


def columns(path: Path) -> list[str]:
    """Return the columns of the agents."""
    with sqlite3.connect(path) as raw:
        names = [row[1] for row in raw.execute("PRAGMA table_info(agents)")]
    raw.close()
    return names


def test_the_head_is_the_scripts_head() -> None:
    """The version that the code knows without loading Alembic is the newest script's, and the history is one line."""
    assert ScriptDirectory.from_config(migration_scripts()).get_heads() == [HEAD]


def test_the_migrations_make_exactly_the_tables(blank_database: Path) -> None:
    """Nothing is in the tables' definition that no migration made, and nothing was made that is not defined."""
    engine = create_engine(f"sqlite:///{blank_database}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []
    engine.dispose()


def test_the_partial_indexes_are_as_defined(blank_database: Path) -> None:
    """Alembic does not compare conditions of indexes, so they are compared here as SQL."""
    defined = {
        str(index.name): str(CreateIndex(index).compile(dialect=SQLITE()))
        for table in METADATA.tables.values()
        for index in table.indexes
    }
    with sqlite3.connect(blank_database) as raw:
        made = dict(raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"))
    raw.close()
    assert made == defined
    assert sum("WHERE" in sql for sql in made.values()) == 5


def test_every_constraint_has_a_name() -> None:
    """Both databases know each rule by the same name, so a later migration can change it."""
    nameless = [
        f"{table.name}: {constraint}"
        for table in METADATA.tables.values()
        for constraint in table.constraints
        if not constraint.name
    ]
    assert nameless == []


async def test_what_is_refused_is_not_copied(tmp_path: Path, open_at: OpenStore) -> None:
    """A newer schema is left alone with all that lies beside it."""
    path = tmp_path / "jam.db"
    async with open_at(path):
        pass
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '0999'")
    raw.close()
    with pytest.raises(StoreNewerError) as refused:
        async with open_at(path):
            pass
    assert (refused.value.found, refused.value.known) == ("0999", HEAD)
    assert [found.name for found in tmp_path.iterdir()] == ["jam.db"]


async def test_an_older_file_is_copied_and_upgraded(
    tmp_path: Path, open_at: OpenStore, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows survive the upgrade, and the file as it was lies beside it, private and whole."""
    path = tmp_path / "jam.db"
    async with open_at(path) as store:
        await store.transact(lambda repos: repos.agents.insert(make.agent()))
    newer_code(monkeypatch, tmp_path / "scripts")
    async with open_at(path) as store:
        assert len(await store.read(lambda repos: repos.agents.list())) == 1
    kept = tmp_path / f"jam.db.before-{HEAD}"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert "note" in columns(path)
    assert "note" not in columns(kept)
    monkeypatch.undo()
    async with open_at(kept) as store:
        assert len(await store.read(lambda repos: repos.agents.list())) == 1


async def test_a_database_of_the_first_release_is_brought_up(tmp_path: Path, clock: HandClock) -> None:
    """What the first Jam wrote is copied, and read as it was meant: a session that knew no approvals never asks."""
    path = tmp_path / "jam.db"
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config = migration_scripts()
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
    engine.dispose()
    daemon, agent, host, session = (str(UUID(int=n)) for n in range(1, 5))
    at = clock.now().isoformat(timespec="microseconds")
    with sqlite3.connect(path) as raw:
        raw.execute("INSERT INTO daemons VALUES (?, 1)", (daemon,))
        raw.execute("INSERT INTO agents VALUES (?, 'a', 'p', ?)", (agent, at))
        raw.execute(
            "INSERT INTO hosts VALUES (?, ?, 'p', 'e', '{}', 'dedicated', 's', '{}', 'parked', ?, 1, ?)", (host, agent, daemon, at)
        )
        raw.execute("INSERT INTO sessions VALUES (?, ?, ?, 'dormant', NULL, NULL, ?)", (session, host, agent, at))
    raw.close()
    async with open_store(path, files=Files(), clock=clock, daemon_id=UUID(int=1)) as store:
        assert (await store.read(lambda repos: repos.sessions.get(UUID(session)))).approvals is ApprovalPolicy.NEVER
    assert stat.S_IMODE((tmp_path / "jam.db.before-0001").stat().st_mode) == 0o600


async def test_an_up_to_date_database_is_opened_without_alembic(tmp_path: Path, open_at: OpenStore) -> None:
    """The usual start reads one row; it neither copies the file nor writes to the schema."""
    path = tmp_path / "jam.db"
    async with open_at(path):
        pass
    with sqlite3.connect(path) as raw:
        before = raw.execute("PRAGMA schema_version").fetchone()
    async with open_at(path):
        pass
    assert raw.execute("PRAGMA schema_version").fetchone() == before
    raw.close()
    assert [found.name for found in tmp_path.iterdir()] == ["jam.db"]
