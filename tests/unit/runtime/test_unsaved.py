"""Hosts whose final checkpoint failed: what the store cannot take keeps the host from starting all the same (CONT-8)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast
from uuid import UUID

import pytest

from jamcore.continuity.generations.publish import CheckpointFailedError
from jamcore.domain.safekeeping import HostUnsavedError
from jamcore.runtime.unsaved import UnsavedHosts
from jamcore.store import Repos, Store, StoreFullError, open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds
from tests.unit.runtime.test_standing import room

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]
T = TypeVar("T")


class Full:
    """A store on a disk that is full for as long as it is said."""

    def __init__(self, store: Store) -> None:
        self.full = True
        self._store = store

    async def transact(self, work: Callable[[Repos], T]) -> T:
        """See :class:`Store`."""
        if self.full:
            raise StoreFullError(detail="no space left")
        return await self._store.transact(work)

    async def read(self, work: Callable[[Repos], T]) -> T:
        """See :class:`Store`."""
        return await self._store.read(work)


@pytest.mark.guarantee("CONT-8")
async def test_a_failure_that_cannot_be_recorded_is_known_and_recorded_later(tmp_path: Path) -> None:
    """Nothing starts meanwhile; as soon as the store takes it, it is there for the daemon's next life too."""
    clock, ids = SystemClock(), SystemIds()
    async with open_store(tmp_path / "jam.db", files=Files(), clock=clock, daemon_id=UUID(int=1)) as store:
        made = await room(store)
        host, disk = made.host.id, Full(store)
        hosts = UnsavedHosts(cast("Any", disk), clock=clock, ids=ids)
        await hosts.require_saved(host)
        noted = await hosts.failed(host, "continuity.checkpoint_failed", "no space left")
        assert await hosts.of(host) == hosts.unwritten(host) == noted
        with pytest.raises(StoreFullError):
            await hosts.require_saved(host)
        assert await store.read(lambda repos: repos.unsaved_hosts.of_host(host)) == ()

        disk.full = False
        with pytest.raises(HostUnsavedError) as refused:
            await hosts.require_saved(host)
        assert (refused.value.rooms, refused.value.problem) == (made.room.name, "continuity.checkpoint_failed: no space left")
        assert hosts.unwritten(host) is None
        later = UnsavedHosts(store, clock=clock, ids=ids)
        known = await later.of(host)
        assert known == noted
        with pytest.raises(HostUnsavedError):
            await later.require_saved(host)
        await later.settle(noted, "checkpoint")
        await later.require_saved(host)
        await hosts.require_saved(host)


@pytest.mark.guarantee("CONT-8")
async def test_what_was_never_recorded_is_recorded_with_its_settlement(tmp_path: Path) -> None:
    """The record of how it ended is never without what it was about."""
    clock, ids = SystemClock(), SystemIds()
    async with open_store(tmp_path / "jam.db", files=Files(), clock=clock, daemon_id=UUID(int=1)) as store:
        made = await room(store)
        disk = Full(store)
        hosts = UnsavedHosts(cast("Any", disk), clock=clock, ids=ids)
        noted = await hosts.failed(made.host.id, "continuity.checkpoint_failed", "no space left")
        disk.full = False
        await hosts.settle(noted, "accepted", detail="one turn", turns=(UUID(int=5),))
        (row,) = await store.read(lambda repos: repos.unsaved_hosts.of_host(made.host.id))
        assert (row.problem, row.settlement, row.turns) == ("no space left", "accepted", (UUID(int=5),))
        await hosts.require_saved(made.host.id)


@pytest.mark.guarantee("CONT-8")
async def test_the_refusal_says_what_failed_once(tmp_path: Path) -> None:
    """An error's text begins with its code, and the refusal puts the code before the words."""
    clock, ids = SystemClock(), SystemIds()
    async with open_store(tmp_path / "jam.db", files=Files(), clock=clock, daemon_id=UUID(int=1)) as store:
        made = await room(store)
        hosts = UnsavedHosts(store, clock=clock, ids=ids)
        error = CheckpointFailedError(host=str(made.host.id), problem="no space left")
        await hosts.failed(made.host.id, error.code, str(error))
        with pytest.raises(HostUnsavedError) as refused:
            await hosts.require_saved(made.host.id)
    assert refused.value.problem == f"continuity.checkpoint_failed: host={made.host.id}, problem=no space left"
