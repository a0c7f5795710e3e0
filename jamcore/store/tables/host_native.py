"""Work directories of host-native sessions."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, String, Table

from jamcore.store.tables.base import METADATA, UtcText, UuidText, identity

HOST_NATIVE_WORKSPACES = Table(
    "host_native_workspaces",
    METADATA,
    identity(),
    Column("account_id", UuidText, ForeignKey("daemons.id"), nullable=False),
    Column("agent_id", UuidText, ForeignKey("agents.id"), nullable=False),
    Column("session_id", UuidText, ForeignKey("sessions.id"), nullable=False, unique=True),
    Column("state", String(32), nullable=False),
    Column("created_at", UtcText, nullable=False),
)
