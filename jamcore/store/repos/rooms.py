"""Rooms, their bindings and their numbered events."""

from __future__ import annotations

import re
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import String, bindparam, cast, func, insert, select, update

from jamcore.domain.errors import ConflictError, InvalidInputError, NotFoundError
from jamcore.domain.events import ROOM_PAYLOAD, RoomEvent, RoomPayload
from jamcore.domain.sessions import Binding, Room
from jamcore.store.repos.base import Repository, read_row
from jamcore.store.tables.conversation import COUNTERS, EVENTS
from jamcore.store.tables.hosts import BINDINGS, ROOMS

SHORTEST_PREFIX = 8
_SUGGESTIVE = 4
"""As many characters of an id look meant as such; fewer fit some id by chance."""
_UUID_LENGTH = 36
_HEX = re.compile(r"[0-9a-f-]+\Z")


def find_by_ref(repository: Repository, ref: str, *, name: bool) -> UUID:
    """Return the id that a person meant: a UUID, a name, or a unique part of a UUID at its beginning or end (8 characters or more).

    A whole UUID always means that record, whatever others are called; whether it is there, the caller sees when it reads it.

    Raises:
        NotFoundError: Nothing fits.
        InvalidInputError: Several fit, or it is the part of an id and too short to count.
    """
    table = repository.table
    connection = repository._connection  # noqa: SLF001 - a function of this package
    text = ref.lower()
    if len(text) == _UUID_LENGTH and _HEX.match(text):
        return _whole(repository, text, ref)
    if name:
        found: Sequence[UUID] = connection.execute(select(table.c.id).where(table.c.name == ref)).scalars().all()
        if found:
            return found[0]
    if len(text) >= _SUGGESTIVE and _HEX.match(text):
        shown = cast(table.c.id, String)
        either = shown.like(f"{text}%") | shown.like(f"%{text}")
        found = connection.execute(select(table.c.id).where(either).limit(2)).scalars().all()
        if found and len(text) < SHORTEST_PREFIX:
            raise InvalidInputError(field=repository.kind, problem=f"of an id give at least {SHORTEST_PREFIX} characters")
        if len(found) > 1:
            # A UUIDv7 begins with its time: the first 8 characters are equal for what was made within a minute.
            raise InvalidInputError(field=repository.kind, problem=f"{ref} fits several; give more characters, or the last ones")
        if found:
            return found[0]
    raise NotFoundError(kind=repository.kind, ref=ref)


def _whole(repository: Repository, text: str, ref: str) -> UUID:
    try:
        identifier = UUID(text)
    except ValueError as error:
        raise NotFoundError(kind=repository.kind, ref=ref) from error
    return identifier


class Rooms(Repository):
    """Conversations."""

    table, kind = ROOMS, "room"

    def insert(self, room: Room) -> Room:
        """Keep a new room.

        Raises:
            ConflictError: The id or the name is taken.
        """
        same = ("name", "agent_id", "request_digest")
        self._insert_once(room.id, room.model_dump(), compare=same, taken=f"the name {room.name} is taken")
        return self.get(room.id)

    def get(self, identifier: UUID) -> Room:
        """Return a room."""
        return read_row(Room, self._need(self._by_id(identifier), identifier))

    def find_id(self, identifier: UUID) -> Room | None:
        """Return a room or ``None``."""
        row = self._by_id(identifier)
        return None if row is None else read_row(Room, row)

    def find(self, ref: str) -> Room:
        """Return the room that a person meant. See :func:`find_by_ref`."""
        return self.get(find_by_ref(self, ref, name=True))

    def list(self) -> tuple[Room, ...]:
        """Return all rooms, newest first."""
        return tuple(read_row(Room, row) for row in self._rows(order=[ROOMS.c.created_at.desc(), ROOMS.c.id.desc()]))


class Bindings(Repository):
    """Rooms and their sessions."""

    table, kind = BINDINGS, "binding"

    def insert(self, binding: Binding) -> None:
        """Keep a binding.

        Raises:
            ConflictError: The room has a live one.
        """
        same = ("room_id", "session_id")
        self._insert_once(binding.id, binding.model_dump(), compare=same, taken="the room is bound to a session")

    def release(self, identifier: UUID) -> None:
        """End a binding: its room may be bound to another session then. One that has ended is fine."""
        self._need(self._by_id(identifier), identifier)
        self._connection.execute(update(BINDINGS).where(BINDINGS.c.id == identifier).values(live=False))

    def of_session(self, session: UUID) -> Binding:
        """Return a session's binding, whether it is live or has ended: a session is bound once."""
        return read_row(Binding, self._need(self._one(BINDINGS.c.session_id == session), session))

    def live_of_room(self, room: UUID) -> Binding:
        """Return a room's live binding."""
        return read_row(Binding, self._need(self._one((BINDINGS.c.room_id == room) & BINDINGS.c.live), room))

    def live_of_session(self, session: UUID) -> Binding:
        """Return a session's live binding."""
        return read_row(Binding, self._need(self._one((BINDINGS.c.session_id == session) & BINDINGS.c.live), session))


_TAKE_NUMBERS = (
    update(COUNTERS)
    .where(COUNTERS.c.room_id == bindparam("of_room"))
    .values(seq=COUNTERS.c.seq + bindparam("more"))
    .returning(COUNTERS.c.seq)
)


class Events(Repository):
    """The numbered events of rooms: no gaps, never changed."""

    table, kind = EVENTS, "event"

    def append(self, room: UUID, turn: UUID | None, payloads: Sequence[RoomPayload]) -> tuple[RoomEvent, ...]:
        """Append events with the next numbers of the room, in this transaction."""
        if not payloads:
            return ()
        first = self._reserve(room, len(payloads))
        at = self._context.now
        events = tuple(
            RoomEvent(room_id=room, seq=first + place, at=at, turn_id=turn, payload=payload)
            for place, payload in enumerate(payloads)
        )
        rows = [{"room_id": room, "seq": e.seq, "at": at, "turn_id": turn, "payload": e.payload.model_dump_json()} for e in events]
        self._connection.execute(insert(EVENTS), rows)
        return events

    def _reserve(self, room: UUID, count: int) -> int:
        """Take the next ``count`` numbers of a room and return the first of them."""
        taken = {"of_room": room, "more": count}
        last = self._connection.execute(_TAKE_NUMBERS, taken).scalar_one_or_none()
        if last is None:
            try:
                with self._unless_taken(room, "another daemon numbers the room's first event"):
                    self._connection.execute(insert(COUNTERS).values(room_id=room, seq=count))
                last = count
            except ConflictError:  # it has, by now
                last = self._connection.execute(_TAKE_NUMBERS, taken).scalar_one()
        return int(last) - count + 1

    def after(self, room: UUID, seq: int, limit: int) -> tuple[RoomEvent, ...]:
        """Return at most ``limit`` events with a number greater than ``seq``, in order."""
        rows = self._rows(EVENTS.c.room_id == room, EVENTS.c.seq > seq, order=[EVENTS.c.seq], limit=limit)
        return tuple(
            RoomEvent(
                room_id=row["room_id"],
                seq=row["seq"],
                at=row["at"],
                turn_id=row["turn_id"],
                payload=ROOM_PAYLOAD.validate_json(row["payload"]),
            )
            for row in rows
        )

    def last_seq(self, room: UUID) -> int:
        """Return the room's last number, 0 before the first event."""
        query = select(func.max(COUNTERS.c.seq)).where(COUNTERS.c.room_id == room)
        return self._connection.execute(query).scalar_one() or 0
