"""Epochs of a daemon's lives: who comes later owns the rows, and who came before can write nothing any more (SHARE-2, OWN-7)."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, bindparam, insert, select, update

from jamcore.store.errors import FencedError
from jamcore.store.repos.base import Fence
from jamcore.store.tables.exports import EXPORTS, HOST_CLEANUPS
from jamcore.store.tables.hosts import DAEMONS, HOSTS, LEASES
from jamcore.store.tables.operations import OPERATIONS
from jamcore.store.tables.retention import PAYLOAD_DELETIONS
from jamcore.store.tables.safekeeping import UNSAVED_HOSTS, VERIFICATIONS

_EPOCH = select(DAEMONS.c.fence_epoch).where(DAEMONS.c.id == bindparam("daemon")).with_for_update()
"""Made once: every transaction begins with it."""


def take_over(connection: Connection, daemon_id: UUID) -> Fence:
    """Begin a new epoch of this daemon and adopt all that carries its fence, so that start-up can finish them."""
    known = connection.execute(
        select(DAEMONS.c.fence_epoch).where(DAEMONS.c.id == daemon_id).with_for_update()
    ).scalar_one_or_none()
    epoch = (known or 0) + 1
    if known is None:
        connection.execute(insert(DAEMONS).values(id=daemon_id, fence_epoch=epoch))
    else:
        connection.execute(update(DAEMONS).where(DAEMONS.c.id == daemon_id).values(fence_epoch=epoch))
    for table in (HOSTS, LEASES, OPERATIONS, EXPORTS, HOST_CLEANUPS, PAYLOAD_DELETIONS, UNSAVED_HOSTS, VERIFICATIONS):
        connection.execute(update(table).where(table.c.daemon_id == daemon_id).values(fence_epoch=epoch))
    return Fence(daemon_id=daemon_id, epoch=epoch)


def require_epoch(connection: Connection, fence: Fence) -> None:
    """Refuse a transaction of a life that has ended: rows without a fence of their own (turns, events) are protected by this.

    The row is locked for the length of the transaction where the database can (SQLite has one writer at a time anyway), and against this
    daemon's own transactions too: one whose connection was lost may be committing still, and what comes after it must see what it wrote.

    Raises:
        FencedError: The same daemon was started again.
    """
    if connection.execute(_EPOCH, {"daemon": fence.daemon_id}).scalar_one_or_none() != fence.epoch:
        raise FencedError(kind="daemon", ref=str(fence.daemon_id))
