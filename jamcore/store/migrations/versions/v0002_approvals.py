"""Approvals and their rules, and whether a session's agent asks.

Revision: 0002, after 0001.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from jamcore.store.tables.base import UtcText, UuidText

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade; downgrades are not offered. Sessions of an older Jam never ask, as they never did."""
    op.add_column("sessions", sa.Column("approvals", sa.String(length=16), nullable=False, server_default="never"))
    op.create_table(
        "approvals",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("room_id", UuidText(), nullable=False),
        sa.Column("session_id", UuidText(), nullable=False),
        sa.Column("turn_id", UuidText(), nullable=False),
        sa.Column("process_epoch", sa.Integer(), nullable=False),
        sa.Column("request", sa.String(length=256), nullable=False),
        sa.Column("item", sa.String(length=256), nullable=False),
        sa.Column("subject", sa.String(length=16), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("preview", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("decided_by", sa.String(length=16), nullable=True),
        sa.Column("decision_id", UuidText(), nullable=True),
        sa.Column("rule_id", UuidText(), nullable=True),
        sa.Column("asked_at", UtcText(), nullable=False),
        sa.Column("deadline_at", UtcText(), nullable=False),
        sa.Column("decided_at", UtcText(), nullable=True),
        sa.ForeignKeyConstraint(["room_id"], ["rooms.id"], name=op.f("fk_approvals_room_id_rooms")),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_approvals_session_id_sessions")),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_approvals_turn_id_turns")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_approvals")),
    )
    op.create_index(op.f("ix_approvals_room_id"), "approvals", ["room_id"], unique=False)
    op.create_index(op.f("ix_approvals_state"), "approvals", ["state"], unique=False)
    op.create_index(op.f("ix_approvals_turn_id"), "approvals", ["turn_id"], unique=False)
    op.create_table(
        "approval_rules",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("scope", sa.String(length=16), nullable=False),
        sa.Column("scope_id", UuidText(), nullable=False),
        sa.Column("subject", sa.String(length=16), nullable=False),
        sa.Column("match", sa.String(length=16), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("created_at", UtcText(), nullable=False),
        sa.Column("created_by_approval", UuidText(), nullable=False),
        sa.ForeignKeyConstraint(
            ["created_by_approval"], ["approvals.id"], name=op.f("fk_approval_rules_created_by_approval_approvals")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_approval_rules")),
    )
    op.create_index(op.f("ix_approval_rules_scope_id"), "approval_rules", ["scope_id"], unique=False)
