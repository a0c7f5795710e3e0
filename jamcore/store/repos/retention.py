"""Removed payloads of checkpoints: one row for each, which goes forward only (WS-9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import insert, update

from jamcore.domain.errors import ConflictError
from jamcore.domain.retention import PAYLOAD_DELETION, DeletionStage, PayloadDeletion
from jamcore.store.repos.base import Repository, read_row
from jamcore.store.tables.retention import PAYLOAD_DELETIONS


class PayloadDeletions(Repository):
    """Which payloads were removed, and how far that is."""

    table, kind = PAYLOAD_DELETIONS, "payload deletion"

    def of_host(self, host: UUID) -> tuple[PayloadDeletion, ...]:
        """Return all rows of a host, in the order of their checkpoints' ids."""
        return self._found(PAYLOAD_DELETIONS.c.host_id == host)

    def of_removal(self, removal: UUID) -> tuple[PayloadDeletion, ...]:
        """Return the rows of one removal, in the order of their checkpoints' ids."""
        return self._found(PAYLOAD_DELETIONS.c.removal_id == removal)

    def of_checkpoint(self, checkpoint: UUID) -> PayloadDeletion | None:
        """Return the row of a checkpoint whose payload was removed or is about to be."""
        row = self._one(PAYLOAD_DELETIONS.c.checkpoint_id == checkpoint)
        return None if row is None else read_row(PayloadDeletion, row)

    def prepare(self, planned: PayloadDeletion) -> PayloadDeletion:
        """Keep a removal that is about to begin; the same again is fine.

        One that was prepared and given up before anything was gone is taken over by the next removal of the same checkpoint.

        Raises:
            ConflictError: The payload is gone, or went with another removal.
            FencedError: The row is another daemon's.
        """
        found = self._one(PAYLOAD_DELETIONS.c.checkpoint_id == planned.checkpoint_id)
        if found is None:
            values = planned.model_dump() | {"stage": planned.stage.value} | self._ownership()
            self._connection.execute(insert(PAYLOAD_DELETIONS).values(**values))
            return planned
        if found["removal_id"] != planned.removal_id:
            still = [
                PAYLOAD_DELETIONS.c.id == found["id"],
                PAYLOAD_DELETIONS.c.stage == DeletionStage.PREPARED.value,
                *self._fence(),
            ]
            values = {name: getattr(planned, name) for name in ("removal_id", "planned_bytes", "prepared_at")}
            if self._connection.execute(update(PAYLOAD_DELETIONS).where(*still).values(**values)).rowcount != 1:
                self._require_ours(found, planned.checkpoint_id)
                raise ConflictError(kind=self.kind, ref=str(planned.checkpoint_id), problem="it went with another removal")
        return read_row(PayloadDeletion, self._need(self._by_id(found["id"]), planned.checkpoint_id))

    def advance(self, removal: UUID, new: DeletionStage, *, freed: Mapping[UUID, int] | None = None) -> None:
        """Move every row of a removal to a stage; those that are there or further are left alone.

        Args:
            removal: Which.
            new: The stage.
            freed: The bytes that each checkpoint's share was.

        Raises:
            IllegalTransitionError, FencedError, ConflictError: Why one was not moved.
        """
        for row in self._rows(PAYLOAD_DELETIONS.c.removal_id == removal):
            old = DeletionStage(row["stage"])
            if old is new or (new is DeletionStage.PAYLOAD_REMOVED and old is DeletionStage.SUCCEEDED):
                continue
            PAYLOAD_DELETION.require(old, new, ref=str(row["id"]))
            values: dict[str, Any] = {"stage": new.value}
            if new is DeletionStage.PAYLOAD_REMOVED:
                values |= {
                    "removed_at": self._context.now,
                    "freed_bytes": (freed or {}).get(row["checkpoint_id"], row["planned_bytes"]),
                }
            else:
                values["ended_at"] = self._context.now
            still = [PAYLOAD_DELETIONS.c.id == row["id"], PAYLOAD_DELETIONS.c.stage == old.value, *self._fence()]
            if self._connection.execute(update(PAYLOAD_DELETIONS).where(*still).values(**values)).rowcount != 1:
                self._require_ours(row, row["id"])
                raise ConflictError(kind=self.kind, ref=str(row["id"]), problem="it was moved in between")

    def _found(self, *where: Any) -> tuple[PayloadDeletion, ...]:
        rows = self._rows(*where, order=[PAYLOAD_DELETIONS.c.checkpoint_id])
        return tuple(read_row(PayloadDeletion, row) for row in rows)
