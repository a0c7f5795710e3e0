"""A final checkpoint that is made again, once the worker is gone, is kept from what the worker was kept from (CONT-7, CONT-8)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from jamcore.continuity.resuming.observe import observation_of
from jamcore.daemon.hosts import HostWorkers
from jamcore.domain.continuity import (
    CaptureEntry,
    CaptureKind,
    CaptureList,
    Checkpoint,
    CheckpointReason,
    ResumeSource,
    SiblingRefusedError,
)
from jamcore.runtime.continuity import HostContinuity
from jamcore.runtime.unproven import unproven_of
from jamcore.store import Store, open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds
from tests.unit.runtime.test_refused_sibling import Parts, continuity
from tests.unit.runtime.test_standing import room

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.guarantee("CONT-7", "CONT-8")]

NOW = datetime(2026, 1, 1, tzinfo=UTC)
IDS = SystemIds()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(tmp_path / "jam.db", files=Files(), clock=SystemClock(), daemon_id=UUID(int=1)) as opened:
        yield opened


class Pair:
    """Two rooms of one sandbox, of which one is brought back."""

    def __init__(self, store: Store, red: Any, blue: Any) -> None:  # noqa: ANN401 - an allocation
        self.store = store
        self.red, self.blue = red, blue
        self.host: UUID = red.host.id

    @classmethod
    async def of(cls, store: Store) -> Pair:
        """Make them, and a generation that both are in."""
        pair = cls(store, await room(store), await room(store))
        await store.transact(lambda repos: repos.sessions.bind_identity(pair.red.session.id, "thread-red"))
        await pair.generation(0)
        return pair

    async def generation(self, minute: int) -> None:
        """Record a generation."""
        row = Checkpoint(
            id=IDS.uuid(),
            host_id=self.host,
            agent_id=self.red.host.agent_id,
            provider="good",
            provider_version="1",
            reason=CheckpointReason.AFTER_TURN,
            root_digest="0" * 64,
            sessions=(),
            files=0,
            bytes_total=0,
            bytes_written=0,
            generation=1,
            created_at=NOW + timedelta(minutes=minute),
        )
        await self.store.transact(lambda repos: repos.checkpoints.insert(row))

    async def attempt(self, minute: int, reported: str | None) -> None:
        """Record what came of a resume."""
        session = await self.store.read(lambda repos: repos.sessions.get(self.red.session.id))
        newest = await self.store.read(lambda repos: repos.checkpoints.latest_of_host(self.host))
        assert newest is not None
        seen = observation_of(
            session,
            newest.id,
            observation_id=IDS.uuid(),
            observed_at=NOW + timedelta(minutes=minute),
            source=ResumeSource.LIVE,
            reported=reported,
        )
        await self.store.transact(lambda repos: repos.observations.insert(seen))

    async def unproven(self) -> dict[UUID, str]:
        """Return who is not proven."""
        return await self.store.read(partial(unproven_of, self.host))


async def test_who_came_back_as_another_is_not_proven_until_it_comes_back_or_the_host_came_up_again(store: Store) -> None:
    """One that said nothing is not among them, as while the host is up."""
    pair = await Pair.of(store)
    assert await pair.unproven() == {}
    await pair.attempt(1, None)
    assert await pair.unproven() == {}
    await pair.attempt(2, "thread-9")
    assert await pair.unproven() == {pair.red.session.id: f"room {pair.red.room.name}"}
    await pair.attempt(3, "thread-red")
    assert await pair.unproven() == {}
    await pair.attempt(4, "thread-9")
    await pair.generation(5)
    assert await pair.unproven() == {}


async def test_the_repeated_checkpoint_does_not_take_what_the_worker_did_not(store: Store) -> None:
    """Else a stop that is asked for twice would put the blank thread in the place of what it comes back from."""
    pair, parts = await Pair.of(store), Parts(CaptureList(entries=(CaptureEntry(pattern="state/**", kind=CaptureKind.WHOLE),)))

    def of_host(_host: object) -> HostContinuity:
        return continuity(parts)

    async def stored(_host: UUID) -> object:
        return pair.red.host

    hosts = cast("Any", SimpleNamespace(_host=stored, continuity=of_host, _store=store))
    await HostWorkers.capture_at_rest(hosts, pair.host)
    await pair.attempt(1, "thread-9")
    with pytest.raises(SiblingRefusedError) as refused:
        await HostWorkers.capture_at_rest(hosts, pair.host)
    assert (refused.value.concerns, parts.made) == (f"room {pair.red.room.name}", 1)
