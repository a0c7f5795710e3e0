"""Turns, and the numbered events of rooms."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Integer, String, Table, Text, UniqueConstraint

from jamcore.store.tables.base import METADATA, UtcText, UuidText, identity

TURNS = Table(
    "turns",
    METADATA,
    identity(),
    Column("room_id", UuidText, ForeignKey("rooms.id"), nullable=False),
    Column("session_id", UuidText, ForeignKey("sessions.id"), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("text", Text, nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("provider_turn", String(256)),
    Column("detail", Text, nullable=False),
    Column("checkpoint_id", UuidText),
    Column("workspace_digest", String(64)),
    Column("process_epoch", Integer, nullable=False),
    Column("accepted_at", UtcText, nullable=False),
    Column("ended_at", UtcText),
    UniqueConstraint("session_id", "seq"),
)
"""``seq`` is the order of acceptance within the session; times are for people, since a clock can be set back."""

COUNTERS = Table(
    "event_counters",
    METADATA,
    Column("room_id", UuidText, ForeignKey("rooms.id"), primary_key=True),
    Column("seq", Integer, nullable=False),
)

EVENTS = Table(
    "events",
    METADATA,
    Column("room_id", UuidText, ForeignKey("rooms.id"), primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("at", UtcText, nullable=False),
    Column("turn_id", UuidText),
    Column("payload", Text, nullable=False),
)
