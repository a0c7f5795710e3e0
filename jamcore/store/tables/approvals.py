"""Approvals and the rules that people made of them."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Integer, String, Table, Text

from jamcore.store.tables.base import METADATA, UtcText, UuidText, identity

APPROVALS = Table(
    "approvals",
    METADATA,
    identity(),
    Column("room_id", UuidText, ForeignKey("rooms.id"), nullable=False, index=True),
    Column("session_id", UuidText, ForeignKey("sessions.id"), nullable=False),
    Column("turn_id", UuidText, ForeignKey("turns.id"), nullable=False, index=True),
    Column("process_epoch", Integer, nullable=False),
    Column("request", String(256), nullable=False),
    Column("item", String(256), nullable=False),
    Column("subject", String(16), nullable=False),
    Column("detail", Text, nullable=False),
    Column("preview", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("decided_by", String(16)),
    Column("decision_id", UuidText),
    Column("rule_id", UuidText),
    Column("asked_at", UtcText, nullable=False),
    Column("deadline_at", UtcText, nullable=False),
    Column("decided_at", UtcText),
)
"""``rule_id`` refers to nothing: a rule may be removed, and what it once allowed stays as it was."""

APPROVAL_RULES = Table(
    "approval_rules",
    METADATA,
    identity(),
    Column("scope", String(16), nullable=False),
    Column("scope_id", UuidText, nullable=False, index=True),
    Column("subject", String(16), nullable=False),
    Column("match", String(16), nullable=False),
    Column("text", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("created_at", UtcText, nullable=False),
    Column("created_by_approval", UuidText, ForeignKey("approvals.id"), nullable=False),
)
