"""Where histories begin: two rooms at work, one that is archived, and an export from elsewhere that a person confirmed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jamcore.daemon.services import Services
from jamcore.domain import layout
from jamcore.domain.imports import ConfirmRequest, ImportRequest
from jamcore.domain.keeping import ArchiveQuestion, ArchiveRequest
from jamcore.domain.kept_exports import ExportState
from jamcore.domain.operations import ExportRetention
from jamcore.domain.removal import RemovalOverride
from jamcore.domain.requests import RoomRequest
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds
from jamcore.testing.histories.lives import BLANK, USED, Daemon, Place
from jamcore.testing.histories.model import KnownRoom, Model
from jamcore.testing.parked_world import World, replace_tree, say
from jamcore.testing.postgres import PostgresServer

AT_WORK, PUT_AWAY = ("subject", "sibling"), "stored"


@contextmanager
def beginning(root: Path, server: PostgresServer | None = None) -> Iterator[tuple[Place, Model]]:
    """Make a place once, and yield it with what is known of it; each history puts it back and copies that."""
    place = Place(World(root / "world"), root / "blank", server)
    for directory in (place.world.root, place.world.app, place.world.root / "home"):
        Files().make_private(directory)
    if server:
        server.create(USED)
    model = Model()
    daemon = Daemon(place)
    try:
        daemon.ask(lambda services: _make(services, place, model))
    finally:
        daemon.end()
    if server:
        server.create(BLANK, template=USED)
    replace_tree(place.world.root, place.blank)
    try:
        yield place, model
    finally:
        if server:
            for name in (USED, BLANK):
                server.drop(name)


async def _make(services: Services, place: Place, model: Model) -> None:
    for name in (*AT_WORK, PUT_AWAY):
        await _make_room(services, place, model, name)
    stored, archive = model.rooms[PUT_AWAY], SystemIds().uuid()
    plan = await services.archives.plan(PUT_AWAY, ArchiveQuestion())
    words = tuple(RemovalOverride(reason=each.reason, path=each.path) for each in plan.standing)
    request = ArchiveRequest(id=archive, overrides=words, confirmed=plan.evidence.content_digest())
    await services.archives.archive(PUT_AWAY, request)
    model.archived(archive, stored, ExportRetention.KEEP_ALL)
    path, taken = place.world.root / "elsewhere", SystemIds().uuid()
    replace_tree(place.world.app / layout.export_root(archive), path)
    view = await services.imports.take(ImportRequest(id=taken, path=str(path)))
    await services.imports.confirm(str(taken), ConfirmRequest(confirmed=view.digest))
    model.taken(taken, model.exports[archive])
    model.exports[taken].state = ExportState.PUBLISHED


async def _make_room(services: Services, place: Place, model: Model, name: str) -> None:
    """Make a room with a turn and a file, and park it."""
    view = await services.rooms.create(RoomRequest(id=SystemIds().uuid(), name=name, provider="notebook", engine="local"))
    await say(services, name, f"first of {name}")
    tree = place.tree(view.session.id)
    assert tree is not None
    (tree / "first.txt").write_bytes(name.encode())
    await services.rooms.stop(name)
    model.rooms[name] = KnownRoom(name, {"first.txt": name.encode()}, [f"first of {name}"])
