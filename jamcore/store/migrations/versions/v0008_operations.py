"""One table of operations for everything that is journaled, and one story of each: the journal's own two tables go.

Revision: 0008, after 0007.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from jamcore.store.tables.base import UtcText, UuidText

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade; downgrades are not offered."""
    op.create_table("kept_operations", *_kept())
    op.execute(
        "INSERT INTO kept_operations (id, kind, state, result, host_id, session_id, workspace_id, initial, daemon_id, fence_epoch,"
        " started_at, ended_at) SELECT id, kind, state, result, host_id, session_id, workspace_id, '', daemon_id, fence_epoch,"
        " started_at, ended_at FROM operations"
    )
    # The journal did not say which daemon wrote it; there was one for each database.
    op.execute(
        "INSERT INTO kept_operations (id, kind, state, result, initial, daemon_id, fence_epoch, started_at, ended_at)"
        " SELECT id, kind, CASE state WHEN 'interrupted' THEN 'failed' ELSE state END,"
        " CASE state WHEN 'interrupted' THEN 'interrupted' WHEN 'failed' THEN 'given-up' ELSE '' END, initial,"
        " (SELECT id FROM daemons ORDER BY id LIMIT 1), (SELECT fence_epoch FROM daemons ORDER BY id LIMIT 1), at,"
        " CASE state WHEN 'running' THEN NULL ELSE at END FROM journal_actions"
    )
    op.create_table("kept_events", *_kept_events())
    op.execute(
        "INSERT INTO kept_events (operation_id, seq, state, step, phase, record, result, at)"
        " SELECT operation_id, seq, state, '', '', NULL, result, at FROM operation_events"
    )
    op.execute(
        "INSERT INTO kept_events (operation_id, seq, state, step, phase, record, result, at)"
        " SELECT id, 1, 'running', '', '', NULL, '', at FROM journal_actions"
    )
    op.execute(
        "INSERT INTO kept_events (operation_id, seq, state, step, phase, record, result, at)"
        " SELECT action_id, seq + 1, 'running', step, phase, record, COALESCE(failure, ''), at FROM journal_steps"
    )
    for table in ("journal_steps", "journal_actions", "operation_events", "operations"):
        op.drop_table(table)
    _make()
    op.execute("INSERT INTO operations SELECT * FROM kept_operations")
    op.execute("INSERT INTO operation_events SELECT * FROM kept_events")
    op.drop_table("kept_events")
    op.drop_table("kept_operations")


def _kept() -> list[sa.Column[object]]:
    """Return the columns of the operations, without their rules."""
    return [
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("kind", sa.String(length=48), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("result", sa.String(length=64), nullable=False),
        sa.Column("room_id", UuidText(), nullable=True),
        sa.Column("host_id", UuidText(), nullable=True),
        sa.Column("session_id", UuidText(), nullable=True),
        sa.Column("workspace_id", UuidText(), nullable=True),
        sa.Column("export_id", UuidText(), nullable=True),
        sa.Column("retention", sa.String(length=16), nullable=True),
        sa.Column("force", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("confirmed", sa.String(length=64), server_default="", nullable=False),
        sa.Column("initial", sa.Text(), nullable=False),
        sa.Column("daemon_id", UuidText(), nullable=False),
        sa.Column("fence_epoch", sa.Integer(), nullable=False),
        sa.Column("started_at", UtcText(), nullable=False),
        sa.Column("ended_at", UtcText(), nullable=True),
    ]


def _kept_events() -> list[sa.Column[object]]:
    return [
        sa.Column("operation_id", UuidText(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("step", sa.String(length=48), server_default="", nullable=False),
        sa.Column("phase", sa.String(length=16), server_default="", nullable=False),
        sa.Column("record", sa.Text(), nullable=True),
        sa.Column("result", sa.String(length=64), server_default="", nullable=False),
        sa.Column("at", UtcText(), nullable=False),
    ]


def _make() -> None:
    """Make both tables with all their rules."""
    op.create_table(
        "operations",
        *_kept(),
        *(
            sa.ForeignKeyConstraint([f"{name}_id"], [f"{name}s.id"], name=op.f(f"fk_operations_{name}_id_{name}s"))
            for name in ("workspace", "daemon")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operations")),
    )
    for column in ("state", "room_id", "host_id"):
        op.create_index(op.f(f"ix_operations_{column}"), "operations", [column])
    unfinished = sa.text("state IN ('pending', 'running')")
    op.create_index(
        "uq_operations_one_unfinished",
        "operations",
        ["workspace_id"],
        unique=True,
        sqlite_where=unfinished,
        postgresql_where=unfinished,
    )
    op.create_table(
        "operation_events",
        *_kept_events(),
        sa.ForeignKeyConstraint(["operation_id"], ["operations.id"], name=op.f("fk_operation_events_operation_id_operations")),
        sa.PrimaryKeyConstraint("operation_id", "seq", name=op.f("pk_operation_events")),
    )
