"""A final checkpoint that failed, made again from the state on disk, or given up on a person's word (CONT-8).

No provider runs meanwhile, and none is started. So nobody is asked what the state holds: the bytes are kept, and turns that were completed
stay so until the room comes back and the provider's memory is compared with them (CONT-11).
"""

from __future__ import annotations

from functools import partial
from uuid import UUID

from jamcore.daemon.hosts import HostWorkers
from jamcore.domain.continuity import Checkpoint
from jamcore.domain.errors import JamError
from jamcore.domain.events import SessionNotice
from jamcore.domain.safekeeping import UnsavedHost
from jamcore.domain.sessions import RuntimeSession, Turn, TurnState
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.gate import StopGate
from jamcore.runtime.pool import WorkerPool
from jamcore.store import Repos, Store

ACCEPTED = "continuity.unsaved_accepted"


class LastCheckpoints:
    """Repeats the teardown of a host whose final checkpoint failed."""

    def __init__(self, *, store: Store, feed: RoomFeed, hosts: HostWorkers, pool: WorkerPool, gate: StopGate) -> None:
        self._store = store
        self._feed = feed
        self._hosts = hosts
        self._pool = pool
        self._gate = gate
        self._unsaved = hosts.unsaved

    def unwritten(self, host: UUID) -> UnsavedHost | None:
        """Return a failure that the store could not take yet."""
        return self._unsaved.unwritten(host)

    async def repeat(self, host: UUID, *, accept: bool) -> tuple[Checkpoint | None, UnsavedHost | None]:
        """Make the checkpoint, while nobody brings the host up; return it, and what was settled by it.

        Args:
            host: A host; one that is not unsaved, or is live again, is left alone.
            accept: If the checkpoint fails again, record that a person accepts that, so that the host may start.

        Raises:
            HostUnsavedError: It failed again, and that was not accepted.
            DaemonStoppingError: The daemon is being stopped; the host stays unsaved.
            JamError: It cannot be said whether something runs in the sandbox; what could not be recorded.
        """
        if await self._unsaved.of(host) is None:
            return None, None  # nobody is kept waiting for a host that comes up
        with self._gate.until_stop("make a last checkpoint again"):
            async with self._pool.kept_down(host):
                return await self._repeat(host, accept=accept)

    async def _repeat(self, host: UUID, *, accept: bool) -> tuple[Checkpoint | None, UnsavedHost | None]:
        await self._pool.ended(host)
        unsaved = await self._unsaved.of(host)
        if unsaved is None or self._pool.is_up(host):
            return None, None
        await self._hosts.fence(host)
        try:
            row = await self._hosts.capture_at_rest(host)
        except JamError as error:
            failed = await self._unsaved.failed(host, error.code, str(error))
            if not accept:
                raise await self._unsaved.refusal(failed) from error
            return None, await self._accept(failed)
        return row, await self._unsaved.settle(unsaved, "checkpoint")

    async def _accept(self, unsaved: UnsavedHost) -> UnsavedHost:
        """Record what is in no checkpoint and what becomes of it, and say so in every room of the host."""
        host = unsaved.host_id
        outside = await self._store.read(partial(_outside, host))
        count = len(outside)
        detail = f"{count} completed {'turn is' if count == 1 else 'turns are'} in no checkpoint; {await self._fate(host, count)}"
        settled = await self._unsaved.settle(unsaved, "accepted", detail=detail, turns=tuple(turn.id for turn in outside))
        for room in await self._store.transact(partial(_say, settled)):
            self._feed.announce(room)
        return settled

    async def _fate(self, host: UUID, count: int) -> str:
        """Say what becomes of so many turns. That it cannot be told now, since the sandbox is gone, keeps nobody from going on."""
        they, come, are = ("it", "comes", "is") if count == 1 else ("they", "come", "are")
        try:
            hindrance = await self._hosts.hindrance(host)
        except JamError as error:
            them = "it" if count == 1 else "them"
            return f"what becomes of {them} is decided when the room comes back, because the live state could not be compared ({error})"
        if hindrance is None:
            return f"the live state still extends the last checkpoint, so {they} {come} back with it, as long as it is there"
        return f"the last checkpoint is restored, because {hindrance}: {they} {are} cut, and the live files are kept beside it"


def _outside(host: UUID, repos: Repos) -> tuple[Turn, ...]:
    """Return the turns of a host that were completed and are in no generation."""
    sessions: tuple[RuntimeSession, ...] = repos.sessions.of_host(host)
    turns = [turn for session in sessions for turn in repos.turns.unfinished_of(session.id)]
    return tuple(turn for turn in turns if turn.state is TurnState.COMPLETED)


def _say(settled: UnsavedHost, repos: Repos) -> list[UUID]:
    bindings = [repos.bindings.of_session(session.id) for session in repos.sessions.of_host(settled.host_id)]
    rooms = [binding.room_id for binding in bindings if binding.live]
    detail = f"the last checkpoint could not be made ({settled.code}: {settled.problem}), and that was accepted: {settled.detail}"
    for room in rooms:
        repos.events.append(room, None, [SessionNotice(code=ACCEPTED, detail=detail)])
    return rooms
