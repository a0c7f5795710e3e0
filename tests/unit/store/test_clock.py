"""A clock that was set back: what happened later stays later, in one life of a daemon and in its next; one that was far ahead."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from jamcore.domain.operations import About, OperationState
from jamcore.store import Store
from jamcore.store.engine import AHEAD
from jamcore.testing.store.base import raw

if TYPE_CHECKING:
    from tests.unit.store.conftest import HandClock, OpenStore

pytestmark = pytest.mark.anyio
IDS = [UUID(int=number) for number in (9, 5, 7, 3)]
"""In an order that is not theirs by number."""
FAR_S = AHEAD.total_seconds() + 1


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


@pytest.mark.guarantee("START-1")
@pytest.mark.parametrize("damage", ["zzz", "2026-01-02T03:04:06", "2026-01-02T03:04:06 or so", ""])
async def test_a_damaged_time_keeps_no_store_from_opening(
    tmp_path: Path, open_at: OpenStore, clock: HandClock, damage: str
) -> None:
    """It is passed over: what is written then still comes after what was written last before a clock was set back."""
    async with open_at(tmp_path / "jam.db") as store:
        await _begin(store, IDS[0])
        clock.turn(1)
        await _begin(store, IDS[1])
        damaged = "UPDATE operations SET started_at = ? WHERE id = ?"
        await store.transact(lambda repos: raw(repos).exec_driver_sql(damaged, (damage, str(IDS[1]))))
    clock.turn(-3600)
    async with open_at(tmp_path / "jam.db") as store:
        await _begin(store, IDS[2])
        begun = [(await store.read(lambda repos, one=one: repos.operations.get(one))).started_at for one in (IDS[0], IDS[2])]  # type: ignore[misc]
    assert begun == sorted(begun)


@pytest.mark.guarantee("START-1")
@pytest.mark.parametrize("starts", [False, True])
async def test_a_clock_that_was_far_ahead_dates_nothing_else(
    tmp_path: Path, open_at: OpenStore, clock: HandClock, starts: bool
) -> None:
    """What was begun meanwhile keeps its date; what is begun when the clock is right again has its own, in that life and the next."""
    async with open_at(tmp_path / "jam.db") as store:
        clock.turn(FAR_S)
        await _begin(store, IDS[0])
        clock.turn(-FAR_S)
        if not starts:
            await _begin(store, IDS[1])
    async with open_at(tmp_path / "jam.db") as store:
        if starts:
            await _begin(store, IDS[1])
        ahead, right = [(await store.read(lambda repos, one=one: repos.operations.get(one))).started_at for one in IDS[:2]]  # type: ignore[misc]
    assert right == clock.now()
    assert (ahead - right).total_seconds() == FAR_S
