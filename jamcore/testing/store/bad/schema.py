"""Faults of what an opening makes of the schema that it finds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import inspect
from sqlalchemy.exc import OperationalError

import jamcore.store.engine as engine_module
import jamcore.store.migrate as migrate_module
from jamcore.store import StoreNewerError, StoreUnusableError
from jamcore.testing.store.bad.database import on_opening
from jamcore.testing.store.bad.fault import around, found_by

VERSIONS = "alembic_version"


def _says(patch: pytest.MonkeyPatch, instead: str | None, of: Callable[[str, list[str]], bool]) -> None:
    """Let a database that is not known be taken for one of a version; ``None``: for an empty one."""

    def found(good: Any, engine: Any) -> Any:
        try:
            return good(engine)
        except StoreUnusableError as error:
            if of(error.detail, inspect(engine).get_table_names()):
                return instead
            raise

    around(patch, migrate_module, "_found", found)


def _upgrades(patch: pytest.MonkeyPatch, what: Callable[[Any, Any, str | None], None]) -> None:
    """Replace an upgrade by one that is given the good one, the engine, and which version is there."""

    def upgrade(good: Any, engine: Any, files: Any) -> None:
        what(lambda: good(engine, files), engine, migrate_module._found(engine))

    around(patch, engine_module, "upgrade", upgrade)


def _say(engine: Any, statement: str) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql(statement)


@found_by("test_the_versions_make_exactly_the_tables")
def makes_an_index_that_nothing_defines(patch: pytest.MonkeyPatch) -> None:
    """The schema has more than its definition."""
    on_opening(patch, "CREATE INDEX IF NOT EXISTS ix_agents_provider ON agents (provider)")


@found_by("test_every_older_version_is_brought_up")
def loses_rules_with_an_upgrade(patch: pytest.MonkeyPatch) -> None:
    """The rules of approvals are gone after an upgrade."""

    def upgrade(good: Callable[[], None], engine: Any, found: str | None) -> None:
        good()
        if found not in (None, migrate_module.HEAD):
            _say(engine, "DELETE FROM approval_rules")

    _upgrades(patch, upgrade)


@found_by("test_a_newer_version_is_refused")
def uses_a_newer_schema(patch: pytest.MonkeyPatch) -> None:
    """A version that is not known is good enough."""

    def upgrade(good: Callable[[], None], _engine: Any, _found: str | None) -> None:
        with suppress(StoreNewerError):
            good()

    _upgrades(patch, upgrade)


@found_by("test_two_versions_at_once_are_refused")
def believes_the_newest_of_two_versions(patch: pytest.MonkeyPatch) -> None:
    """A database that says two versions of itself has the newest."""
    _says(patch, migrate_module.HEAD, lambda detail, _tables: "versions of the schema" in detail)


@found_by("test_no_version_is_refused")
def takes_no_version_for_the_newest(patch: pytest.MonkeyPatch) -> None:
    """A database that has forgotten its version is up to date."""
    _says(patch, migrate_module.HEAD, lambda detail, tables: "versions" not in detail and VERSIONS in tables)


@found_by("test_somebody_elses_tables_are_refused")
def moves_in_with_somebody_else(patch: pytest.MonkeyPatch) -> None:
    """Jam's tables are made beside those that are there."""
    _says(patch, None, lambda _detail, tables: VERSIONS not in tables)


def _after_a_failure(patch: pytest.MonkeyPatch, statement: str, *, first: bool) -> None:
    """Let a failed upgrade leave something: of an empty database, or of an older one."""

    def upgrade(good: Callable[[], None], engine: Any, found: str | None) -> None:
        try:
            good()
        except OperationalError:
            if first is (found is None):
                _say(engine, statement)
            raise

    _upgrades(patch, upgrade)


@found_by("test_an_upgrade_that_fails_changes_nothing")
def keeps_the_version_of_a_failed_upgrade(patch: pytest.MonkeyPatch) -> None:
    """The tables are as they were, and the database says that they are new."""
    _after_a_failure(patch, "UPDATE alembic_version SET version_num = '9999'", first=False)


@found_by("test_a_first_version_that_fails_leaves_nothing")
def leaves_a_table_of_a_failed_first_version(patch: pytest.MonkeyPatch) -> None:
    """One table is there already, without a version."""
    _after_a_failure(patch, "CREATE TABLE agents (id TEXT)", first=True)
