"""Continuity resets: which old session and binding became which new one.

Revision: 0006, after 0005.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from jamcore.store.tables.base import UtcText, UuidText

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade; downgrades are not offered."""
    op.create_table(
        "continuity_resets",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("source_host_id", UuidText(), nullable=False),
        sa.Column("host_id", UuidText(), nullable=False),
        sa.Column("confirmed", sa.String(length=64), nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
        sa.Column("created_at", UtcText(), nullable=False),
        sa.ForeignKeyConstraint(["source_host_id"], ["hosts.id"], name=op.f("fk_continuity_resets_source_host_id_hosts")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_continuity_resets")),
        sa.UniqueConstraint("source_host_id", name=op.f("uq_continuity_resets_source_host_id")),
        sa.UniqueConstraint("host_id", name=op.f("uq_continuity_resets_host_id")),
    )
