"""Exports, what ids of exports from elsewhere became here, and clean-ups of whole hosts.

Revision: 0009, after 0008.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from jamcore.store.tables.base import UtcText, UuidText

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade; downgrades are not offered."""
    _exports()
    _cleanups()


def _exports() -> None:
    owners = ("agent", "host", "session", "workspace", "room", "checkpoint", "daemon")
    op.create_table(
        "exports",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("maker", sa.String(length=16), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        *(sa.Column(f"{name}_id", UuidText(), nullable=True) for name in owners[:-1]),
        sa.Column("manifest_sha256", sa.String(length=64), nullable=False),
        sa.Column("files", sa.Integer(), nullable=False),
        sa.Column("bytes_total", sa.BigInteger(), nullable=False),
        sa.Column("created_at", UtcText(), nullable=False),
        sa.Column("verified_at", UtcText(), nullable=True),
        sa.Column("deleted_at", UtcText(), nullable=True),
        sa.Column("daemon_id", UuidText(), nullable=False),
        sa.Column("fence_epoch", sa.Integer(), nullable=False),
        *(sa.ForeignKeyConstraint([f"{name}_id"], [f"{name}s.id"], name=op.f(f"fk_exports_{name}_id_{name}s")) for name in owners),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_exports")),
    )
    for name in ("host", "workspace", "checkpoint"):
        op.create_index(op.f(f"ix_exports_{name}_id"), "exports", [f"{name}_id"])
    op.create_table(
        "export_ids",
        sa.Column("export_id", UuidText(), nullable=False),
        sa.Column("what", sa.String(length=32), nullable=False),
        sa.Column("old_id", UuidText(), nullable=False),
        sa.Column("new_id", UuidText(), nullable=False),
        sa.ForeignKeyConstraint(["export_id"], ["exports.id"], name=op.f("fk_export_ids_export_id_exports")),
        sa.PrimaryKeyConstraint("export_id", "what", "old_id", name=op.f("pk_export_ids")),
    )


def _cleanups() -> None:
    op.create_table(
        "host_cleanups",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("host_id", UuidText(), nullable=False),
        sa.Column("stage", sa.String(length=32), nullable=False),
        sa.Column("confirmed", sa.String(length=64), nullable=False),
        sa.Column("sandbox_absent", sa.Boolean(), nullable=False),
        sa.Column("planned_bytes", sa.BigInteger(), nullable=False),
        sa.Column("removed_bytes", sa.BigInteger(), nullable=True),
        sa.Column("retained_bytes", sa.BigInteger(), nullable=False),
        sa.Column("prepared_at", UtcText(), nullable=False),
        sa.Column("ended_at", UtcText(), nullable=True),
        sa.Column("daemon_id", UuidText(), nullable=False),
        sa.Column("fence_epoch", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.id"], name=op.f("fk_host_cleanups_host_id_hosts")),
        sa.ForeignKeyConstraint(["daemon_id"], ["daemons.id"], name=op.f("fk_host_cleanups_daemon_id_daemons")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_host_cleanups")),
    )
    op.create_index(op.f("ix_host_cleanups_host_id"), "host_cleanups", ["host_id"])
    going_on = sa.text("stage != 'succeeded'")
    op.create_index(
        "uq_host_cleanups_one_of_host",
        "host_cleanups",
        ["host_id"],
        unique=True,
        sqlite_where=going_on,
        postgresql_where=going_on,
    )
