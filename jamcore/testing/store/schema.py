"""Versions of the schema: forward from every older one, never back, never over somebody else's tables, and whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Boolean, Column, Connection, Integer, MetaData, Table, create_engine, insert, select, text

import jamcore.store.migrate as migrate_module
from jamcore.store import Store, StoreNewerError, StoreUnusableError, open_store
from jamcore.store.migrate import HEAD, SCRIPTS
from jamcore.store.tables.schema import METADATA
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds
from jamcore.testing.store.base import DAEMON, StoreTests
from jamcore.testing.store.records import HandClock, Records

Rows = dict[str, list[Mapping[str, Any]]]

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
FAILS = 'op.execute("INSERT INTO nowhere VALUES (1)")'


class OpenEmpty(Protocol):
    """Opens the database that was empty in the beginning."""

    def __call__(self) -> AbstractAsyncContextManager[Store]:
        """Open it."""


def newer_code(monkeypatch: pytest.MonkeyPatch, scripts: Path, *, then: str = "pass") -> None:
    """Make this process the next version of Jam: real scripts, real Alembic, one version more."""
    versions = scripts / "versions"
    versions.mkdir(parents=True)
    for script in (SCRIPTS / "env.py", SCRIPTS / "script.py.mako", *(SCRIPTS / "versions").glob("*.py")):
        (scripts / script.relative_to(SCRIPTS)).write_bytes(script.read_bytes())
    (versions / "v9999_next.py").write_text(NEXT.format(then=then, head=HEAD))
    monkeypatch.setattr(migrate_module, "SCRIPTS", scripts)
    monkeypatch.setattr(migrate_module, "HEAD", "9999")


def migration_scripts() -> Config:
    """Return Alembic's configuration of Jam's own versions."""
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    return config


def older_versions() -> list[str]:
    """Return every version but the newest, oldest first."""
    found = [script.revision for script in ScriptDirectory.from_config(migration_scripts()).walk_revisions()]
    return sorted(set(found) - {HEAD})


class SchemaTests(StoreTests):
    """What an opening makes of what it finds."""

    @pytest.fixture
    def open_empty(self, empty_url: str, clock: HandClock) -> OpenEmpty:
        """Open the database that is empty at first."""
        return lambda: open_store(empty_url, files=Files(), clock=clock, daemon_id=DAEMON)

    async def test_the_versions_make_exactly_the_tables(self, open_empty: OpenEmpty, empty_url: str) -> None:
        """Nothing is defined that no version made, and nothing was made that is not defined.

        A column that only a fresh database has is missing after an upgrade. Types are not compared: a database may keep a bounded
        text in one without a limit.
        """
        async with open_empty():
            with _connected(empty_url) as connection:
                context = MigrationContext.configure(connection, opts={"compare_type": False})
                assert compare_metadata(context, METADATA) == []

    @pytest.mark.parametrize("version", older_versions())
    async def test_every_older_version_is_brought_up(self, open_empty: OpenEmpty, empty_url: str, version: str) -> None:
        """A row of each table of that version is there afterwards, with what it said; and the store works.

        An upgrade that loses a row loses a conversation, and there is no way back.
        """
        with _connected(empty_url) as connection:
            _upgrade(connection, version)
            before = _fill(connection)
        async with open_empty() as store:
            assert store.fence.epoch == 1
        with _connected(empty_url) as connection:
            after = _rows(connection)
        lost = [(name, row) for name, rows in before.items() if name in after for row in rows if not _kept(row, after[name])]
        assert lost == []
        async with open_empty() as store:
            assert store.fence.epoch == 2

    async def test_a_newer_version_is_refused(self, open_empty: OpenEmpty, empty_url: str) -> None:
        """An older Jam does not touch what it does not understand, and says which version it found.

        What an older Jam writes between newer rows is damage that shows only later.
        """
        await self._refused(open_empty, empty_url, "UPDATE alembic_version SET version_num = '0999'", StoreNewerError)

    async def test_two_versions_at_once_are_refused(self, open_empty: OpenEmpty, empty_url: str) -> None:
        """Nobody can say which tables are there; nothing is changed.

        A schema that is guessed is upgraded twice, or not at all.
        """
        await self._refused(open_empty, empty_url, "INSERT INTO alembic_version VALUES ('0001')", StoreUnusableError)

    async def test_no_version_is_refused(self, open_empty: OpenEmpty, empty_url: str) -> None:
        """Tables whose version is not known are not Jam's to change.

        Somebody has tried to repair it, or a restore was cut: an upgrade would run over what is there.
        """
        await self._refused(open_empty, empty_url, "DELETE FROM alembic_version", StoreUnusableError)

    async def test_somebody_elses_tables_are_refused(self, open_empty: OpenEmpty, empty_url: str) -> None:
        """They are not mixed with Jam's.

        A wrong name in a URL would mix two programs' data.
        """
        with _connected(empty_url) as connection:
            connection.execute(text("CREATE TABLE photos (id INTEGER)"))
        with pytest.raises(StoreUnusableError):
            async with open_empty():
                pass
        with _connected(empty_url) as connection:
            assert list(_reflected(connection)) == ["photos"]

    async def test_an_upgrade_that_fails_changes_nothing(
        self, open_empty: OpenEmpty, make: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Everything that the failed version did is undone with it, and the old code works on.

        Half an upgrade is a database that neither Jam can read.
        """
        async with open_empty() as store:
            await store.transact(make.seed)
        newer_code(monkeypatch, tmp_path / "scripts", then=FAILS)
        with pytest.raises(StoreUnusableError):
            async with open_empty():
                pass
        monkeypatch.undo()
        async with open_empty() as store:
            assert len(await store.read(lambda repos: repos.agents.list())) == 1
        newer_code(monkeypatch, tmp_path / "scripts that work")
        async with open_empty() as store:
            assert len(await store.read(lambda repos: repos.agents.list())) == 1

    async def test_a_first_version_that_fails_leaves_nothing(
        self, open_empty: OpenEmpty, empty_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The first schema is made whole or not at all, so the next opening begins anew.

        A full disk at the first start would keep Jam from ever starting there.
        """
        newer_code(monkeypatch, tmp_path / "scripts", then=FAILS)
        with pytest.raises(StoreUnusableError):
            async with open_empty():
                pass
        with _connected(empty_url) as connection:
            assert _reflected(connection) == {}
        monkeypatch.undo()
        async with open_empty() as store:
            assert store.fence.epoch == 1

    async def _refused(self, open_empty: OpenEmpty, url: str, statement: str, error: type[Exception]) -> None:
        async with open_empty():
            pass
        with _connected(url) as connection:
            connection.execute(text(statement))
            before = _rows(connection)
        with pytest.raises(error):
            async with open_empty():
                pass
        with _connected(url) as connection:
            assert _rows(connection) == before


@contextmanager
def _connected(url: str) -> Iterator[Connection]:
    """Yield a connection of nobody's, committed at the end."""
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def _upgrade(connection: Connection, version: str) -> None:
    config = migration_scripts()
    config.attributes["connection"] = connection
    command.upgrade(config, version)


def _reflected(connection: Connection) -> Mapping[str, Table]:
    found = MetaData()
    found.reflect(connection)
    return {table.name: table for table in found.sorted_tables}


def _rows(connection: Connection) -> Rows:
    tables = _reflected(connection)
    return {name: [dict(row) for row in connection.execute(select(table)).mappings()] for name, table in tables.items()}


def _fill(connection: Connection) -> Rows:
    """Put one row into each of Jam's tables as they are at that version."""
    rows: Rows = {}
    for name, table in _reflected(connection).items():
        if name == "alembic_version":
            continue
        row = {
            column.name: next((rows[key.column.table.name][0][key.column.name] for key in column.foreign_keys), _filler(column))
            for column in table.c
        }
        connection.execute(insert(table).values(row))
        rows[name] = [row]
    return rows


def _filler(column: Column[Any]) -> object:
    if isinstance(column.type, Boolean):
        return True
    if isinstance(column.type, Integer):
        return 1
    if column.name.endswith("_at") or column.name == "at":
        return datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC).isoformat(timespec="microseconds")
    return str(SystemIds().uuid()) if column.name == "id" or column.name.endswith("_id") else "x"


def _kept(row: Mapping[str, Any], rows: list[Mapping[str, Any]]) -> bool:
    """Whether one of the rows says all that a row said, in the columns that there still are."""
    return any(all(row[name] == found[name] for name in row.keys() & found.keys()) for found in rows)


__all__ = ["SchemaTests", "migration_scripts", "newer_code"]
