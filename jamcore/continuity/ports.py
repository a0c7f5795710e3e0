"""What continuity needs of the store, which satisfies it without knowing it. All methods run inside one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar
from uuid import UUID

from jamcore.domain.continuity import ActivationDecision, Checkpoint, Observation
from jamcore.domain.events import RoomPayload
from jamcore.domain.retention import DeletionStage, PayloadDeletion
from jamcore.domain.sessions import RuntimeHost, RuntimeSession, Turn, TurnState

T = TypeVar("T")


class HostRows(Protocol):
    """Hosts."""

    def get(self, host_id: UUID, /) -> RuntimeHost:
        """Return a host."""


class SessionRows(Protocol):
    """Sessions."""

    def of_host(self, host_id: UUID, /) -> tuple[RuntimeSession, ...]:
        """Return all sessions of a host."""

    def bind_identity(self, session_id: UUID, identity: str, /) -> RuntimeSession:
        """Bind the provider's id, once and for ever."""


class TurnRows(Protocol):
    """Turns."""

    def unfinished_of(self, session_id: UUID, /) -> tuple[Turn, ...]:
        """Return a session's turns that are accepted, running, or completed and not captured, oldest first."""

    def move(self, turn_id: UUID, new: TurnState, /, *, checkpoint_id: UUID | None = None) -> Turn:
        """Move a turn along its table."""


class EventRows(Protocol):
    """What is said in rooms."""

    def append(self, room: UUID, turn: UUID | None, payloads: Sequence[RoomPayload], /) -> object:
        """Append events to a room."""


class CheckpointRows(Protocol):
    """Checkpoints."""

    def insert(self, checkpoint: Checkpoint, /) -> Checkpoint:
        """Keep a row under the host's next generation number and return it; an exact retry returns the stored one."""

    def latest_of_host(self, host_id: UUID, /) -> Checkpoint | None:
        """Return the newest row of a host."""

    def of_host(self, host_id: UUID, /) -> tuple[Checkpoint, ...]:
        """Return all rows of a host."""

    def ids_by_host(self) -> dict[UUID, set[UUID]]:
        """Return the ids of all rows, by host."""


class ActivationRows(Protocol):
    """Decisions."""

    def record(self, decision_id: UUID, session_id: UUID, decision: ActivationDecision, decided_at: datetime, /) -> None:
        """Keep a decision."""


class PayloadDeletionRows(Protocol):
    """Removed payloads."""

    def of_host(self, host_id: UUID, /) -> tuple[PayloadDeletion, ...]:
        """Return all rows of a host."""

    def of_removal(self, removal_id: UUID, /) -> tuple[PayloadDeletion, ...]:
        """Return the rows of one removal."""

    def prepare(self, planned: PayloadDeletion, /) -> object:
        """Keep a removal that is about to begin; the same again is fine."""

    def advance(self, removal_id: UUID, new: DeletionStage, /, *, freed: Mapping[UUID, int] | None = None) -> None:
        """Move every row of a removal to a stage, with the bytes that each one's share was."""


class ObservationRows(Protocol):
    """Observations."""

    def insert(self, observation: Observation, /) -> object:
        """Keep an observation; it never changes."""

    def latest(self, checkpoint_id: UUID, session_id: UUID, /) -> Observation | None:
        """Return the newest for this checkpoint and session."""

    def last_of_session(self, session_id: UUID, /) -> Observation | None:
        """Return the newest of a session, whichever checkpoint it was for."""


class VerificationRows(Protocol):
    """What it showed when generations were read whole."""

    def note(self, checkpoint: UUID, host: UUID, problem: str = "", /) -> object:
        """Keep what a reading showed now; no ``problem``: it was sound."""


class Rows(Protocol):
    """The repositories of one transaction."""

    @property
    def hosts(self) -> HostRows:
        """Hosts."""

    @property
    def sessions(self) -> SessionRows:
        """Sessions."""

    @property
    def turns(self) -> TurnRows:
        """Turns."""

    @property
    def events(self) -> EventRows:
        """What is said in rooms."""

    @property
    def checkpoints(self) -> CheckpointRows:
        """Checkpoints."""

    @property
    def activations(self) -> ActivationRows:
        """Decisions."""

    @property
    def observations(self) -> ObservationRows:
        """Observations."""

    @property
    def verifications(self) -> VerificationRows:
        """Verifications."""

    @property
    def payload_deletions(self) -> PayloadDeletionRows:
        """Removed payloads."""


class CheckpointStore(Protocol):
    """The store. ``work`` is synchronous and may be run in another thread."""

    async def transact(self, work: Callable[[Rows], T], /) -> T:
        """Run ``work`` in one durable transaction and return what it returns."""

    async def read(self, work: Callable[[Rows], T], /) -> T:
        """Run ``work`` on one consistent view."""
