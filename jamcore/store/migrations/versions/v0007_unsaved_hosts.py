"""Hosts whose final checkpoint failed, and when a generation was last verified.

Revision: 0007, after 0006.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from jamcore.store.tables.base import UtcText, UuidText

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade; downgrades are not offered."""
    op.create_table(
        "unsaved_hosts",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("host_id", UuidText(), nullable=False),
        sa.Column("code", sa.String(length=64), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("failed_at", UtcText(), nullable=False),
        sa.Column("settlement", sa.String(length=16), nullable=True),
        sa.Column("settled_at", UtcText(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("turns", sa.Text(), nullable=False),
        sa.Column("daemon_id", UuidText(), nullable=False),
        sa.Column("fence_epoch", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.id"], name=op.f("fk_unsaved_hosts_host_id_hosts")),
        sa.ForeignKeyConstraint(["daemon_id"], ["daemons.id"], name=op.f("fk_unsaved_hosts_daemon_id_daemons")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_unsaved_hosts")),
    )
    op.create_index(op.f("ix_unsaved_hosts_host_id"), "unsaved_hosts", ["host_id"])
    still_open = sa.text("settlement IS NULL")
    op.create_index(
        "uq_unsaved_hosts_one_open", "unsaved_hosts", ["host_id"], unique=True, sqlite_where=still_open, postgresql_where=still_open
    )
    op.create_table(
        "verifications",
        sa.Column("checkpoint_id", UuidText(), nullable=False),
        sa.Column("host_id", UuidText(), nullable=False),
        sa.Column("checked_at", UtcText(), nullable=False),
        sa.Column("sound_at", UtcText(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("daemon_id", UuidText(), nullable=False),
        sa.Column("fence_epoch", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["checkpoint_id"], ["checkpoints.id"], name=op.f("fk_verifications_checkpoint_id_checkpoints")),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.id"], name=op.f("fk_verifications_host_id_hosts")),
        sa.ForeignKeyConstraint(["daemon_id"], ["daemons.id"], name=op.f("fk_verifications_daemon_id_daemons")),
        sa.PrimaryKeyConstraint("checkpoint_id", name=op.f("pk_verifications")),
    )
