"""Operations and the story of each: the journal."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, ForeignKey, Integer, String, Table, Text, false

from jamcore.store.tables.base import METADATA, UtcText, UuidText, identity

OPERATIONS = Table(
    "operations",
    METADATA,
    identity(),
    Column("kind", String(48), nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("result", String(64), nullable=False),
    Column("room_id", UuidText, index=True),
    Column("host_id", UuidText, index=True),
    Column("session_id", UuidText),
    Column("workspace_id", UuidText, ForeignKey("workspaces.id")),
    Column("export_id", UuidText),
    Column("retention", String(16)),
    Column("force", Boolean, nullable=False, server_default=false()),
    Column("confirmed", String(64), nullable=False, server_default=""),
    Column("initial", Text, nullable=False),
    Column("daemon_id", UuidText, ForeignKey("daemons.id"), nullable=False),
    Column("fence_epoch", Integer, nullable=False),
    Column("started_at", UtcText, nullable=False),
    Column("ended_at", UtcText),
)
"""A story does not depend on what it tells of: only the workspace, which it holds against others, must be there.

``initial`` is the record that the operation was begun with, in its one JSON form: what its first step is given.
"""

OPERATION_EVENTS = Table(
    "operation_events",
    METADATA,
    Column("operation_id", UuidText, ForeignKey("operations.id"), primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("state", String(16), nullable=False),
    Column("step", String(48), nullable=False, server_default=""),
    Column("phase", String(16), nullable=False, server_default=""),
    Column("record", Text),
    Column("result", String(64), nullable=False, server_default=""),
    Column("at", UtcText, nullable=False),
)
"""``record`` is what was known at a step's boundary; there is none for a change of the state."""
