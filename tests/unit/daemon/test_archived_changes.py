"""A room whose files are in an export has nothing that a change request could be made of (WS-4)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from jamcore.testing.parked_world import SUBJECT, World, install_plugin, living
from jamcore.testing.rooms import new_id, refused
from tests.unit.daemon.clearing import make_archived

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]


@pytest.fixture
def archived(tmp_path: Path) -> Iterator[World]:
    """A world with two parked rooms, one of them archived."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(install_plugin(tmp_path / "site")))
        world = World(tmp_path / "world")
        anyio.run(make_archived, world, tmp_path / "kept")
        yield world


@pytest.mark.guarantee("WS-4")
async def test_it_is_refused_before_anything_is_begun(archived: World) -> None:
    """The refusal says what to do, and no operation is left that nothing could finish."""
    async with living(archived) as services:
        before = await services.operations.list(room=None, host=None, unfinished=False, limit=10)
        with refused("workspace.archived"):
            await services.changes.build(SUBJECT, new_id())
        assert await services.operations.list(room=None, host=None, unfinished=False, limit=10) == before
