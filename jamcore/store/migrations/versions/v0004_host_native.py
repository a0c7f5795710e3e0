"""Work directories of host-native sessions have a table of their own.

Revision: 0004, after 0003.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from jamcore.store.tables.base import UtcText, UuidText

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade; downgrades are not offered. Nothing is moved: no older Jam ran a session without a sandbox."""
    op.create_table(
        "host_native_workspaces",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("account_id", UuidText(), nullable=False),
        sa.Column("agent_id", UuidText(), nullable=False),
        sa.Column("session_id", UuidText(), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("created_at", UtcText(), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["daemons.id"], name=op.f("fk_host_native_workspaces_account_id_daemons")),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_host_native_workspaces_agent_id_agents")),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_host_native_workspaces_session_id_sessions")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_host_native_workspaces")),
        sa.UniqueConstraint("session_id", name=op.f("uq_host_native_workspaces_session_id")),
    )
