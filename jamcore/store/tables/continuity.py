"""Checkpoints, decisions, observations: never changed, never deleted.

Which of two is the later one is decided by their number within the session, since a clock can be set back.
"""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Integer, String, Table, Text, UniqueConstraint

from jamcore.store.tables.base import METADATA, UtcText, UuidText, identity

CHECKPOINTS = Table(
    "checkpoints",
    METADATA,
    identity(),
    Column("host_id", UuidText, ForeignKey("hosts.id"), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("record", Text, nullable=False),
    Column("created_at", UtcText, nullable=False),
    UniqueConstraint("host_id", "generation"),
)

ACTIVATIONS = Table(
    "activations",
    METADATA,
    identity(),
    Column("session_id", UuidText, ForeignKey("sessions.id"), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("decision", Text, nullable=False),
    Column("decided_at", UtcText, nullable=False),
    UniqueConstraint("session_id", "seq"),
)

OBSERVATIONS = Table(
    "observations",
    METADATA,
    identity(),
    Column("session_id", UuidText, ForeignKey("sessions.id"), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("checkpoint_id", UuidText, nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("record", Text, nullable=False),
    Column("observed_at", UtcText, nullable=False),
    UniqueConstraint("session_id", "seq"),
)
