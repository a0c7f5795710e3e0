"""A clock that was set back: what happened later stays later, in one life of a daemon and in its next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from jamcore.domain.operations import About, OperationState
from jamcore.store import Store

if TYPE_CHECKING:
    from tests.unit.store.conftest import HandClock, OpenStore

pytestmark = pytest.mark.anyio
IDS = [UUID(int=number) for number in (9, 5, 7, 3)]
"""In an order that is not theirs by number."""


async def _begin(store: Store, identifier: UUID) -> None:
    await store.transact(lambda repos: repos.operations.begin(identifier, "probe", "{}", About()))


async def test_operations_keep_their_order(tmp_path: Path, open_at: OpenStore, clock: HandClock) -> None:
    """Lists have them newest first, and a start goes on with the oldest, whatever the clock was at."""
    for life in (IDS[:2], IDS[2:]):
        async with open_at(tmp_path / "jam.db") as store:
            for identifier in life:
                await _begin(store, identifier)
                clock.turn(-3600)
    async with open_at(tmp_path / "jam.db") as store:
        assert [row.id for row in await store.read(lambda repos: repos.operations.list())] == IDS[::-1]
        assert [identifier for identifier, _, _ in await store.read(lambda repos: repos.operations.running())] == IDS


async def test_an_operation_ends_after_it_began(tmp_path: Path, open_at: OpenStore, clock: HandClock) -> None:
    """The times of its story do not go back, and are the clock's again as soon as that has caught up."""
    async with open_at(tmp_path / "jam.db") as store:
        await _begin(store, IDS[0])
        clock.turn(-3600)
        await store.transact(lambda repos: repos.operations.note(IDS[0], "step", "intended", "{}"))
        clock.turn(7200)
        await store.transact(lambda repos: repos.operations.end(IDS[0], OperationState.SUCCEEDED, ""))
        times = [event.at for event in await store.read(lambda repos: repos.operations.story(IDS[0]))]
        ended = (await store.read(lambda repos: repos.operations.get(IDS[0]))).ended_at
    assert times == sorted(times)
    assert times[-1] == ended == clock.now()
