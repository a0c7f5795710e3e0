"""The journal's rows: what was begun, each boundary that was passed, and how it ended (WS-2, WS-11)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import RowMapping, String, and_, bindparam, func, or_, select, type_coerce

from jamcore.domain.operations import OPERATION, UNFINISHED, About, Operation, OperationEvent, OperationState
from jamcore.store.errors import FencedError
from jamcore.store.repos.base import Repository, read_row
from jamcore.store.repos.rooms import find_by_ref
from jamcore.store.tables.hosts import BINDINGS, HOSTS, SESSIONS, WORKSPACES
from jamcore.store.tables.operations import OPERATION_EVENTS, OPERATIONS

_ABOUT = tuple(About.model_fields)
_UNFINISHED = OPERATIONS.c.state.in_([state.value for state in UNFINISHED])
_LAST = select(func.coalesce(func.max(OPERATION_EVENTS.c.seq), 0)).where(OPERATION_EVENTS.c.operation_id == bindparam("operation"))
"""Made once: every boundary of every step asks for it."""
_OF_WORKSPACE = select(WORKSPACES.c.host_id).where(WORKSPACES.c.id == bindparam("workspace"))
_OF_SESSION = select(SESSIONS.c.host_id).where(SESSIONS.c.id == bindparam("session"))
_OF_ROOM = (
    select(SESSIONS.c.host_id)
    .join(BINDINGS, BINDINGS.c.session_id == SESSIONS.c.id)
    .where(BINDINGS.c.room_id == bindparam("room"), BINDINGS.c.live)
)
_OWNERS = select(HOSTS.c.id, HOSTS.c.daemon_id, HOSTS.c.fence_epoch).where(
    or_(HOSTS.c.id == bindparam("host"), *(HOSTS.c.id.in_(each) for each in (_OF_WORKSPACE, _OF_SESSION, _OF_ROOM)))
)
"""Whose the host is that an operation is about: by itself, or by a workspace, a session or a room of it."""
FAILED_STEP = "failed"
"""The phase of a boundary at which a step failed."""


class Operations(Repository):
    """Operations and their events; the journal package gives the steps their meaning.

    Rows are added and never changed, but for the state and the result. Every accepted change of the state appends an event in the same
    transaction, and each event has the next number of its operation.
    """

    table, kind = OPERATIONS, "operation"

    def begin(
        self, identifier: UUID, kind: str, initial: str, about: About, *, state: OperationState = OperationState.RUNNING
    ) -> Operation:
        """Keep the intent of an operation and return it; the same again changes nothing, also when it has ended.

        Args:
            identifier: Minted by whoever asked: that is what makes a retry exact.
            kind: Its kind.
            initial: The record that its first step is given, as canonical JSON.
            about: What it is about.
            state: Pending, or Running.

        Raises:
            ConflictError: The id was used for something else (WS-11), or another operation of the workspace has not ended.
            FencedError: It, or the host that it is about, is another daemon's, in whose app directory its files lie.
            IllegalTransitionError: An end state.
        """
        known = self._by_id(identifier)
        if known is None:
            self._require_our_hosts(about)
        elif known["daemon_id"] != self._context.fence.daemon_id:
            raise FencedError(kind=self.kind, ref=str(identifier))
        if known is None and state not in UNFINISHED:
            OPERATION.require(state, state, ref=str(identifier))
        asked = about.model_dump() | {"retention": about.retention.value if about.retention else None}
        values = {
            "id": identifier,
            "kind": kind,
            "state": state.value,
            "result": "",
            "initial": initial,
            "started_at": self._context.now,
            "ended_at": None,
            **asked,
            **self._ownership(),
        }
        new = self._insert_once(
            identifier, values, compare=("kind", "initial", *_ABOUT), taken="another operation of the workspace has not ended"
        )
        if new:
            self._append(identifier, state)
        return self.get(identifier)

    def _require_our_hosts(self, about: About) -> None:
        named = {"host": about.host_id, "workspace": about.workspace_id, "session": about.session_id, "room": about.room_id}
        if not any(named.values()):
            return
        fence = self._context.fence
        for host in self._connection.execute(_OWNERS, named):
            if (host.daemon_id, host.fence_epoch) != (fence.daemon_id, fence.epoch):
                raise FencedError(kind="host", ref=str(host.id))

    def get(self, identifier: UUID) -> Operation:
        """Return an operation."""
        return _operation(self._need(self._by_id(identifier), identifier))

    def knows(self, identifier: UUID) -> bool:
        """Say whether an operation of this id was begun, whatever became of it."""
        return self._by_id(identifier) is not None

    def initial(self, identifier: UUID) -> str | None:
        """Return the record that an operation was begun with, as canonical JSON; ``None`` when there is none of this id."""
        row = self._by_id(identifier)
        return None if row is None else str(row["initial"])

    def list(
        self, *, room: UUID | None = None, host: UUID | None = None, unfinished: bool = False, limit: int | None = None
    ) -> tuple[Operation, ...]:
        """Return operations, newest first."""
        where = [
            *([OPERATIONS.c.room_id == room] if room else []),
            *([OPERATIONS.c.host_id == host] if host else []),
            *([_UNFINISHED] if unfinished else []),
        ]
        rows = self._rows(*where, order=[OPERATIONS.c.started_at.desc(), OPERATIONS.c.id.desc()], limit=limit)
        return tuple(_operation(row) for row in rows)

    def find(self, ref: str) -> UUID:
        """Return the id that a person meant, also of a row that cannot be read. See :func:`find_by_ref`.

        Raises:
            NotFoundError: There is none.
        """
        found = find_by_ref(self, ref, name=False)
        self.kind_of(found)
        return found

    def kind_of(self, identifier: UUID) -> str:
        """Return the kind of an operation, also of a row that cannot be read."""
        query = select(OPERATIONS.c.kind).where(OPERATIONS.c.id == identifier)
        return str(self._need(self._connection.execute(query).mappings().one_or_none(), identifier)["kind"])

    def refs(
        self, *, room: UUID | None = None, host: UUID | None = None, unfinished: bool = False, limit: int
    ) -> tuple[tuple[str, str], ...]:
        """Return (id, kind) of operations, newest first; no row is read as a record, so that a damaged one hides no other.

        Of a room, with ``host`` as its host, those are returned too that are about the host and name no room.
        """
        c = OPERATIONS.c
        of_host = c.host_id == host
        where = [
            *([or_(c.room_id == room, and_(c.room_id.is_(None), of_host))] if room else [of_host] if host else []),
            *([_UNFINISHED] if unfinished else []),
        ]
        shown = type_coerce(c.id, String)
        query = select(shown, c.kind).where(*where).order_by(c.started_at.desc(), c.id.desc()).limit(limit)
        return tuple((row[0], row[1]) for row in self._connection.execute(query))

    def unfinished_of_workspace(self, workspace: UUID) -> UUID | None:
        """Return the id of the one operation of a workspace that has not ended, or ``None``."""
        query = select(OPERATIONS.c.id).where(OPERATIONS.c.workspace_id == workspace, _UNFINISHED)
        return self._connection.execute(query).scalar_one_or_none()

    def given_up_export(self, workspace: UUID, kind: str) -> str | None:
        """Return the export of the newest operation of a kind that failed for good, as it is stored; ``None``: there is none.

        No row is read as a record, so that a damaged one hides no workspace.
        """
        c = OPERATIONS.c
        failed = (c.workspace_id == workspace, c.kind == kind, c.state == OperationState.FAILED.value)
        shown = select(type_coerce(c.export_id, String)).where(*failed, c.export_id.is_not(None))
        newest = shown.order_by(c.started_at.desc(), c.id.desc()).limit(1)
        return self._connection.execute(newest).scalar_one_or_none()

    def running(self) -> tuple[tuple[UUID, str, str], ...]:
        """Return (id, kind, initial record) of every operation of this daemon that has not ended, oldest first.

        No row is read as a record: a damaged one hides no other (START-1).
        """
        columns = (OPERATIONS.c.id, OPERATIONS.c.kind, OPERATIONS.c.initial)
        query = select(*columns).where(_UNFINISHED, *self._fence()).order_by(OPERATIONS.c.started_at, OPERATIONS.c.id)
        return tuple((row.id, row.kind, row.initial) for row in self._connection.execute(query))

    def steps(self, identifier: UUID) -> tuple[tuple[str, str, str], ...]:
        """Return (step, phase, record) in order."""
        return tuple((row["step"], row["phase"], row["record"] or "") for row in self._events(identifier) if row["step"])

    def failures(self, identifier: UUID) -> tuple[tuple[str, str], ...]:
        """Return (step, class) of every failed attempt, in order."""
        return tuple((row["step"], row["result"]) for row in self._events(identifier) if row["phase"] == FAILED_STEP)

    def story(self, identifier: UUID, *, after: int = 0) -> tuple[OperationEvent, ...]:
        """Return everything that was noted of an operation after a number, in order."""
        return tuple(read_row(OperationEvent, row) for row in self._events(identifier) if row["seq"] > after)

    def note(self, identifier: UUID, step: str, phase: str, record: str, *, failure: str = "", commits: bool = False) -> None:
        """Append a boundary of a step.

        Args:
            identifier: The operation.
            step: The step's name.
            phase: Which of its boundaries.
            record: What is known there, as canonical JSON.
            failure: The bounded class of what went wrong there.
            commits: It is the one from which on something is removed: a Pending operation becomes a Running one.

        Raises:
            IllegalTransitionError: It has ended.
            FencedError: Another daemon, or another life of this one, owns it.
        """
        row = self._need(self._by_id(identifier), identifier)
        self._require_ours(row, identifier)
        state = OperationState(row["state"])
        if OPERATION.is_terminal(state):
            OPERATION.require(state, OperationState.RUNNING, ref=str(identifier))
        if commits and state is OperationState.PENDING:
            self._move(identifier, OPERATION, OperationState.RUNNING, {}, fenced=True)
            self._append(identifier, state := OperationState.RUNNING)
        self._append(identifier, state, step=step, phase=phase, record=record, result=failure)

    def end(self, identifier: UUID, state: OperationState, result: str) -> Operation:
        """Note how an operation ended; the same again changes nothing.

        Raises:
            IllegalTransitionError: It has ended otherwise.
            FencedError: Another daemon, or another life of this one, owns it.
        """
        known = self.get(identifier)
        if (known.state, known.result) == (state, result):
            return known
        row = self._move(identifier, OPERATION, state, {"result": result, "ended_at": self._context.now}, fenced=True)
        self._append(identifier, state, result=result)
        return _operation(row)

    def _events(self, identifier: UUID) -> Sequence[RowMapping]:
        query = select(OPERATION_EVENTS).where(OPERATION_EVENTS.c.operation_id == identifier).order_by(OPERATION_EVENTS.c.seq)
        return self._connection.execute(query).mappings().all()

    def _append(
        self,
        identifier: UUID,
        state: OperationState,
        *,
        step: str = "",
        phase: str = "",
        record: str | None = None,
        result: str = "",
    ) -> None:
        seq = self._connection.execute(_LAST, {"operation": identifier}).scalar_one() + 1
        values = {"operation_id": identifier, "seq": seq, "state": state.value, "at": self._context.now}
        said = {"step": step, "phase": phase, "record": record, "result": result}
        self._insert(OPERATION_EVENTS, values | said)


def _operation(row: RowMapping) -> Operation:
    return read_row(Operation, row)
