"""Exports and clean-ups of hosts: rows that go forward only and are never deleted (WS-7, WS-8)."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import insert, select, update

from jamcore.domain.errors import ConflictError
from jamcore.domain.host_cleanups import CLEANUP, CleanupStage, HostCleanup
from jamcore.domain.kept_exports import EXPORT, ExportState, IdMapping, KeptExport
from jamcore.domain.operations import OperationState
from jamcore.store.repos.base import Repository, read_row
from jamcore.store.repos.rooms import find_by_ref
from jamcore.store.tables.exports import EXPORT_IDS, EXPORTS, HOST_CLEANUPS
from jamcore.store.tables.operations import OPERATIONS

_SAME = tuple(name for name in KeptExport.model_fields if name not in ("state", "created_at", "verified_at", "deleted_at"))


class Exports(Repository):
    """The record of each export."""

    table, kind = EXPORTS, "export"

    def insert(self, export: KeptExport) -> KeptExport:
        """Keep a new export; the same again is fine.

        Raises:
            ConflictError: The id was used for another export (WS-11).
        """
        values = export.model_dump() | {"state": export.state.value, "maker": export.maker.value} | self._ownership()
        self._insert_once(export.id, values, compare=_SAME)
        return self.get(export.id)

    def find_id(self, identifier: UUID) -> KeptExport | None:
        """Return an export, or ``None``."""
        row = self._by_id(identifier)
        return None if row is None else read_row(KeptExport, row)

    def get(self, identifier: UUID) -> KeptExport:
        """Return an export."""
        return read_row(KeptExport, self._need(self._by_id(identifier), identifier))

    def find(self, ref: str) -> KeptExport:
        """Return the one that a person meant. See :func:`find_by_ref`."""
        return self.get(find_by_ref(self, ref, name=False))

    def list(self) -> tuple[KeptExport, ...]:
        """Return all, newest first."""
        return self._found()

    def of_host(self, host: UUID) -> tuple[KeptExport, ...]:
        """Return all of a host, newest first."""
        return self._found(EXPORTS.c.host_id == host)

    def of_workspace(self, workspace: UUID) -> tuple[KeptExport, ...]:
        """Return all of a workspace, newest first."""
        return self._found(EXPORTS.c.workspace_id == workspace)

    def referenced_checkpoints(self, host: UUID) -> frozenset[UUID]:
        """Return the checkpoints of a host that an export which is not deleted was made with (WS-9)."""
        there = EXPORTS.c.state != ExportState.DELETED.value
        query = select(EXPORTS.c.checkpoint_id).where(EXPORTS.c.host_id == host, there, EXPORTS.c.checkpoint_id.is_not(None))
        return frozenset(self._connection.execute(query).scalars())

    def move(self, identifier: UUID, new: ExportState) -> KeptExport:
        """Move an export along its table; one that is there already stays.

        Raises:
            IllegalTransitionError, FencedError, NotFoundError: Why it was not moved.
        """
        if (known := self.get(identifier)).state is new:
            return known
        values: dict[str, Any] = {"deleted_at": self._context.now} if new is ExportState.DELETED else {}
        return read_row(KeptExport, self._move(identifier, EXPORT, new, values, fenced=True))

    def adopt(self, identifier: UUID, *, agent: UUID, session: UUID, room: UUID) -> KeptExport:
        """Note whose an export from elsewhere became here: once, and for ever.

        It is none of that session's workspace or host: it holds nothing of what is done there, and stands for neither when they go.

        Raises:
            ConflictError: It became a room already, or may not become one.
        """
        free = [EXPORTS.c.session_id.is_(None), EXPORTS.c.state == ExportState.PUBLISHED.value, *self._fence()]
        owner = {"agent_id": agent, "session_id": session, "room_id": room}
        if self._connection.execute(update(EXPORTS).where(EXPORTS.c.id == identifier, *free).values(**owner)).rowcount != 1:
            self._require_ours(self._need(self._by_id(identifier), identifier), identifier)
            raise ConflictError(kind=self.kind, ref=str(identifier), problem="it became a room already, or is not confirmed")
        return self.get(identifier)

    def verified(self, identifier: UUID, at: datetime) -> None:
        """Note when it was last read whole and found sound."""
        self._connection.execute(update(EXPORTS).where(EXPORTS.c.id == identifier, *self._fence()).values(verified_at=at))

    def map_ids(self, mappings: tuple[IdMapping, ...]) -> None:
        """Keep what ids became; the same again is fine.

        Raises:
            ConflictError: One became something else.
        """
        for mapping in mappings:
            known = {(each.what, each.old_id): each.new_id for each in self.mapped(mapping.export_id)}
            found = known.get((mapping.what, mapping.old_id))
            if found is None:
                self._connection.execute(insert(EXPORT_IDS).values(**mapping.model_dump()))
            elif found != mapping.new_id:
                raise ConflictError(kind=self.kind, ref=str(mapping.export_id), problem=f"its {mapping.what} became another one")

    def mapped(self, export: UUID) -> tuple[IdMapping, ...]:
        """Return what the ids of an export became, in order."""
        query = select(EXPORT_IDS).where(EXPORT_IDS.c.export_id == export).order_by(EXPORT_IDS.c.what, EXPORT_IDS.c.old_id)
        return tuple(read_row(IdMapping, row) for row in self._connection.execute(query).mappings())

    def _found(self, *where: Any) -> tuple[KeptExport, ...]:
        rows = self._rows(*where, order=[EXPORTS.c.created_at.desc(), EXPORTS.c.id.desc()])
        return tuple(read_row(KeptExport, row) for row in rows)


class HostCleanups(Repository):
    """How far the clean-up of each host is."""

    table, kind = HOST_CLEANUPS, "host clean-up"

    def prepare(self, cleanup: HostCleanup) -> HostCleanup:
        """Keep one that is about to begin; the same again is fine.

        One that was prepared and given up before anything was gone is taken over by the next clean-up of the host.

        Raises:
            ConflictError: The id was used for another, or the host has one that has not ended.
            FencedError: The host is another daemon's, whose engine alone can say what becomes of it.
        """
        self._require_our_host(cleanup.host_id)
        values = cleanup.model_dump() | {"stage": cleanup.stage.value} | self._ownership()
        same = ("host_id", "confirmed", "sandbox_absent", "planned_bytes", "retained_bytes")
        self._take_over(cleanup, values)
        self._insert_once(cleanup.id, values, compare=same, taken="another clean-up of the host has not ended")
        return self.get(cleanup.id)

    def _take_over(self, cleanup: HostCleanup, values: dict[str, Any]) -> None:
        """Put a new clean-up in the place of one that was given up before anything was gone: its operation keeps the story."""
        ended = select(OPERATIONS.c.id).where(OPERATIONS.c.state == OperationState.FAILED.value)
        given_up = [HOST_CLEANUPS.c.stage == CleanupStage.PREPARED.value, HOST_CLEANUPS.c.id.in_(ended)]
        of_host = [HOST_CLEANUPS.c.host_id == cleanup.host_id, HOST_CLEANUPS.c.id != cleanup.id, *self._fence()]
        self._connection.execute(update(HOST_CLEANUPS).where(*of_host, *given_up).values(**values))

    def get(self, identifier: UUID) -> HostCleanup:
        """Return a clean-up."""
        return read_row(HostCleanup, self._need(self._by_id(identifier), identifier))

    def of_host(self, host: UUID) -> tuple[HostCleanup, ...]:
        """Return all of a host, newest first."""
        rows = self._rows(HOST_CLEANUPS.c.host_id == host, order=[HOST_CLEANUPS.c.prepared_at.desc(), HOST_CLEANUPS.c.id.desc()])
        return tuple(read_row(HostCleanup, row) for row in rows)

    def unfinished(self, host: UUID) -> HostCleanup | None:
        """Return the clean-up of a host that is under way, or was cut; one that was given up before anything was gone is none."""
        going_on = [OPERATIONS.c.id == HOST_CLEANUPS.c.id, OPERATIONS.c.state != OperationState.FAILED.value]
        there = select(OPERATIONS.c.id).where(*going_on).exists()
        row = self._one(HOST_CLEANUPS.c.host_id == host, HOST_CLEANUPS.c.stage != CleanupStage.SUCCEEDED.value, there)
        return None if row is None else read_row(HostCleanup, row)

    def advance(self, identifier: UUID, new: CleanupStage, *, removed_bytes: int | None = None) -> HostCleanup:
        """Move to the next stage; one that is there already stays.

        Raises:
            IllegalTransitionError, FencedError, NotFoundError: Why it was not moved.
        """
        known = self.get(identifier)
        if known.stage is new:
            return known
        values: dict[str, Any] = {} if removed_bytes is None else {"removed_bytes": removed_bytes}
        values |= {"ended_at": self._context.now} if new is CleanupStage.SUCCEEDED else {}
        CLEANUP.require(known.stage, new, ref=str(identifier))
        still = [HOST_CLEANUPS.c.id == identifier, HOST_CLEANUPS.c.stage == known.stage.value, *self._fence()]
        if self._connection.execute(update(HOST_CLEANUPS).where(*still).values(stage=new.value, **values)).rowcount != 1:
            self._require_ours(self._need(self._by_id(identifier), identifier), identifier)
            raise ConflictError(kind=self.kind, ref=str(identifier), problem="it was moved in between")
        return self.get(identifier)
