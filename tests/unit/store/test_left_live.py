"""What a start asks the store for: the hosts that are not known to be down."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jamcore.domain.sessions import HostState, SessionState
from jamcore.store import Store

if TYPE_CHECKING:
    from tests.unit.store.conftest import Make


@pytest.mark.guarantee("START-1")
async def test_only_hosts_that_a_dead_life_left_are_put_down(store: Store, make: Make) -> None:
    """One in a passing state, one with a live session, one with a lease; parked and empty ones are not even read."""
    seeds = [await store.transact(lambda repos, name=name: make.seed(repos, name)) for name in "abcd"]  # type: ignore[misc]
    parked, seated, held, passing = seeds
    for seed in (parked, seated, held):
        await store.transact(lambda repos, seed=seed: repos.hosts.move(seed.host.id, HostState.PARKED))  # type: ignore[misc]
    await store.transact(lambda repos: repos.sessions.move(seated.session.id, SessionState.LIVE))
    await store.transact(lambda repos: repos.leases.acquire(held.host.id, held.session.id))
    left = await store.read(lambda repos: repos.hosts.left_live())
    assert set(left) == {seated.host.id, held.host.id, passing.host.id}
