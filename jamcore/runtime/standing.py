"""What the store says about a host that comes up and goes down: states, leases and notices."""

from __future__ import annotations

from dataclasses import dataclass

from jamcore.domain.events import SessionNotice
from jamcore.domain.sessions import HostState, RuntimeHost, SessionState
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.seat import Seat
from jamcore.runtime.unsaved import UnsavedHosts
from jamcore.store import Repos, Store


@dataclass(frozen=True, slots=True)
class HostStanding:
    """Owned by one worker."""

    host: RuntimeHost
    store: Store
    feed: RoomFeed
    unsaved_hosts: UnsavedHosts

    async def take(self, seats: tuple[Seat, ...]) -> None:
        """Take the lease of each session before anything is started (SHARE-2)."""

        def write(repos: Repos) -> None:
            for seat in seats:
                repos.leases.acquire(self.host.id, seat.session.id)

        await self.store.transact(write)

    async def live(self, seats: tuple[Seat, ...]) -> None:
        """Mark host and sessions as routable (PREP-5)."""

        def write(repos: Repos) -> None:
            # Rows that a full disk left behind say so already.
            if repos.hosts.get(self.host.id).state is not HostState.ACTIVE:
                repos.hosts.move(self.host.id, HostState.ACTIVE)
            for seat in seats:
                if repos.sessions.get(seat.session.id).state is not SessionState.LIVE:
                    repos.sessions.move(seat.session.id, SessionState.LIVE)
                repos.events.append(seat.room_id, None, [SessionNotice(code="session.live", detail=self.host.sandbox)])

        await self.store.transact(write)
        self._announce(seats)

    async def down(self, seats: tuple[Seat, ...], why: str, *, parked: bool) -> None:
        """Mark sessions as dormant and give their leases back; the host is marked as parked when nothing runs in its sandbox any more."""

        def write(repos: Repos) -> None:
            if parked and repos.hosts.get(self.host.id).state is not HostState.PARKED:
                repos.hosts.move(self.host.id, HostState.PARKED)
            for seat in seats:
                if repos.sessions.get(seat.session.id).state is SessionState.LIVE:
                    repos.sessions.move(seat.session.id, SessionState.DORMANT)
                repos.leases.release(self.host.id, seat.session.id)
                repos.events.append(seat.room_id, None, [SessionNotice(code="session.parked", detail=why)])

        await self.store.transact(write)
        self._announce(seats)

    async def unsaved(self, code: str, problem: str) -> None:
        """Note that the final checkpoint failed: the host does not start before that is settled (CONT-8)."""
        await self.unsaved_hosts.failed(self.host.id, code, problem)

    async def say(self, seats: tuple[Seat, ...], code: str, detail: str) -> None:
        """Tell every room of the host."""
        for seat in seats:
            await self.feed.append(seat.room_id, None, [SessionNotice(code=code, detail=detail)])

    def _announce(self, seats: tuple[Seat, ...]) -> None:
        for seat in seats:
            self.feed.announce(seat.room_id)
