"""Brings a database's schema up to date, after a copy of a file that an older Jam wrote."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Engine, inspect, text

from jamcore.store.errors import StoreNewerError
from jamcore.system.files import Files

SCRIPTS = Path(__file__).parent / "migrations"
HEAD = "0001"
"""The newest version; a test compares it with the scripts. Known here so that the usual start does not load Alembic."""


def upgrade(engine: Engine, files: Files) -> None:
    """Upgrade to the newest version.

    Raises:
        StoreNewerError: The database knows a version that this code does not.
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
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _found(engine: Engine) -> str | None:
    with engine.connect() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        version = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    return None if version is None else str(version)


def _copy(engine: Engine, files: Files, version: str) -> None:
    """Keep the old file beside the new one: downgrades are not offered, a copy is."""
    if engine.url.get_backend_name() != "sqlite" or not engine.url.database:
        return
    path = Path(engine.url.database)
    kept = path.with_name(f"{path.name}.before-{version}")
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.rollback()
    files.write_atomic(kept, path.read_bytes())
