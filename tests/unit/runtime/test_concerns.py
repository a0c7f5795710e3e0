"""A checkpoint that is refused for one path says whose conversation that is (CONT-4)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

from jamcore.runtime.continuity import _concerned
from jamcore.store import open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from tests.unit.runtime.test_standing import room

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]


@pytest.mark.guarantee("CONT-4")
async def test_the_rooms_that_a_path_concerns_are_named(tmp_path: Path) -> None:
    """By the provider's identity in the name; a path that nobody's identity is in concerns every room of the sandbox."""
    async with open_store(tmp_path / "jam.db", files=Files(), clock=SystemClock(), daemon_id=UUID(int=1)) as store:
        red, blue = await room(store), await room(store)
        host = red.host.id
        assert blue.host.id == host
        await store.transact(lambda repos: repos.sessions.bind_identity(red.session.id, "thread-red"))
        await store.transact(lambda repos: repos.sessions.bind_identity(blue.session.id, "thread-blue"))
        assert await store.read(partial(_concerned, host, "log-thread-blue.jsonl")) == f"room {blue.room.name}"
        everybody = await store.read(partial(_concerned, host, "config.toml"))
        assert sorted(everybody.split(", ")) == sorted((f"room {red.room.name}", f"room {blue.room.name}"))
