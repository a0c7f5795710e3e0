"""The first schema.

Revision: 0001, after nothing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from jamcore.store.tables.base import UtcText, UuidText

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade; downgrades are not offered."""
    op.create_table(
        "agents",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("provider", sa.String(length=32), nullable=False),
        sa.Column("created_at", UtcText(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_agents")),
        sa.UniqueConstraint("name", name=op.f("uq_agents_name")),
    )
    op.create_table(
        "daemons",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("fence_epoch", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_daemons")),
    )
    op.create_table(
        "journal_actions",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("initial", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("at", UtcText(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_journal_actions")),
    )
    with op.batch_alter_table("journal_actions", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_journal_actions_state"), ["state"], unique=False)

    op.create_table(
        "hosts",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("agent_id", UuidText(), nullable=False),
        sa.Column("provider", sa.String(length=32), nullable=False),
        sa.Column("engine", sa.String(length=32), nullable=False),
        sa.Column("cell", sa.Text(), nullable=False),
        sa.Column("placement", sa.String(length=16), nullable=False),
        sa.Column("sandbox", sa.String(length=63), nullable=False),
        sa.Column("plan_json", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("daemon_id", UuidText(), nullable=False),
        sa.Column("fence_epoch", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcText(), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_hosts_agent_id_agents")),
        sa.ForeignKeyConstraint(["daemon_id"], ["daemons.id"], name=op.f("fk_hosts_daemon_id_daemons")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hosts")),
        sa.UniqueConstraint("sandbox", name=op.f("uq_hosts_sandbox")),
    )
    with op.batch_alter_table("hosts", schema=None) as batch_op:
        batch_op.create_index(
            "uq_hosts_one_live_shared",
            ["agent_id"],
            unique=True,
            sqlite_where=sa.text("placement = 'shared' AND state NOT IN ('archived', 'removed')"),
            postgresql_where=sa.text("placement = 'shared' AND state NOT IN ('archived', 'removed')"),
        )

    op.create_table(
        "journal_steps",
        sa.Column("action_id", UuidText(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("step", sa.String(length=64), nullable=False),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
        sa.Column("failure", sa.String(length=64), nullable=True),
        sa.Column("at", UtcText(), nullable=False),
        sa.ForeignKeyConstraint(["action_id"], ["journal_actions.id"], name=op.f("fk_journal_steps_action_id_journal_actions")),
        sa.PrimaryKeyConstraint("action_id", "seq", name=op.f("pk_journal_steps")),
    )
    op.create_table(
        "rooms",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("agent_id", UuidText(), nullable=False),
        sa.Column("request_digest", sa.String(length=64), nullable=False),
        sa.Column("created_at", UtcText(), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_rooms_agent_id_agents")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rooms")),
        sa.UniqueConstraint("name", name=op.f("uq_rooms_name")),
    )
    op.create_table(
        "checkpoints",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("host_id", UuidText(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
        sa.Column("created_at", UtcText(), nullable=False),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.id"], name=op.f("fk_checkpoints_host_id_hosts")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_checkpoints")),
        sa.UniqueConstraint("host_id", "generation", name=op.f("uq_checkpoints_host_id_generation")),
    )
    op.create_table(
        "event_counters",
        sa.Column("room_id", UuidText(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["room_id"], ["rooms.id"], name=op.f("fk_event_counters_room_id_rooms")),
        sa.PrimaryKeyConstraint("room_id", name=op.f("pk_event_counters")),
    )
    op.create_table(
        "events",
        sa.Column("room_id", UuidText(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("at", UtcText(), nullable=False),
        sa.Column("turn_id", UuidText(), nullable=True),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["room_id"], ["rooms.id"], name=op.f("fk_events_room_id_rooms")),
        sa.PrimaryKeyConstraint("room_id", "seq", name=op.f("pk_events")),
    )
    op.create_table(
        "runs",
        sa.Column("room_id", UuidText(), nullable=False),
        sa.Column("turn_id", UuidText(), nullable=False),
        sa.Column("change_id", UuidText(), nullable=False),
        sa.Column("objective", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["room_id"], ["rooms.id"], name=op.f("fk_runs_room_id_rooms")),
        sa.PrimaryKeyConstraint("room_id", name=op.f("pk_runs")),
        sa.UniqueConstraint("change_id", name=op.f("uq_runs_change_id")),
    )
    op.create_table(
        "sessions",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("host_id", UuidText(), nullable=False),
        sa.Column("agent_id", UuidText(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("provider_identity", sa.String(length=256), nullable=True),
        sa.Column("model", sa.String(length=128), nullable=True),
        sa.Column("created_at", UtcText(), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_sessions_agent_id_agents")),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.id"], name=op.f("fk_sessions_host_id_hosts")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
    )
    with op.batch_alter_table("sessions", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_sessions_host_id"), ["host_id"], unique=False)

    op.create_table(
        "activations",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("session_id", UuidText(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("decided_at", UtcText(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_activations_session_id_sessions")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_activations")),
        sa.UniqueConstraint("session_id", "seq", name=op.f("uq_activations_session_id_seq")),
    )
    op.create_table(
        "bindings",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("room_id", UuidText(), nullable=False),
        sa.Column("session_id", UuidText(), nullable=False),
        sa.Column("live", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["room_id"], ["rooms.id"], name=op.f("fk_bindings_room_id_rooms")),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_bindings_session_id_sessions")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bindings")),
    )
    with op.batch_alter_table("bindings", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_bindings_session_id"), ["session_id"], unique=False)
        batch_op.create_index(
            "uq_bindings_one_live_of_room",
            ["room_id"],
            unique=True,
            sqlite_where=sa.text("live = 1"),
            postgresql_where=sa.text("live"),
        )

    op.create_table(
        "changes",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("room_id", UuidText(), nullable=False),
        sa.Column("session_id", UuidText(), nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
        sa.Column("created_at", UtcText(), nullable=False),
        sa.ForeignKeyConstraint(["room_id"], ["rooms.id"], name=op.f("fk_changes_room_id_rooms")),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_changes_session_id_sessions")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_changes")),
    )
    op.create_table(
        "leases",
        sa.Column("host_id", UuidText(), nullable=False),
        sa.Column("session_id", UuidText(), nullable=False),
        sa.Column("daemon_id", UuidText(), nullable=False),
        sa.Column("fence_epoch", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["daemon_id"], ["daemons.id"], name=op.f("fk_leases_daemon_id_daemons")),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.id"], name=op.f("fk_leases_host_id_hosts")),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_leases_session_id_sessions")),
        sa.PrimaryKeyConstraint("host_id", "session_id", name=op.f("pk_leases")),
    )
    op.create_table(
        "observations",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("session_id", UuidText(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("checkpoint_id", UuidText(), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
        sa.Column("observed_at", UtcText(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_observations_session_id_sessions")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_observations")),
        sa.UniqueConstraint("session_id", "seq", name=op.f("uq_observations_session_id_seq")),
    )
    op.create_table(
        "turns",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("room_id", UuidText(), nullable=False),
        sa.Column("session_id", UuidText(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("provider_turn", sa.String(length=256), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("checkpoint_id", UuidText(), nullable=True),
        sa.Column("workspace_digest", sa.String(length=64), nullable=True),
        sa.Column("process_epoch", sa.Integer(), nullable=False),
        sa.Column("accepted_at", UtcText(), nullable=False),
        sa.Column("ended_at", UtcText(), nullable=True),
        sa.ForeignKeyConstraint(["room_id"], ["rooms.id"], name=op.f("fk_turns_room_id_rooms")),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_turns_session_id_sessions")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_turns")),
        sa.UniqueConstraint("session_id", "seq", name=op.f("uq_turns_session_id_seq")),
    )
    with op.batch_alter_table("turns", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_turns_state"), ["state"], unique=False)

    op.create_table(
        "workspaces",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("session_id", UuidText(), nullable=False),
        sa.Column("host_id", UuidText(), nullable=False),
        sa.Column("source", sa.String(length=32), nullable=False),
        sa.Column("path", sa.Text(), nullable=True),
        sa.Column("commit", sa.String(length=64), nullable=True),
        sa.Column("guest_path", sa.String(length=512), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("created_at", UtcText(), nullable=False),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.id"], name=op.f("fk_workspaces_host_id_hosts")),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_workspaces_session_id_sessions")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workspaces")),
        sa.UniqueConstraint("session_id", name=op.f("uq_workspaces_session_id")),
    )
    op.create_table(
        "operations",
        sa.Column("id", UuidText(), nullable=False),
        sa.Column("workspace_id", UuidText(), nullable=False),
        sa.Column("host_id", UuidText(), nullable=False),
        sa.Column("session_id", UuidText(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("result", sa.String(length=400), nullable=False),
        sa.Column("daemon_id", UuidText(), nullable=False),
        sa.Column("fence_epoch", sa.Integer(), nullable=False),
        sa.Column("started_at", UtcText(), nullable=False),
        sa.Column("ended_at", UtcText(), nullable=True),
        sa.ForeignKeyConstraint(["daemon_id"], ["daemons.id"], name=op.f("fk_operations_daemon_id_daemons")),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.id"], name=op.f("fk_operations_host_id_hosts")),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_operations_session_id_sessions")),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name=op.f("fk_operations_workspace_id_workspaces")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operations")),
    )
    with op.batch_alter_table("operations", schema=None) as batch_op:
        batch_op.create_index(
            "uq_operations_one_running",
            ["workspace_id"],
            unique=True,
            sqlite_where=sa.text("state = 'running'"),
            postgresql_where=sa.text("state = 'running'"),
        )

    op.create_table(
        "operation_events",
        sa.Column("operation_id", UuidText(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("result", sa.String(length=400), nullable=False),
        sa.Column("at", UtcText(), nullable=False),
        sa.ForeignKeyConstraint(["operation_id"], ["operations.id"], name=op.f("fk_operation_events_operation_id_operations")),
        sa.PrimaryKeyConstraint("operation_id", "seq", name=op.f("pk_operation_events")),
    )
