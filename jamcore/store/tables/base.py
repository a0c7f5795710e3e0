"""The metadata and the two column types that both SQLite and PostgreSQL store the same way."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy import Column, MetaData, String
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class UuidText(TypeDecorator[UUID]):
    """A UUID as its 36 characters: sorted like its bytes, readable in a dump."""

    impl = String(36)
    cache_ok = True

    def process_bind_param(self, value: UUID | None, dialect: Dialect) -> str | None:
        """Write."""
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> UUID | None:
        """Read."""
        return None if value is None else UUID(value)


class UtcText(TypeDecorator[datetime]):
    """An instant in UTC as ISO 8601 text with microseconds."""

    impl = String(32)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        """Write."""
        return None if value is None else value.astimezone(UTC).isoformat(timespec="microseconds")

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:
        """Read."""
        return None if value is None else datetime.fromisoformat(value)


def identity() -> Column[UUID]:
    """Return a primary key column."""
    return Column("id", UuidText, primary_key=True)
