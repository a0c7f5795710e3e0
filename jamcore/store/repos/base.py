"""What all repositories share: reading a record back from a row, inserting one that never changes, conditional updates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import Column, ColumnElement, Connection, Insert, RowMapping, Select, Table, bindparam, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from jamcore.domain.errors import ConflictError, IllegalTransitionError, NotFoundError
from jamcore.domain.records import Record
from jamcore.domain.transitions import TransitionTable
from jamcore.store.errors import FencedError
from jamcore.store.failures import is_duplicate
from jamcore.store.tables.hosts import HOSTS

R = TypeVar("R", bound=Record)
S = TypeVar("S", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Fence:
    """Who this store writes as: every update of a fenced row is conditional on it."""

    daemon_id: UUID
    epoch: int


@dataclass(frozen=True, slots=True)
class Context:
    """One transaction: its connection, the time it began, and the fence."""

    connection: Connection
    now: datetime
    fence: Fence


class Repository:
    """One table seen through a transaction."""

    table: Table
    kind: str

    def __init__(self, context: Context) -> None:
        self._context = context
        self._connection = context.connection

    def _rows(self, *where: ColumnElement[bool], order: Iterable[Any] = (), limit: int | None = None) -> list[RowMapping]:
        query = select(self.table).where(*where).order_by(*order).limit(limit)
        return list(self._connection.execute(query).mappings())

    def _one(self, *where: ColumnElement[bool]) -> RowMapping | None:
        return self._connection.execute(select(self.table).where(*where)).mappings().one_or_none()

    def _by_id(self, identifier: UUID) -> RowMapping | None:
        return self._connection.execute(_select_by_id(self.table), {"identifier": identifier}).mappings().one_or_none()

    def _need(self, row: RowMapping | None, ref: object) -> RowMapping:
        if row is None:
            raise NotFoundError(kind=self.kind, ref=str(ref))
        return row

    def _insert_once(self, identifier: UUID, values: dict[str, Any], *, compare: Iterable[str], taken: str = "") -> bool:
        """Insert a row, or accept that it is there with the same values (WS-11). Returns whether it was new.

        Args:
            identifier: The row's id.
            values: All columns.
            compare: The columns that must be equal in a row that is there.
            taken: What it means when a unique index refuses the row.

        Raises:
            ConflictError: The row is there with other values, or a unique index refused it.
        """
        found = self._by_id(identifier)
        if found is None:
            with self._unless_taken(identifier, taken):
                self._insert(self.table, values)
            return True
        if changed := sorted(name for name in compare if found[name] != values[name]):
            raise ConflictError(kind=self.kind, ref=str(identifier), problem=f"another {', '.join(changed)} is stored")
        return False

    def _insert(self, table: Table, values: dict[str, Any]) -> None:
        """Insert a row. The values are parameters, not part of the statement, which is then made and compiled once."""
        self._connection.execute(_insert_into(table), values)

    @contextmanager
    def _unless_taken(self, ref: object, problem: str) -> Iterator[None]:
        """Turn a refusal by a unique index into a ConflictError that leaves the transaction usable, so that the winner can be read."""
        if not problem:
            yield
            return
        try:
            with self._connection.begin_nested():
                yield
        except IntegrityError as error:
            if not is_duplicate(error):
                raise
            raise ConflictError(kind=self.kind, ref=str(ref), problem=problem) from error

    def _next(self, column: Column[int], *where: ColumnElement[bool]) -> int:
        """Return the next number of the rows that ``where`` selects: 1 for the first. A unique key of the table keeps it true."""
        last = select(func.coalesce(func.max(column), 0)).where(*where)
        return int(self._connection.execute(last).scalar_one()) + 1

    def _move(
        self, identifier: UUID, table: TransitionTable[S], new: S, values: dict[str, Any], *, fenced: bool = False
    ) -> RowMapping:
        """Change a state along its table in one conditional update, and return the row as it is then.

        Raises:
            NotFoundError, FencedError, IllegalTransitionError: Why no row was changed.
        """
        row_is = [self.table.c.id == identifier, self.table.c.state.in_(sorted(table.sources_of(new)))]
        if fenced:
            row_is += self._fence()
        moved = update(self.table).where(*row_is).values(state=new.value, **values).returning(*self.table.c)
        if row := self._connection.execute(moved).mappings().one_or_none():
            return row
        found = self._need(self._by_id(identifier), identifier)
        if fenced:
            self._require_ours(found, identifier)
        raise IllegalTransitionError(machine=table.machine, ref=str(identifier), old=found["state"], new=new.value)

    def _require_ours(self, row: RowMapping, ref: object) -> None:
        fence = self._context.fence
        if (row["daemon_id"], row["fence_epoch"]) != (fence.daemon_id, fence.epoch):
            raise FencedError(kind=self.kind, ref=str(ref))

    def _require_our_host(self, host: UUID) -> None:
        """Require that a host is this daemon's: what is noted of another's would be said without having seen it.

        Raises:
            NotFoundError, FencedError: There is none, or it is another daemon's.
        """
        owner = self._connection.execute(_FENCE_OF_HOST, {"host": host}).mappings().one_or_none()
        self._require_ours(self._need(owner, host), host)

    def _ownership(self) -> dict[str, Any]:
        """Return the fence columns of a new row: the writer owns what it makes, whatever the record says."""
        return {"daemon_id": self._context.fence.daemon_id, "fence_epoch": self._context.fence.epoch}

    def _fence(self) -> list[ColumnElement[bool]]:
        fence = self._context.fence
        return [self.table.c.daemon_id == fence.daemon_id, self.table.c.fence_epoch == fence.epoch]


_FENCE_OF_HOST = select(HOSTS.c.daemon_id, HOSTS.c.fence_epoch).where(HOSTS.c.id == bindparam("host"))


@cache  # one for each table, made once: making it, and finding its compiled form, costs more than running it
def _select_by_id(table: Table) -> Select[Any]:
    return select(table).where(table.c.id == bindparam("identifier"))


@cache
def _insert_into(table: Table) -> Insert:
    return insert(table)


def read_row(kind: type[R], row: Mapping[Any, Any], **replaced: object) -> R:
    """Build a record from a row's columns; text becomes the record's own types by its JSON rules."""
    names = kind.model_fields.keys()
    values = {name: row[name] for name in names if name in row} | replaced
    return kind.model_validate(values, strict=False)
