"""Exports that were cut while they were made: each has a record in the end, or is gone (WS-5, WS-12)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import anyio
import pytest

from jamcore.domain import layout
from jamcore.domain.keeping import RoomExportRequest
from jamcore.testing.crash import KillAt, Killed
from jamcore.testing.parked_world import SUBJECT, World, install_plugin, living, make_world
from jamcore.testing.rooms import new_id, refused

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.guarantee("WS-5", "WS-12")]

CUT = RoomExportRequest(id=UUID(int=6))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Path]]:
    """A world with two parked rooms, made once, and where that state is kept."""
    root = tmp_path_factory.mktemp("exports")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(install_plugin(root / "site")))
        world = World(root / "world")
        anyio.run(make_world, world)
        world.keep(root / "kept")
        yield world, root / "kept"


@pytest.fixture
def world(kept: tuple[World, Path]) -> World:
    """That world, as it was kept."""
    world, state = kept
    world.bring_back(state)
    return world


async def cut_behind_its_name(world: World) -> Path:
    """Have an export cut when it got its name and nobody had noted that; return its directory."""
    with pytest.raises(Killed):
        async with living(world, crash=KillAt("writing.export.published")) as services:
            await services.exports.new(SUBJECT, CUT)
    return world.app / layout.export_root(CUT.id)


async def test_an_export_that_was_damaged_before_it_was_noted_goes(world: World) -> None:
    """The action ends, no directory without a record is left, and another export can be made."""
    export = await cut_behind_its_name(world)
    (export / "workspace" / "work.txt").write_text("spoilt")
    async with living(world) as services:
        assert (world.unfinished(), export.exists()) == ([], False)
        with refused("journal.given_up"):
            await services.exports.new(SUBJECT, CUT)
        made = await services.exports.new(SUBJECT, RoomExportRequest(id=new_id()))
        assert (await services.exports.verify(str(made.export.id))).sound


async def test_what_has_the_name_of_an_export_and_is_none_of_it_stays(world: World) -> None:
    """Its manifest does not say that it was written for this."""
    export = await cut_behind_its_name(world)
    (export / "manifest.json").write_text("{}")
    async with living(world):
        assert (world.unfinished(), export.exists()) == ([], True)
