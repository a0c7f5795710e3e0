"""What is asked of a daemon about rooms, exports and hosts of another one with the same database is refused by type (SHARE-1, WS-2)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial

import anyio
import pytest

from jamcore.daemon.compose import composed
from jamcore.daemon.services import Services
from jamcore.domain import layout
from jamcore.domain.errors import JamError
from jamcore.domain.keeping import ArchiveQuestion, RoomExportRequest
from jamcore.system.files import Files
from jamcore.testing.matrix.scenario import EARLIER
from jamcore.testing.matrix.scenarios import PLAYED
from jamcore.testing.parked_world import SUBJECT, Rooms, World, install_plugin, living, make_world

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.guarantee("SHARE-1", "WS-2")]

OWN = {"import", "provision", "reconcile"}
"""What is no other daemon's, or what nobody asks for."""


@pytest.fixture(scope="module")
def bring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Rooms], World]]:
    """Brings the world with rooms of a sort to where it was when it was made; each is made once."""
    root = tmp_path_factory.mktemp("strangers")

    def brought(rooms: Rooms) -> World:
        world, kept = World(root / rooms.name / "world"), root / rooms.name / "kept"
        if kept.exists():
            world.bring_back(kept)
        else:
            world.root.mkdir(parents=True)
            anyio.run(make_world, world, rooms)
            world.keep(kept)
        return world

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(install_plugin(root / "site")))
        yield brought


@asynccontextmanager
async def stranger(world: World) -> AsyncIterator[Services]:
    """A daemon with an app directory of its own and the database of the world's."""
    options = world.options(database_url=f"sqlite:///{world.app / layout.DATABASE}")
    app = Files().make_private(world.root / "stranger")
    async with composed(replace(options, app=app, runtime=world.root / "elsewhere")) as services:
        yield services


@pytest.mark.parametrize("name", sorted(PLAYED.keys() - OWN))
def test_a_stranger_changes_nothing(bring: Callable[[Rooms], World], name: str) -> None:
    """No row and no file of the owner is another than before, and what the owner is asked for then is done."""
    scenario = PLAYED[name]
    world = bring(scenario.rooms)

    async def play() -> None:
        async with living(world) as owner:
            await scenario.prepare(owner, world)
            async with stranger(world) as services:
                before = world.digest()
                with pytest.raises(JamError):
                    await scenario.ask(services, world)
                assert world.digest() == before
                await scenario.ask(owner, world)
        async with living(world) as owner:
            await scenario.check(owner, world)

    anyio.run(play)


def test_a_strangers_look_changes_nothing(bring: Callable[[Rooms], World]) -> None:
    """It sees neither files nor checkpoints; that makes none of them damaged, and it says so or refuses by type."""
    world = bring(Rooms.MANAGED)

    async def play() -> None:
        async with living(world) as owner, stranger(world) as services:
            await owner.exports.new(SUBJECT, RoomExportRequest(id=EARLIER))
            checkpoint = str((await owner.checkpoints.list(SUBJECT))[0].id)
            before = world.digest()
            for look in (
                partial(services.checkpoints.verify, checkpoint),
                partial(services.continuity.inspect, SUBJECT),
                partial(services.exports.verify, str(EARLIER)),
                partial(services.workspaces.inspect, SUBJECT),
                partial(services.archives.plan, SUBJECT, ArchiveQuestion()),
                partial(services.rooms.get, SUBJECT),
            ):
                with suppress(JamError):
                    await look()
                assert world.digest() == before, look
            assert (await owner.checkpoints.verify(checkpoint)).sound

    anyio.run(play)
