"""Who may work on a host: turns share it, a checkpoint has it alone (CONT-2).

Permits are granted strictly in the order in which they were asked for. That is what starves nobody: a checkpoint waits only for the
turns that were there before it, and turns that come later wait only for it. Whoever would rather wait behind later turns asks with a
short bound, and again (:mod:`jamcore.runtime.safekeeping`).

Holders are named in the words of their owner, a room's turn by its room, since a refusal is read by people.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

import anyio

from jamcore.domain.errors import RefusalError


@dataclass(eq=False)
class HostBusyError(RefusalError):
    """The host could not be had within the bound; whose turns hold it is named."""

    code: ClassVar[str] = "continuity.host_busy"
    hint: ClassVar[str] = (
        "Wait for the named turn or checkpoint, or interrupt the turn (`jam room interrupt ROOM`), then try again."
    )

    host: str
    wanted: str
    holders: tuple[str, ...]
    limit_s: float

    @property
    def why(self) -> str:
        """Who holds it, in words that end a sentence."""
        return f"{' and '.join(self.holders) or 'something'} {'is' if len(self.holders) < 2 else 'are'} running"


class _Ticket:
    """One place in the queue."""

    __slots__ = ("alone", "event", "holder")

    def __init__(self, holder: str, *, alone: bool) -> None:
        self.holder = holder
        self.alone = alone
        self.event = anyio.Event()

    def is_granted(self) -> bool:
        """Say whether the holder has its permit."""
        return self.event.is_set()


@dataclass(frozen=True, slots=True, eq=False)
class ExclusivePermit:
    """Proof that its bearer has the host alone, while the context that made it is open."""

    host_id: UUID
    holder: str


class HostCoordinator:
    """The permits of one host. Siblings of a host share one object, which :class:`Coordinators` hands out."""

    def __init__(self, host_id: UUID, name: str = "") -> None:
        self.host_id = host_id
        self.name = name or str(host_id)
        self._waiting: deque[_Ticket] = deque()
        self._held: list[_Ticket] = []
        self._permit: ExclusivePermit | None = None

    @property
    def holders(self) -> tuple[str, ...]:
        """Who holds the host now, in the order of the grants."""
        return tuple(ticket.holder for ticket in self._held)

    @property
    def waiting(self) -> tuple[str, ...]:
        """Who waits, first come first."""
        return tuple(ticket.holder for ticket in self._waiting)

    def is_held_by(self, permit: ExclusivePermit) -> bool:
        """Say whether ``permit`` is the one that has the host alone at this moment."""
        return self._permit is permit

    @asynccontextmanager
    async def turn_permit(self, session_id: UUID, bound_s: float | None = None, *, said_as: str = "") -> AsyncIterator[None]:
        """Hold the host together with other turns.

        Args:
            session_id: Whose turn it is.
            bound_s: Seconds to wait at most; ``None`` waits as long as the caller's own scope lets it.
            said_as: How it is named to those who wait, by its room where that is known.

        Raises:
            HostBusyError: The bound passed.
        """
        ticket = _Ticket(said_as or f"session {session_id}", alone=False)
        await self._enter(ticket, bound_s)
        try:
            yield
        finally:
            self._leave(ticket)

    @asynccontextmanager
    async def exclusive(self, holder: str, bound_s: float) -> AsyncIterator[ExclusivePermit]:
        """Hold the host alone.

        Args:
            holder: What for; named to those who wait.
            bound_s: Seconds to wait at most for the turns before it.

        Raises:
            HostBusyError: The bound passed.
        """
        ticket = _Ticket(holder, alone=True)
        await self._enter(ticket, bound_s)
        self._permit = ExclusivePermit(self.host_id, holder)
        try:
            yield self._permit
        finally:
            self._permit = None
            self._leave(ticket)

    async def _enter(self, ticket: _Ticket, bound_s: float | None) -> None:
        self._waiting.append(ticket)
        self._advance()
        if ticket.is_granted():
            return
        try:
            with anyio.fail_after(bound_s):
                await ticket.event.wait()
        except TimeoutError:
            if ticket.is_granted():
                return  # the grant came in the same moment
            holders = self.holders
            self._abandon(ticket)
            raise HostBusyError(host=self.name, wanted=ticket.holder, holders=holders, limit_s=float(bound_s or 0.0)) from None
        except BaseException:
            self._abandon(ticket)  # cancelled, perhaps in the moment of the grant
            raise

    def _abandon(self, ticket: _Ticket) -> None:
        if ticket.is_granted():
            self._leave(ticket)
        else:
            self._waiting.remove(ticket)
            self._advance()  # whoever waited behind it may go

    def _leave(self, ticket: _Ticket) -> None:
        self._held.remove(ticket)
        self._advance()

    def _advance(self) -> None:
        """Grant from the front of the queue for as long as the front may go."""
        while self._waiting:
            first = self._waiting[0]
            blocked = self._held if first.alone else any(held.alone for held in self._held)
            if blocked:
                return
            self._waiting.popleft()
            self._held.append(first)
            first.event.set()


class Coordinators:
    """The coordinators of one daemon: one per host, the same one for all its sessions."""

    def __init__(self) -> None:
        self._hosts: dict[UUID, HostCoordinator] = {}

    def for_host(self, host_id: UUID, name: str = "") -> HostCoordinator:
        """Return the host's coordinator; ``name`` is what refusals call the host from then on."""
        found = self._hosts.setdefault(host_id, HostCoordinator(host_id))
        found.name = name or found.name
        return found
