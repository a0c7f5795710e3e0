"""Brings a database's schema up to date, after a copy of a file that an older Jam wrote."""

from __future__ import annotations

import shutil
from pathlib import Path

import structlog
from sqlalchemy import Engine, inspect, text

from jamcore.store.errors import StoreNewerError, StoreUnusableError
from jamcore.store.failures import of_file
from jamcore.system.files import Files

SCRIPTS = Path(__file__).parent / "migrations"
HEAD = "0009"
"""The newest version; a test compares it with the scripts. Known here so that the usual start does not load Alembic."""

_VERSIONS = "alembic_version"


def upgrade(engine: Engine, files: Files) -> None:
    """Upgrade to the newest version in one transaction: it is made whole, or the database stays as it was.

    Raises:
        StoreNewerError: The database knows a version that this code does not.
        StoreUnusableError: It holds tables, and Jam did not make them; or the copy could not be made.
        StoreFullError: There is no room for the copy or the upgrade.
    """
    found = _found(engine)
    if found == HEAD:
        return
    from alembic import command  # late: only a new or an old database needs it
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()  # nothing is read from a file of the user's
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    if found is not None:
        if found not in {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}:
            raise StoreNewerError(found=found, known=HEAD)
        _copy(engine, files, found)
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            from jamcore.store.postgresql import migrate_alone  # late: its driver is an extra

            migrate_alone(connection)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    structlog.get_logger("jam.store").info("the schema was brought up to date", found=found or "no tables", now=HEAD)


def _found(engine: Engine) -> str | None:
    """Return the version that the database is at; ``None`` for one without tables."""
    with engine.connect() as connection:
        tables = inspect(connection).get_table_names()
        if not tables:
            return None
        versions: list[str] = []
        if _VERSIONS in tables:
            versions += connection.execute(text(f"SELECT version_num FROM {_VERSIONS}")).scalars()  # noqa: S608 - a constant
    if not versions:
        raise StoreUnusableError(detail="it holds tables that Jam did not make")
    if len(versions) > 1:
        raise StoreUnusableError(detail=f"it says of itself that it has {len(versions)} versions of the schema")
    return versions[0]


def _copy(engine: Engine, files: Files, version: str) -> None:
    """Keep the old file beside the new one: downgrades are not offered, a copy is.

    Nobody writes meanwhile: the caller holds the app directory's lock. The log is folded in first, so that one file is the whole.
    """
    if engine.url.get_backend_name() != "sqlite" or not engine.url.database:
        return
    path = Path(engine.url.database)
    raw = engine.raw_connection()  # the pragma works outside a transaction only, and SQLAlchemy always begins one
    try:
        cursor = raw.cursor()
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        busy, *_ = cursor.fetchone() or (1,)
        cursor.close()
    finally:
        raw.close()
    if busy:
        raise StoreUnusableError(detail="another program has the database open, so no copy can be made before the upgrade")
    try:
        with path.open("rb") as old, files.replacing(path.with_name(f"{path.name}.before-{version}")) as kept:
            shutil.copyfileobj(old, kept)
    except OSError as error:
        raise of_file(error, "no copy before the upgrade") from error
