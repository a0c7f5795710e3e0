"""Hosts whose final checkpoint failed, and what it showed when generations were read whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import insert, update

from jamcore.domain.errors import ConflictError
from jamcore.domain.safekeeping import Settlement, UnsavedHost, Verification
from jamcore.store.repos.base import Repository, read_row
from jamcore.store.tables.safekeeping import UNSAVED_HOSTS, VERIFICATIONS


class UnsavedHosts(Repository):
    """Final checkpoints that failed: at most one of a host is not settled, and settled ones stay (CONT-8)."""

    table, kind = UNSAVED_HOSTS, "unsaved host"

    def open_of_host(self, host: UUID) -> UnsavedHost | None:
        """Return the one that keeps a host from starting."""
        row = self._one(UNSAVED_HOSTS.c.host_id == host, UNSAVED_HOSTS.c.settlement.is_(None))
        return None if row is None else _unsaved(row)

    def of_host(self, host: UUID) -> tuple[UnsavedHost, ...]:
        """Return all of a host, oldest first."""
        rows = self._rows(UNSAVED_HOSTS.c.host_id == host, order=[UNSAVED_HOSTS.c.failed_at, UNSAVED_HOSTS.c.id])
        return tuple(_unsaved(row) for row in rows)

    def note(self, failed: UnsavedHost) -> UnsavedHost:
        """Keep a failure; a host that is unsaved already stays so, with the newer problem. An exact retry changes nothing.

        Raises:
            FencedError: The host's is another daemon's.
        """
        found = self._one(UNSAVED_HOSTS.c.host_id == failed.host_id, UNSAVED_HOSTS.c.settlement.is_(None))
        if found is None:
            self._require_our_host(failed.host_id)
            values = failed.model_dump() | {"turns": json.dumps([]), "settlement": None} | self._ownership()
            self._insert_once(failed.id, values, compare=("host_id", "code", "problem"))
            return _unsaved(self._need(self._by_id(failed.id), failed.id))
        self._change(found["id"], {"code": failed.code, "problem": failed.problem, "failed_at": failed.failed_at})
        return _unsaved(self._need(self._by_id(found["id"]), found["id"]))

    def settle(
        self, identifier: UUID, how: Settlement, *, settled_at: datetime, detail: str = "", turns: tuple[UUID, ...] = ()
    ) -> UnsavedHost:
        """End it; once.

        Raises:
            NotFoundError, FencedError: Why it was not settled.
            ConflictError: It is settled already.
        """
        listed = json.dumps([str(turn) for turn in turns])
        self._change(identifier, {"settlement": how, "settled_at": settled_at, "detail": detail, "turns": listed})
        return _unsaved(self._need(self._by_id(identifier), identifier))

    def _change(self, identifier: UUID, values: dict[str, Any]) -> None:
        still = [UNSAVED_HOSTS.c.id == identifier, UNSAVED_HOSTS.c.settlement.is_(None), *self._fence()]
        if self._connection.execute(update(UNSAVED_HOSTS).where(*still).values(**values)).rowcount != 1:
            self._require_ours(self._need(self._by_id(identifier), identifier), identifier)
            raise ConflictError(kind=self.kind, ref=str(identifier), problem="it is settled already")


class Verifications(Repository):
    """One row for each generation that was ever read whole: the last result, and when it was last sound."""

    table, kind = VERIFICATIONS, "verification"

    def of_checkpoint(self, checkpoint: UUID) -> Verification | None:
        """Return what is known of a generation."""
        row = self._one(VERIFICATIONS.c.checkpoint_id == checkpoint)
        return None if row is None else read_row(Verification, row)

    def note(self, checkpoint: UUID, host: UUID, problem: str = "") -> Verification:
        """Keep what a reading showed now; no ``problem``: it was sound.

        Raises:
            FencedError: The host is another daemon's, in whose app directory its generations lie.
        """
        now = self._context.now
        values = {"checked_at": now, "problem": problem} | ({} if problem else {"sound_at": now})
        ours = [VERIFICATIONS.c.checkpoint_id == checkpoint, *self._fence()]
        change = update(VERIFICATIONS).where(*ours).values(**values)
        if self._connection.execute(change).rowcount != 1:
            self._require_our_host(host)
            new = values | {"checkpoint_id": checkpoint, "host_id": host} | self._ownership()
            try:
                with self._unless_taken(checkpoint, "it was read by somebody else"):
                    self._connection.execute(insert(VERIFICATIONS).values(**new))
            except ConflictError:  # there all the same: another's, or written by us between the two statements
                if self._connection.execute(change).rowcount != 1:
                    self._require_ours(self._need(self._one(ours[0]), checkpoint), checkpoint)
        return read_row(Verification, self._need(self._one(ours[0]), checkpoint))


def _unsaved(row: Mapping[Any, Any]) -> UnsavedHost:
    return read_row(UnsavedHost, row, turns=tuple(json.loads(row["turns"])))
