"""PostgreSQL made to keep Jam's rows as SQLite does: text by its bytes, of any length, with NUL in it; waits that end by themselves.

Imported for a URL that names it, and never otherwise: its driver is an extra.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.types.string import StrDumperUnknown, TextLoader
from sqlalchemy import Column, Connection, Engine, create_engine, event, text
from sqlalchemy.dialects.postgresql.base import PGTypeCompiler
from sqlalchemy.engine import URL

from jamcore.store.errors import StoreUnusableError

DRIVER = "postgresql+psycopg"
REACH_S = 10
"""How long a server may take to accept a connection, and to acknowledge what was sent to it."""
_MIGRATION = 0x6A616D  # "jam": an arbitrary number that nobody else's lock has

_REACH: Mapping[str, int | str] = MappingProxyType(
    {
        "connect_timeout": REACH_S,
        "keepalives_idle": REACH_S,
        "tcp_user_timeout": REACH_S * 1000,
        "client_encoding": "utf8",
        "application_name": "jam",
    }
)
"""The driver's options; a URL may say otherwise."""

_ESCAPE = "\ufdd0"
"""Unicode keeps it for a program's inner use, so text has it as seldom as NUL."""
_TO_ESCAPE = re.compile(f"[\0{_ESCAPE}]")
_ESCAPED = re.compile(f"{_ESCAPE}([0{_ESCAPE}])")


def make_engine(url: URL, *, connections: int, busy_timeout_s: float) -> Engine:
    """Return an engine; nothing is connected yet.

    Args:
        url: Without a driver, or with the one that Jam uses.
        connections: At once, at the most.
        busy_timeout_s: How long a statement waits for another transaction's lock.
    """
    if url.drivername == "postgresql":
        url = url.set(drivername=DRIVER)
    engine = create_engine(
        url,
        pool_size=connections,
        max_overflow=0,
        pool_pre_ping=True,  # a connection that a restart of the server ended is replaced before it is used
        hide_parameters=True,
        connect_args={name: value for name, value in _REACH.items() if name not in url.query},
    )
    engine.dialect.type_compiler_instance = _BytewiseTypes(engine.dialect)

    @event.listens_for(engine, "connect")
    def _prepare(connection: psycopg.Connection[Any], _record: object) -> None:
        connection.adapters.register_dumper(str, _NulDumper)
        for name in ("text", "varchar"):
            connection.adapters.register_loader(name, _NulLoader)
        connection.autocommit = True
        connection.execute(f"SET lock_timeout = {int(busy_timeout_s * 1000)}".encode())
        connection.autocommit = False

    return engine


def require_unicode(connection: Connection) -> None:
    """Refuse a database that cannot hold every text.

    Raises:
        StoreUnusableError: Its encoding is another one than UTF-8.
    """
    encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
    if encoding != "UTF8":
        raise StoreUnusableError(detail=f"the database's encoding is {encoding}; make one with ENCODING 'UTF8'")


def migrate_alone(connection: Connection) -> None:
    """Wait for another daemon that upgrades the same database; the lock goes with the transaction."""
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION})


class _BytewiseTypes(PGTypeCompiler):
    """Makes every column of text one without a limit whose order is that of its bytes, whatever the database's own order is.

    What bounds a text is the domain, and SQLite keeps to no limit of a column either.
    """

    def visit_VARCHAR(self, type_: object, **kw: object) -> str:  # noqa: N802 - SQLAlchemy's name
        """Compile a bounded text."""
        return self.visit_TEXT(type_, **kw)

    def visit_TEXT(self, type_: object, **kw: object) -> str:  # noqa: N802 - SQLAlchemy's name
        """Compile a text; a type that no column has, as of a cast, has no order."""
        return 'TEXT COLLATE "C"' if isinstance(kw.get("type_expression"), Column) else "TEXT"


class _NulDumper(StrDumperUnknown):
    """Text on its way in: PostgreSQL's own has no NUL, and what an agent prints has."""

    def dump(self, obj: str) -> bytes:
        """Escape."""
        if _TO_ESCAPE.search(obj):
            obj = _TO_ESCAPE.sub(lambda found: _ESCAPE + (_ESCAPE if found[0] == _ESCAPE else "0"), obj)
        encoded: bytes = obj.encode()
        return encoded


class _NulLoader(TextLoader):
    """Text on its way out."""

    def load(self, data: Buffer) -> str:
        """Undo the escape."""
        loaded = bytes(data).decode()
        if _ESCAPE in loaded:
            loaded = _ESCAPED.sub(lambda found: _ESCAPE if found[1] == _ESCAPE else "\0", loaded)
        return loaded
