"""Exports, what ids of exports from elsewhere became here, and clean-ups of whole hosts."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Integer, String, Table

from jamcore.store.tables.base import METADATA, UtcText, UuidText, identity

EXPORTS = Table(
    "exports",
    METADATA,
    identity(),
    Column("maker", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("agent_id", UuidText, ForeignKey("agents.id")),
    Column("host_id", UuidText, ForeignKey("hosts.id"), index=True),
    Column("session_id", UuidText, ForeignKey("sessions.id")),
    Column("workspace_id", UuidText, ForeignKey("workspaces.id"), index=True),
    Column("room_id", UuidText, ForeignKey("rooms.id")),
    Column("checkpoint_id", UuidText, ForeignKey("checkpoints.id"), index=True),
    Column("manifest_sha256", String(64), nullable=False),
    Column("files", Integer, nullable=False),
    Column("bytes_total", BigInteger, nullable=False),
    Column("created_at", UtcText, nullable=False),
    Column("verified_at", UtcText),
    Column("deleted_at", UtcText),
    Column("daemon_id", UuidText, ForeignKey("daemons.id"), nullable=False),
    Column("fence_epoch", Integer, nullable=False),
)

EXPORT_IDS = Table(
    "export_ids",
    METADATA,
    Column("export_id", UuidText, ForeignKey("exports.id"), primary_key=True),
    Column("what", String(32), primary_key=True),
    Column("old_id", UuidText, primary_key=True),
    Column("new_id", UuidText, nullable=False),
)

HOST_CLEANUPS = Table(
    "host_cleanups",
    METADATA,
    identity(),
    Column("host_id", UuidText, ForeignKey("hosts.id"), nullable=False, index=True),
    Column("stage", String(32), nullable=False),
    Column("confirmed", String(64), nullable=False),
    Column("sandbox_absent", Boolean, nullable=False),
    Column("planned_bytes", BigInteger, nullable=False),
    Column("removed_bytes", BigInteger),
    Column("retained_bytes", BigInteger, nullable=False),
    Column("prepared_at", UtcText, nullable=False),
    Column("ended_at", UtcText),
    Column("daemon_id", UuidText, ForeignKey("daemons.id"), nullable=False),
    Column("fence_epoch", Integer, nullable=False),
)
