"""Operations with their events, runs, change requests."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Integer, String, Table, Text

from jamcore.store.tables.base import METADATA, UtcText, UuidText, identity

OPERATIONS = Table(
    "operations",
    METADATA,
    identity(),
    Column("workspace_id", UuidText, ForeignKey("workspaces.id"), nullable=False),
    Column("host_id", UuidText, ForeignKey("hosts.id"), nullable=False),
    Column("session_id", UuidText, ForeignKey("sessions.id"), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("state", String(16), nullable=False),
    Column("result", String(400), nullable=False),
    Column("daemon_id", UuidText, ForeignKey("daemons.id"), nullable=False),
    Column("fence_epoch", Integer, nullable=False),
    Column("started_at", UtcText, nullable=False),
    Column("ended_at", UtcText),
)

OPERATION_EVENTS = Table(
    "operation_events",
    METADATA,
    Column("operation_id", UuidText, ForeignKey("operations.id"), primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("state", String(16), nullable=False),
    Column("result", String(400), nullable=False),
    Column("at", UtcText, nullable=False),
)

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

JOURNAL = Table(
    "journal_actions",
    METADATA,
    identity(),
    Column("kind", String(64), nullable=False),
    Column("initial", Text, nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("at", UtcText, nullable=False),
)

JOURNAL_STEPS = Table(
    "journal_steps",
    METADATA,
    Column("action_id", UuidText, ForeignKey("journal_actions.id"), primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("step", String(64), nullable=False),
    Column("phase", String(16), nullable=False),
    Column("record", Text, nullable=False),
    Column("failure", String(64)),
    Column("at", UtcText, nullable=False),
)
