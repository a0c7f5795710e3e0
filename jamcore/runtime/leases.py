"""Which sessions hold which host live: the one lease mechanism, for every provider and placement (SHARE-2).

The registry is the daemon's own, built by its composition root. A claim is taken before anything is done for the session, and given back
when the session is gone from the host. Taking, giving back and asking who is left are plain calls without a pause in them, so that "the
last one left" is decided in the same step as "nobody came". The rows in the store say the same to the next life of the daemon.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from jamcore.domain.sessions import RuntimeHost


@dataclass(frozen=True, slots=True)
class LeaseKey:
    """What is held: one sandbox of one host of one agent."""

    agent: UUID
    host: UUID
    sandbox: str

    @classmethod
    def of(cls, host: RuntimeHost) -> LeaseKey:
        """Return the key of a host."""
        return cls(host.agent_id, host.id, host.sandbox)


@dataclass(frozen=True, slots=True)
class ParkTrouble:
    """A sandbox that nobody holds and that could not be parked yet; it is tried again each second (START-5)."""

    key: LeaseKey
    attempts: int
    problem: str

    def __str__(self) -> str:
        tries = "attempt" if self.attempts == 1 else "attempts"
        return f"{self.key.sandbox} is not parked yet after {self.attempts} {tries}: {self.problem}"


@dataclass(slots=True)
class Leases:
    """Counts claims. Owned by one daemon; touched by its event loop alone."""

    _claims: dict[LeaseKey, set[UUID]] = field(default_factory=dict)
    _trouble: dict[UUID, ParkTrouble] = field(default_factory=dict)

    def claim(self, key: LeaseKey, session: UUID) -> None:
        """Count a session; counting it twice changes nothing."""
        self._claims.setdefault(key, set()).add(session)

    def release(self, key: LeaseKey, session: UUID) -> int:
        """Count a session no more and return how many are left; one that is not counted is fine."""
        held = self._claims.get(key)
        if held is None:
            return 0
        held.discard(session)
        if not held:
            del self._claims[key]
        return len(held)

    def holders(self, key: LeaseKey) -> frozenset[UUID]:
        """Return who holds the sandbox now."""
        return frozenset(self._claims.get(key, ()))

    def held_by_others(self, key: LeaseKey, session: UUID) -> bool:
        """Whether anybody but this session holds the sandbox."""
        return bool(self.holders(key) - {session})

    def not_parked(self, key: LeaseKey, attempts: int, problem: str) -> None:
        """Note that a sandbox could not be parked."""
        self._trouble[key.host] = ParkTrouble(key, attempts, problem)

    def settled(self, key: LeaseKey) -> None:
        """Note that it is parked, or in use again."""
        self._trouble.pop(key.host, None)

    def trouble_of(self, host: UUID) -> ParkTrouble | None:
        """Return what keeps a host from being parked."""
        return self._trouble.get(host)

    def troubles(self) -> tuple[ParkTrouble, ...]:
        """Return everything that is not parked and should be."""
        return tuple(self._trouble.values())
