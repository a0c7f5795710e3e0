"""Payloads of checkpoints that were removed, or are about to be. The checkpoints' own rows are never changed."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, String, Table

from jamcore.store.tables.base import METADATA, UtcText, UuidText, identity

PAYLOAD_DELETIONS = Table(
    "checkpoint_payload_deletions",
    METADATA,
    identity(),
    Column("checkpoint_id", UuidText, ForeignKey("checkpoints.id"), nullable=False, unique=True),
    Column("host_id", UuidText, ForeignKey("hosts.id"), nullable=False, index=True),
    Column("removal_id", UuidText, nullable=False),
    Column("stage", String(32), nullable=False),
    Column("planned_bytes", BigInteger, nullable=False),
    Column("freed_bytes", BigInteger),
    Column("prepared_at", UtcText, nullable=False),
    Column("removed_at", UtcText),
    Column("ended_at", UtcText),
    Column("daemon_id", UuidText, ForeignKey("daemons.id"), nullable=False),
    Column("fence_epoch", Integer, nullable=False),
)
