"""Hosts whose final checkpoint failed, and what it showed when a generation was last read whole."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Integer, String, Table, Text

from jamcore.store.tables.base import METADATA, UtcText, UuidText, identity

UNSAVED_HOSTS = Table(
    "unsaved_hosts",
    METADATA,
    identity(),
    Column("host_id", UuidText, ForeignKey("hosts.id"), nullable=False, index=True),
    Column("code", String(64), nullable=False),
    Column("problem", Text, nullable=False),
    Column("failed_at", UtcText, nullable=False),
    Column("settlement", String(16)),
    Column("settled_at", UtcText),
    Column("detail", Text, nullable=False),
    Column("turns", Text, nullable=False),
    Column("daemon_id", UuidText, ForeignKey("daemons.id"), nullable=False),
    Column("fence_epoch", Integer, nullable=False),
)
"""``turns`` is a JSON list of ids. A settled row stays as a record."""

VERIFICATIONS = Table(
    "verifications",
    METADATA,
    Column("checkpoint_id", UuidText, ForeignKey("checkpoints.id"), primary_key=True),
    Column("host_id", UuidText, ForeignKey("hosts.id"), nullable=False),
    Column("checked_at", UtcText, nullable=False),
    Column("sound_at", UtcText),
    Column("problem", Text, nullable=False),
    Column("daemon_id", UuidText, ForeignKey("daemons.id"), nullable=False),
    Column("fence_epoch", Integer, nullable=False),
)
