"""Continuity resets."""

from __future__ import annotations

from uuid import UUID

from jamcore.domain.resets import ContinuityReset
from jamcore.store.repos.base import Repository
from jamcore.store.tables.resets import CONTINUITY_RESETS


class ContinuityResets(Repository):
    """Which conversation was given up for which new one: one record for each source, never changed (CONT-9)."""

    table, kind = CONTINUITY_RESETS, "continuity reset"

    def insert(self, reset: ContinuityReset) -> ContinuityReset:
        """Keep a record; the same again is fine.

        Raises:
            ConflictError: The id is another record's, or the host was the source of another one.
        """
        values = {
            "id": reset.id,
            "source_host_id": reset.source_host_id,
            "host_id": reset.host_id,
            "confirmed": reset.confirmed,
            "record": reset.canonical_json().decode(),
            "created_at": reset.created_at,
        }
        self._insert_once(reset.id, values, compare=("record",), taken="the conversation is being started afresh already")
        return reset

    def find_id(self, identifier: UUID) -> ContinuityReset | None:
        """Return a record or ``None``."""
        row = self._by_id(identifier)
        return None if row is None else ContinuityReset.model_validate_json(row["record"])

    def of_source(self, host: UUID) -> ContinuityReset | None:
        """Return the record whose source a host is. Until that host is archived, the reset is not finished."""
        row = self._one(CONTINUITY_RESETS.c.source_host_id == host)
        return None if row is None else ContinuityReset.model_validate_json(row["record"])

    def that_made(self, host: UUID) -> ContinuityReset | None:
        """Return the record that a host was made by."""
        row = self._one(CONTINUITY_RESETS.c.host_id == host)
        return None if row is None else ContinuityReset.model_validate_json(row["record"])

    def lineage(self, host: UUID) -> tuple[UUID, ...]:
        """Return a host and those that it took the place of, newest first."""
        hosts = [host]
        while (reset := self.that_made(hosts[-1])) is not None and reset.source_host_id not in hosts:
            hosts.append(reset.source_host_id)
        return tuple(hosts)

    def referenced_checkpoints(self, host: UUID) -> frozenset[UUID]:
        """Return the generations of a host that its reset is bound to: their payload is never deleted (WS-9)."""
        reset = self.of_source(host)
        return reset.referenced_checkpoints() if reset else frozenset()
