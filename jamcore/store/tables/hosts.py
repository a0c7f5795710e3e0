"""Daemons, agents, hosts, sessions, workspaces, leases."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, ForeignKey, Integer, String, Table, Text

from jamcore.store.tables.base import METADATA, UtcText, UuidText, identity

DAEMONS = Table("daemons", METADATA, identity(), Column("fence_epoch", Integer, nullable=False))

AGENTS = Table(
    "agents",
    METADATA,
    identity(),
    Column("name", String(64), nullable=False, unique=True),
    Column("provider", String(32), nullable=False),
    Column("created_at", UtcText, nullable=False),
)

HOSTS = Table(
    "hosts",
    METADATA,
    identity(),
    Column("agent_id", UuidText, ForeignKey("agents.id"), nullable=False),
    Column("provider", String(32), nullable=False),
    Column("engine", String(32), nullable=False),
    Column("cell", Text, nullable=False),
    Column("placement", String(16), nullable=False),
    Column("sandbox", String(63), nullable=False, unique=True),
    Column("plan_json", Text, nullable=False),
    Column("state", String(16), nullable=False),
    Column("daemon_id", UuidText, ForeignKey("daemons.id"), nullable=False),
    Column("fence_epoch", Integer, nullable=False),
    Column("created_at", UtcText, nullable=False),
)
SESSIONS = Table(
    "sessions",
    METADATA,
    identity(),
    Column("host_id", UuidText, ForeignKey("hosts.id"), nullable=False, index=True),
    Column("agent_id", UuidText, ForeignKey("agents.id"), nullable=False),
    Column("state", String(16), nullable=False),
    Column("provider_identity", String(256)),
    Column("model", String(128)),
    Column("approvals", String(16), nullable=False, server_default="never"),
    Column("created_at", UtcText, nullable=False),
)

WORKSPACES = Table(
    "workspaces",
    METADATA,
    identity(),
    Column("session_id", UuidText, ForeignKey("sessions.id"), nullable=False, unique=True),
    Column("host_id", UuidText, ForeignKey("hosts.id"), nullable=False),
    Column("source", String(32), nullable=False),
    Column("path", Text),
    Column("commit", String(64)),
    Column("guest_path", String(512), nullable=False),
    Column("state", String(32), nullable=False),
    Column("created_at", UtcText, nullable=False),
)

LEASES = Table(
    "leases",
    METADATA,
    Column("host_id", UuidText, ForeignKey("hosts.id"), primary_key=True),
    Column("session_id", UuidText, ForeignKey("sessions.id"), primary_key=True),
    Column("daemon_id", UuidText, ForeignKey("daemons.id"), nullable=False),
    Column("fence_epoch", Integer, nullable=False),
)

ROOMS = Table(
    "rooms",
    METADATA,
    identity(),
    Column("name", String(128), nullable=False, unique=True),
    Column("agent_id", UuidText, ForeignKey("agents.id"), nullable=False),
    Column("request_digest", String(64), nullable=False),
    Column("created_at", UtcText, nullable=False),
)

BINDINGS = Table(
    "bindings",
    METADATA,
    identity(),
    Column("room_id", UuidText, ForeignKey("rooms.id"), nullable=False),
    Column("session_id", UuidText, ForeignKey("sessions.id"), nullable=False, index=True),
    Column("live", Boolean, nullable=False),
)
