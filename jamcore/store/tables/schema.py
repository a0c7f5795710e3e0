"""The whole schema, for what makes or compares one: the tables, and the indexes that hold for some rows only.

The daemon reads and writes tables and needs no index to do so. Each condition is written for both databases, and naming PostgreSQL's
loads its dialect: 20 ms of every start.
"""

from __future__ import annotations

from sqlalchemy import Index, text

from jamcore.store.tables import METADATA
from jamcore.store.tables.exports import HOST_CLEANUPS
from jamcore.store.tables.hosts import BINDINGS, HOSTS
from jamcore.store.tables.operations import OPERATIONS
from jamcore.store.tables.safekeeping import UNSAVED_HOSTS

__all__ = ["METADATA"]

_LIVE_SHARED = text("placement = 'shared' AND state NOT IN ('archived', 'removed')")
Index("uq_hosts_one_live_shared", HOSTS.c.agent_id, unique=True, sqlite_where=_LIVE_SHARED, postgresql_where=_LIVE_SHARED)
"""At most one live Shared host for each agent (SHARE-1)."""

_UNFINISHED = text("state IN ('pending', 'running')")
Index(
    "uq_operations_one_unfinished", OPERATIONS.c.workspace_id, unique=True, sqlite_where=_UNFINISHED, postgresql_where=_UNFINISHED
)
"""At most one Running operation for each workspace (WS-2): a Pending one reads what a Running one would change, so it counts too."""

Index(
    "uq_bindings_one_live_of_room",
    BINDINGS.c.room_id,
    unique=True,
    sqlite_where=text("live = 1"),
    postgresql_where=text("live"),
)
"""At most one live binding for each room."""

_OPEN = text("settlement IS NULL")
Index("uq_unsaved_hosts_one_open", UNSAVED_HOSTS.c.host_id, unique=True, sqlite_where=_OPEN, postgresql_where=_OPEN)
"""At most one final checkpoint that failed and is not settled, for each host (CONT-8)."""

_GOING_ON = text("stage != 'succeeded'")
Index("uq_host_cleanups_one_of_host", HOST_CLEANUPS.c.host_id, unique=True, sqlite_where=_GOING_ON, postgresql_where=_GOING_ON)
"""At most one clean-up of a host that has not ended (WS-8)."""
