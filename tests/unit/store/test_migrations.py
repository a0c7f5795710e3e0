"""The schema and its versions."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Table, create_engine
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

import jamcore.store.migrate as migrate_module
from jamcore.domain.approvals import ApprovalPolicy
from jamcore.store import StoreNewerError, StoreUnusableError, open_store
from jamcore.store.migrate import HEAD, SCRIPTS
from jamcore.store.tables.schema import METADATA
from jamcore.system.files import Files

if TYPE_CHECKING:
    from tests.unit.store.conftest import HandClock, Make, OpenStore

SQLITE: Any = sqlite.dialect  # SQLAlchemy's dialect classes have no types
POSTGRESQL: Any = postgresql.dialect

NEXT = '''
"""Another version."""

import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "9999", "{head}", None, None


def upgrade():
    with op.batch_alter_table("agents") as batch:
        batch.add_column(sa.Column("note", sa.Text()))
    {then}
'''


def newer_code(monkeypatch: pytest.MonkeyPatch, scripts: Path, *, then: str = "pass") -> None:
    """Make this process the next version of Jam: real scripts, real Alembic, one version more."""
    versions = scripts / "versions"
    versions.mkdir(parents=True)
    for script in (SCRIPTS / "env.py", SCRIPTS / "script.py.mako", *(SCRIPTS / "versions").glob("*.py")):
        (scripts / script.relative_to(SCRIPTS)).write_bytes(script.read_bytes())
    (versions / "v9999_next.py").write_text(NEXT.format(then=then, head=HEAD))
    monkeypatch.setattr(migrate_module, "SCRIPTS", scripts)
    monkeypatch.setattr(migrate_module, "HEAD", "9999")


def columns(path: Path) -> list[str]:
    """Return the columns of the agents."""
    with sqlite3.connect(path) as raw:
        names = [row[1] for row in raw.execute("PRAGMA table_info(agents)")]
    raw.close()
    return names


def test_the_head_is_the_scripts_head() -> None:
    """The version that the code knows without loading Alembic is the newest script's, and the history is one line."""
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


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


@pytest.mark.parametrize("table", METADATA.sorted_tables, ids=lambda table: str(table.name))
def test_postgresql_gets_the_same_rules(table: Table) -> None:
    """Every table compiles for PostgreSQL, and every index that is partial on SQLite is partial there."""
    dialect = POSTGRESQL()
    assert str(CreateTable(table).compile(dialect=dialect))
    for index in table.indexes:
        there, here = (str(CreateIndex(index).compile(dialect=d)) for d in (dialect, SQLITE()))
        assert ("WHERE" in there) == ("WHERE" in here)


def test_every_constraint_has_a_name() -> None:
    """Both databases know each rule by the same name, so a later migration can change it."""
    nameless = [
        f"{table.name}: {constraint}"
        for table in METADATA.tables.values()
        for constraint in table.constraints
        if not constraint.name
    ]
    assert nameless == []


async def test_a_newer_schema_is_refused(tmp_path: Path, open_at: OpenStore) -> None:
    """An older Jam does not touch what it does not understand, and says which version it found."""
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
        config = Config()
        config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
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


async def test_an_upgrade_that_fails_changes_nothing(
    tmp_path: Path, open_at: OpenStore, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything that the failed version did is undone with it, and the old code works on."""
    path = tmp_path / "jam.db"
    async with open_at(path) as store:
        await store.transact(lambda repos: repos.agents.insert(make.agent()))
    newer_code(monkeypatch, tmp_path / "scripts", then='op.execute("INSERT INTO nowhere VALUES (1)")')
    with pytest.raises(StoreUnusableError):
        async with open_at(path):
            pass
    assert "note" not in columns(path)
    monkeypatch.undo()
    async with open_at(path) as store:
        assert len(await store.read(lambda repos: repos.agents.list())) == 1


async def test_a_new_database_that_fails_stays_empty(tmp_path: Path, clock: HandClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first schema is made whole or not at all, so the next opening begins anew."""
    newer_code(monkeypatch, tmp_path / "scripts", then='op.execute("INSERT INTO nowhere VALUES (1)")')
    path = tmp_path / "jam.db"
    with pytest.raises(StoreUnusableError):
        async with open_store(path, files=Files(), clock=clock, daemon_id=UUID(int=1)):
            pass
    monkeypatch.undo()
    async with open_store(path, files=Files(), clock=clock, daemon_id=UUID(int=1)) as store:
        assert store.fence.epoch == 1


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
