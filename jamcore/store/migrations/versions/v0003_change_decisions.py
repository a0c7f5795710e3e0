"""What a reviewer said of a change request.

Revision: 0003, after 0002.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from jamcore.store.tables.base import UtcText, UuidText

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade; downgrades are not offered."""
    op.create_table(
        "change_decisions",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("change_id", UuidText(), nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
        sa.Column("decided_at", UtcText(), nullable=False),
        sa.ForeignKeyConstraint(["change_id"], ["changes.id"], name=op.f("fk_change_decisions_change_id_changes")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_change_decisions")),
        sa.UniqueConstraint("change_id", name=op.f("uq_change_decisions_change_id")),
    )
