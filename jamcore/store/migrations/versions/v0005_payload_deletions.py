"""What was removed of a generation's payload is recorded.

Revision: 0005, after 0004.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from jamcore.store.tables.base import UtcText, UuidText

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade; downgrades are not offered."""
    op.create_table(
        "checkpoint_payload_deletions",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("checkpoint_id", UuidText(), nullable=False),
        sa.Column("host_id", UuidText(), nullable=False),
        sa.Column("removal_id", UuidText(), nullable=False),
        sa.Column("stage", sa.String(length=32), nullable=False),
        sa.Column("planned_bytes", sa.BigInteger(), nullable=False),
        sa.Column("freed_bytes", sa.BigInteger(), nullable=True),
        sa.Column("prepared_at", UtcText(), nullable=False),
        sa.Column("removed_at", UtcText(), nullable=True),
        sa.Column("ended_at", UtcText(), nullable=True),
        sa.Column("daemon_id", UuidText(), nullable=False),
        sa.Column("fence_epoch", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["checkpoint_id"], ["checkpoints.id"], name=op.f("fk_checkpoint_payload_deletions_checkpoint_id_checkpoints")
        ),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.id"], name=op.f("fk_checkpoint_payload_deletions_host_id_hosts")),
        sa.ForeignKeyConstraint(["daemon_id"], ["daemons.id"], name=op.f("fk_checkpoint_payload_deletions_daemon_id_daemons")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_checkpoint_payload_deletions")),
        sa.UniqueConstraint("checkpoint_id", name=op.f("uq_checkpoint_payload_deletions_checkpoint_id")),
    )
    op.create_index(op.f("ix_checkpoint_payload_deletions_host_id"), "checkpoint_payload_deletions", ["host_id"])
