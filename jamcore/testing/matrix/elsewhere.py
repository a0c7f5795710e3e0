"""Scenarios of exports that come from elsewhere: taken in, and made a room."""

from __future__ import annotations

import shutil
from pathlib import Path

from jamcore.daemon.services import Services
from jamcore.domain import layout
from jamcore.domain.imports import AdoptRequest, ConfirmRequest, ImportRequest
from jamcore.domain.keeping import RoomExportRequest
from jamcore.domain.kept_exports import ExportState
from jamcore.domain.sessions import WorkspaceState
from jamcore.testing.matrix.keeping import holds_work
from jamcore.testing.matrix.scenario import EARLIER, LATER, Scenario
from jamcore.testing.parked_world import SUBJECT, World
from jamcore.workspace.keeping.adopting import KIND as ADOPT
from jamcore.workspace.keeping.importing import COPY_POINTS
from jamcore.workspace.keeping.importing import KIND as IMPORT

NAME = "adopted"


class Importing(Scenario):
    """An export is taken in from a directory, and is quarantined."""

    kind = IMPORT
    inner = COPY_POINTS

    async def prepare(self, services: Services, world: World) -> None:
        """Have an export lie in directories that are not Jam's."""
        await services.exports.new(SUBJECT, RoomExportRequest(id=EARLIER))
        for name in ("elsewhere", "other"):
            shutil.copytree(world.app / layout.export_root(EARLIER), world.root / name, symlinks=True)

    async def ask(self, services: Services, world: World) -> object:
        """Take it in."""
        return (await services.imports.take(_of(world, "elsewhere"))).export.id

    async def ask_otherwise(self, services: Services, world: World) -> object:
        """Take another one in under its id."""
        return await services.imports.take(_of(world, "other"))

    async def check(self, services: Services, world: World) -> None:
        """It is whole, and nobody may use it yet."""
        states = {row.export.id: row.export.state for row in await services.exports.list(None)}
        assert states == {world.asked: ExportState.QUARANTINED, EARLIER: ExportState.PUBLISHED}
        assert (await services.imports.inspect(str(world.asked))).digest
        self.holds(world)

    def holds(self, world: World) -> None:
        """What it came from is whole at every moment."""
        assert holds_work(world.root / "elsewhere")
        assert not (world.app / layout.export_root(world.asked)).exists() or holds_work(world.app / layout.export_root(world.asked))


class Adoption(Scenario):
    """A confirmed export from elsewhere becomes a room."""

    kind = ADOPT

    async def prepare(self, services: Services, world: World) -> None:
        """Take one in and confirm it."""
        await services.exports.new(SUBJECT, RoomExportRequest(id=EARLIER))
        shutil.copytree(world.app / layout.export_root(EARLIER), world.root / "elsewhere", symlinks=True)
        view = await services.imports.take(ImportRequest(id=LATER, path=str(world.root / "elsewhere")))
        await services.imports.confirm(str(LATER), ConfirmRequest(confirmed=view.digest))

    async def ask(self, services: Services, world: World) -> object:
        """Make the room."""
        view = await services.adoptions.restore(str(LATER), AdoptRequest(id=world.asked, name=NAME, engine="local"))
        return view.room, view.host.id, view.workspace

    async def ask_otherwise(self, services: Services, world: World) -> object:
        """Make one of another name under its id."""
        return await services.adoptions.restore(str(LATER), AdoptRequest(id=world.asked, name="other", engine="local"))

    async def check(self, services: Services, world: World) -> None:
        """The room has the files and the conversation."""
        view = await services.rooms.get(NAME)
        assert view.workspace.state is WorkspaceState.READY
        assert view.session.provider_identity == world.room().session.provider_identity
        (work,) = list(world.app.rglob(f"{view.session.id}/work.txt"))
        assert work.read_text() == "work of subject\n"
        self.holds(world)

    def holds(self, world: World) -> None:
        """The export is whole at every moment."""
        assert holds_work(world.app / layout.export_root(LATER))


def _of(world: World, name: str) -> ImportRequest:
    return ImportRequest(id=world.asked, path=str(world.root / Path(name)))


ELSEWHERE = (Importing(), Adoption())
