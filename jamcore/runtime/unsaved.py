"""Hosts whose final checkpoint failed: none of them starts before that is settled (CONT-8).

The record is the store's. A full disk, which is what fails final checkpoints most, may not take it: then it is kept here for the daemon's
life and written when it can be. If the daemon ends before that, the host is as after any kill: its live state must prove itself, and every
turn is compared with what the provider remembers.
"""

from __future__ import annotations

from functools import partial
from uuid import UUID

import structlog

from jamcore.domain.errors import JamError, bounded
from jamcore.domain.safekeeping import HostUnsavedError, Settlement, UnsavedHost
from jamcore.store import Repos, Store
from jamcore.system.clock import Clock
from jamcore.system.ids import IdSource


class UnsavedHosts:
    """The one place that knows which hosts may not start. One object per daemon."""

    def __init__(self, store: Store, *, clock: Clock, ids: IdSource) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._unwritten: dict[UUID, UnsavedHost] = {}

    async def failed(self, host: UUID, code: str, problem: str) -> UnsavedHost:
        """Note that a host's final checkpoint failed. From now on the host does not start, whether the store could take it or not.

        ``problem``: words, or an error's text, which begins with the code that is kept beside it.
        """
        words = bounded(problem.removeprefix(f"{code}: "))
        note = UnsavedHost(id=self._ids.uuid(), host_id=host, code=code, problem=words, failed_at=self._clock.now())
        self._unwritten[host] = note
        try:
            return await self._write(note)
        except JamError as error:
            structlog.get_logger("jam.unsaved").error("not recorded yet", host=str(host), error=str(error))
            return note

    async def of(self, host: UUID) -> UnsavedHost | None:
        """Return what keeps a host from starting."""
        note = self._unwritten.get(host)
        return note if note is not None else await self._store.read(lambda repos: repos.unsaved_hosts.open_of_host(host))

    def unwritten(self, host: UUID) -> UnsavedHost | None:
        """Return what the store could not take yet."""
        return self._unwritten.get(host)

    async def require_saved(self, host: UUID) -> None:
        """Accept a host that may start.

        Raises:
            HostUnsavedError: Its final checkpoint failed, and nobody settled that.
            JamError: What could not be recorded when it failed cannot be recorded now.
        """
        if note := self._unwritten.get(host):
            await self._write(note)
        if unsaved := await self.of(host):
            raise await self.refusal(unsaved)

    async def refusal(self, unsaved: UnsavedHost) -> HostUnsavedError:
        """Return the error that names the rooms of the host, and what failed."""
        rooms = await self._store.read(partial(_rooms, unsaved.host_id))
        return HostUnsavedError(
            rooms=", ".join(rooms), problem=f"{unsaved.code}: {unsaved.problem}", failed_at=unsaved.failed_at.isoformat()
        )

    async def settle(self, unsaved: UnsavedHost, how: Settlement, *, detail: str = "", turns: tuple[UUID, ...] = ()) -> UnsavedHost:
        """Record how it ended; from now on the host may start."""
        now = self._clock.now()

        def write(repos: Repos) -> UnsavedHost:
            known = repos.unsaved_hosts.open_of_host(unsaved.host_id) or repos.unsaved_hosts.note(unsaved)
            return repos.unsaved_hosts.settle(known.id, how, settled_at=now, detail=detail, turns=turns)

        settled = await self._store.transact(write)
        self._unwritten.pop(unsaved.host_id, None)
        return settled

    async def _write(self, note: UnsavedHost) -> UnsavedHost:
        written = await self._store.transact(lambda repos: repos.unsaved_hosts.note(note))
        self._unwritten.pop(note.host_id, None)
        return written


def _rooms(host: UUID, repos: Repos) -> tuple[str, ...]:
    """Return the names of a host's rooms."""
    bindings = [repos.bindings.of_session(session.id) for session in repos.sessions.of_host(host)]
    return tuple(repos.rooms.get(binding.room_id).name for binding in bindings if binding.live)
