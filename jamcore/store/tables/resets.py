"""Continuity resets: never changed, never deleted; a host is the source of one at most."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, String, Table, Text

from jamcore.store.tables.base import METADATA, UtcText, UuidText, identity

CONTINUITY_RESETS = Table(
    "continuity_resets",
    METADATA,
    identity(),
    Column("source_host_id", UuidText, ForeignKey("hosts.id"), nullable=False, unique=True),
    Column("host_id", UuidText, nullable=False, unique=True),
    Column("confirmed", String(64), nullable=False),
    Column("record", Text, nullable=False),
    Column("created_at", UtcText, nullable=False),
)
"""``host_id`` refers to nothing yet when the row is written: the new host is made by what the record plans."""
