"""How a room stands, in one line. Pure: a record and a fold of events, and words made of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from jamcore.cli.events import ENDED
from jamcore.cli.standing import newest
from jamcore.cli.text import safe_line
from jamcore.cli.words import passed, room_word
from jamcore.domain.events import (
    IN_DOUBT,
    ApprovalDecided,
    ApprovalRequested,
    RoomEvent,
    SessionNotice,
    TurnStateChanged,
    UsageReported,
)
from jamcore.domain.requests import RoomView, SessionInspection
from jamcore.domain.sessions import TurnState

WORKING = "working"
ASKS = "waits for your answer"
IDLE = "idle"
PARKED = "parked"
DOUBT = "in doubt"
_PARKING = frozenset({"session.parked", "session.interrupted"})


@dataclass(frozen=True, slots=True)
class Status:
    """What the status line says. ``began`` is when the running turn began, ``generation`` the last verified one."""

    room: str
    agent: str
    engine: str
    state: str
    tokens: int = 0
    began: datetime | None = None
    generation: int | None = None
    generation_at: datetime | None = None

    @classmethod
    def of(cls, view: RoomView) -> Status:
        """Return how a room stands by its record."""
        word = room_word(busy=view.busy, live=view.live, not_parked=view.not_parked)
        began = view.last_turn.accepted_at if view.busy and view.last_turn else None
        return cls(
            room=view.room.name,
            agent=view.host.provider,
            engine=f"{view.host.engine} (isolation {view.isolation})",
            state=IDLE if word == "live" else word,
            began=began,
        )

    def after(self, event: RoomEvent, *, past: bool = False) -> Status:
        """Return how it stands after an event; of a past one only what the record does not know."""
        payload = event.payload
        if isinstance(payload, UsageReported):
            return replace(self, tokens=payload.total_tokens)
        if past:
            return self
        match payload:
            case ApprovalRequested():
                return replace(self, state=ASKS)
            case ApprovalDecided():
                return replace(self, state=WORKING if self.state == ASKS else self.state)
            case SessionNotice(code="session.live"):
                return replace(self, state=IDLE if self.state == PARKED else self.state)
            case SessionNotice() if payload.code in _PARKING:
                return replace(self, state=PARKED, began=None)
            case TurnStateChanged():
                return self._turned(payload.state, event.at)
            case _:
                return self

    def _turned(self, state: str, at: datetime) -> Status:
        if state == TurnState.RUNNING:
            return replace(self, state=WORKING, began=at)
        if state == IN_DOUBT:
            return replace(self, state=DOUBT, began=None)
        # A turn is captured a moment after its end, when the next one may run already.
        if state in ENDED | {TurnState.COMPLETED} and state != TurnState.CAPTURED and self.state != PARKED:
            return replace(self, state=IDLE, began=None)
        return self

    def proven(self, found: SessionInspection) -> Status:
        """Return it with the newest generation."""
        last = newest(found)
        return self if last is None else replace(self, generation=last.generation, generation_at=last.created_at)

    def line(self, now: datetime) -> str:
        """Return the words, the most important first: a narrow terminal cuts the end."""
        state = self.state if self.began is None else f"{self.state} {passed(self.began, now)}"
        kept = "no checkpoint yet"
        if self.generation is not None and self.generation_at is not None:
            kept = f"generation {self.generation}, {passed(self.generation_at, now)} old"
        parts = (self.room, state, f"{self.agent} in {self.engine}", kept, f"{self.tokens:,} tokens" if self.tokens else "")
        return safe_line(" · ".join(part for part in parts if part))
