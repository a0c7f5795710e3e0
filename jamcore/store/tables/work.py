"""Runs, change requests and what became of them."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Table, Text

from jamcore.store.tables.base import METADATA, UtcText, UuidText, identity

RUNS = Table(
    "runs",
    METADATA,
    Column("room_id", UuidText, ForeignKey("rooms.id"), primary_key=True),
    Column("turn_id", UuidText, nullable=False),
    Column("change_id", UuidText, nullable=False, unique=True),
    Column("objective", Text, nullable=False),
)

CHANGES = Table(
    "changes",
    METADATA,
    identity(),
    Column("room_id", UuidText, ForeignKey("rooms.id"), nullable=False),
    Column("session_id", UuidText, ForeignKey("sessions.id"), nullable=False),
    Column("record", Text, nullable=False),
    Column("created_at", UtcText, nullable=False),
)

CHANGE_DECISIONS = Table(
    "change_decisions",
    METADATA,
    identity(),
    Column("change_id", UuidText, ForeignKey("changes.id"), nullable=False, unique=True),
    Column("record", Text, nullable=False),
    Column("decided_at", UtcText, nullable=False),
)
"""At most one for each change request: it is judged once."""
