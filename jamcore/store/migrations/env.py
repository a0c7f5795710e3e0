"""Alembic's environment: runs on the connection that the store hands over."""

from __future__ import annotations

from alembic import context

from jamcore.store.tables.schema import METADATA

context.configure(
    connection=context.config.attributes["connection"], target_metadata=METADATA, render_as_batch=True, transactional_ddl=True
)
with context.begin_transaction():
    context.run_migrations()
