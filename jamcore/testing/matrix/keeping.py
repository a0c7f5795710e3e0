"""Scenarios of what keeps workspaces and takes them away: exports, archives, restores, deletions, clean-ups."""

from __future__ import annotations

import hashlib
from pathlib import Path
from uuid import UUID

from jamcore.daemon.services import Services
from jamcore.domain import layout
from jamcore.domain.cleanup_plans import CleanupQuestion, CleanupRequest
from jamcore.domain.export_deletions import ExportDeletionRequest
from jamcore.domain.exports import SUMS
from jamcore.domain.keeping import ArchiveQuestion, ArchiveRequest, RestoreRequest, RoomExportRequest
from jamcore.domain.kept_exports import ExportState
from jamcore.domain.operations import ExportRetention
from jamcore.domain.removal import RemovalOverride, RemovalReason
from jamcore.domain.sessions import WorkspaceState
from jamcore.domain.workspace_care import RecoverRequest, RecoveryWay
from jamcore.sandbox.cleanup import KIND as CLEANUP
from jamcore.testing.matrix.scenario import EARLIER, LATER, Scenario
from jamcore.testing.parked_world import SIBLING, SUBJECT, World
from jamcore.workspace.keeping.archiving import KIND as ARCHIVE
from jamcore.workspace.keeping.deleting import KIND as DELETE
from jamcore.workspace.keeping.exporting import KIND as EXPORT
from jamcore.workspace.keeping.exporting import WRITE_POINTS
from jamcore.workspace.keeping.recovering import KIND as RECOVER
from jamcore.workspace.keeping.restoring import KIND as RESTORE
from jamcore.workspace.keeping.restoring import PLACE_POINTS

WORK, SPOILT = "work of subject\n", "spoilt\n"


LOST = (RemovalOverride(reason=RemovalReason.OUTSIDE, path="."),)
"""A person's word that the files may go, which are in no repository."""


class Exporting(Scenario):
    """A room's workspace is exported."""

    kind = EXPORT
    inner = WRITE_POINTS

    async def prepare(self, services: Services, world: World) -> None:
        """Need nothing."""

    async def ask(self, services: Services, world: World) -> object:
        """Export it."""
        return (await services.exports.new(SUBJECT, RoomExportRequest(id=world.asked))).export.id

    async def ask_otherwise(self, services: Services, world: World) -> object:
        """Export the other room under the same id."""
        return await services.exports.new(SIBLING, RoomExportRequest(id=world.asked))

    async def check(self, services: Services, world: World) -> None:
        """There is one export, and no other directory beside it."""
        (row,) = await services.exports.list(None)
        assert (row.export.id, row.export.state) == (world.asked, ExportState.PUBLISHED)
        assert [path.name for path in (world.app / layout.EXPORTS).iterdir()] == [str(world.asked)]
        self.holds(world)

    def holds(self, world: World) -> None:
        """The live files are there at every moment."""
        assert (world.work() / "work.txt").read_text() == WORK


class Archiving(Scenario):
    """A room's workspace is archived, and its older export goes with it."""

    kind = ARCHIVE

    async def prepare(self, services: Services, world: World) -> None:
        """Export it once, and look at what an archive would take away."""
        await services.exports.new(SUBJECT, RoomExportRequest(id=EARLIER))
        await self.look_again(services, world)

    async def look_again(self, services: Services, world: World) -> None:
        """Look at what an archive would take away."""
        question = ArchiveQuestion(retention=ExportRetention.KEEP_LATEST, overrides=LOST)
        plan = await services.archives.plan(SUBJECT, question)
        assert plan.digest, plan
        request = ArchiveRequest(id=world.asked, confirmed=plan.digest, retention=question.retention, overrides=question.overrides)
        world.note("archive", request)

    async def ask(self, services: Services, world: World) -> object:
        """Archive it."""
        return await services.archives.archive(SUBJECT, world.asking("archive", ArchiveRequest))

    async def ask_otherwise(self, services: Services, world: World) -> object:
        """Keep the older exports, under the same id."""
        request = world.asking("archive", ArchiveRequest)
        return await services.archives.archive(SUBJECT, request.model_copy(update={"retention": ExportRetention.KEEP_ALL}))

    async def check(self, services: Services, world: World) -> None:
        """The files are in the export alone."""
        view = await services.rooms.get(SUBJECT)
        assert view.workspace.state is WorkspaceState.ARCHIVED
        assert not world.work().exists()
        states = {row.export.id: row.export.state for row in await services.exports.list(None)}
        assert states.pop(world.asked) is ExportState.PUBLISHED
        assert EARLIER in states
        assert set(states.values()) == {ExportState.DELETED}  # those of attempts that failed, too
        self.holds(world)

    def holds(self, world: World) -> None:
        """No live byte is gone before an export that holds it is whole."""
        live = world.work() / "work.txt"
        assert (live.is_file() and live.read_text() == WORK) or holds_work(world.app / layout.export_root(world.asked))


class Restoring(Scenario):
    """An archived workspace is brought back."""

    kind = RESTORE
    inner = PLACE_POINTS

    async def prepare(self, services: Services, world: World) -> None:
        """Archive it."""
        await archive(services)

    async def ask(self, services: Services, world: World) -> object:
        """Bring it back."""
        return await services.restores.restore(SUBJECT, RestoreRequest(id=world.asked))

    async def ask_otherwise(self, services: Services, world: World) -> object:
        """Bring the other one back under the same id."""
        return await services.restores.restore(SIBLING, RestoreRequest(id=world.asked))

    async def check(self, services: Services, world: World) -> None:
        """The files are in their place and in the export."""
        assert (await services.rooms.get(SUBJECT)).workspace.state is WorkspaceState.READY
        assert (world.work() / "work.txt").read_text() == WORK
        self.holds(world)

    def holds(self, world: World) -> None:
        """The export is whole at every moment."""
        assert holds_work(world.app / layout.export_root(EARLIER))


class Recovering(Scenario):
    """A workspace is recovered from its export, beside what is there."""

    kind = RECOVER

    async def prepare(self, services: Services, world: World) -> None:
        """Export it, and spoil what is there."""
        await services.exports.new(SUBJECT, RoomExportRequest(id=EARLIER))
        (world.work() / "work.txt").write_text(SPOILT)

    async def ask(self, services: Services, world: World) -> object:
        """Recover it."""
        return await services.workspaces.recover(SUBJECT, RecoverRequest(id=world.asked, way=RecoveryWay.RESTORE_LATEST))

    async def ask_otherwise(self, services: Services, world: World) -> object:
        """Recover the other one under the same id."""
        return await services.workspaces.recover(SIBLING, RecoverRequest(id=world.asked, way=RecoveryWay.RESTORE_LATEST))

    async def check(self, services: Services, world: World) -> None:
        """The files of the export are in their place, and what was there is beside them."""
        assert (await services.rooms.get(SUBJECT)).workspace.state is WorkspaceState.READY
        assert (world.work() / "work.txt").read_text() == WORK
        self.holds(world)

    def holds(self, world: World) -> None:
        """The export is whole, and what was there is somewhere, at every moment."""
        assert holds_work(world.app / layout.export_root(EARLIER))
        assert SPOILT in {path.read_text() for path in world.app.rglob("work.txt")}


class ExportDeletion(Scenario):
    """One of two exports of an archived workspace is deleted."""

    kind = DELETE

    async def prepare(self, services: Services, world: World) -> None:
        """Make both, and look at what would go."""
        await services.exports.new(SUBJECT, RoomExportRequest(id=EARLIER))
        await archive(services, LATER)
        plan = await services.export_deletions.plan(str(EARLIER))
        assert plan.digest, plan
        world.note("deletion", ExportDeletionRequest(id=world.asked, confirmed=plan.digest))

    async def ask(self, services: Services, world: World) -> object:
        """Delete the older one."""
        return await services.export_deletions.delete(str(EARLIER), world.asking("deletion", ExportDeletionRequest))

    async def ask_otherwise(self, services: Services, world: World) -> object:
        """Delete the other one under the same id."""
        return await services.export_deletions.delete(str(LATER), world.asking("deletion", ExportDeletionRequest))

    async def check(self, services: Services, world: World) -> None:
        """It is gone, and nothing of it is left."""
        states = {row.export.id: row.export.state for row in await services.exports.list(None)}
        assert states == {EARLIER: ExportState.DELETED, LATER: ExportState.PUBLISHED}
        assert [path.name for path in (world.app / layout.EXPORTS).iterdir()] == [str(LATER)]
        self.holds(world)

    def holds(self, world: World) -> None:
        """The other export is whole at every moment."""
        assert holds_work(world.app / layout.export_root(LATER))


class HostCleanup(Scenario):
    """A whole host goes, whose workspace is archived."""

    kind = CLEANUP

    async def prepare(self, services: Services, world: World) -> None:
        """Archive the workspace, and look at what would go."""
        await archive(services)
        cleanup = await services.cleanups.plan(SUBJECT, CleanupQuestion())
        assert cleanup.digest, cleanup
        world.note("cleanup", CleanupRequest(id=world.asked, confirmed=cleanup.digest))

    async def ask(self, services: Services, world: World) -> object:
        """Clean it up."""
        return await services.cleanups.clean_up(world.room().host.sandbox, world.asking("cleanup", CleanupRequest))

    async def ask_otherwise(self, services: Services, world: World) -> object:
        """Clean the other one up under the same id."""
        return await services.cleanups.clean_up(world.room(SIBLING).host.sandbox, world.asking("cleanup", CleanupRequest))

    async def check(self, services: Services, world: World) -> None:
        """Sandbox, marker and directory are gone; the export is not."""
        host = world.room().host
        assert not (world.app / layout.host_root(host.id)).exists()
        assert not (world.app / layout.engine_root(host.engine) / f"{host.sandbox}.json").exists()
        assert not (world.app / layout.owner_marker(host.sandbox)).exists()
        self.holds(world)

    def holds(self, world: World) -> None:
        """The export is whole at every moment."""
        assert holds_work(world.app / layout.export_root(EARLIER))


async def archive(services: Services, identifier: UUID = EARLIER, room: str = SUBJECT) -> None:
    """Archive a room's workspace."""
    question = ArchiveQuestion(overrides=LOST)
    plan = await services.archives.plan(room, question)
    request = ArchiveRequest(id=identifier, confirmed=plan.digest, overrides=question.overrides)
    await services.archives.archive(room, request)


def holds_work(root: Path) -> bool:
    """Say whether an export has its name and is whole, by its own list of sums and nothing of Jam's."""
    if not (root / SUMS).is_file():
        return False
    sums = [line.split("  ", 1) for line in (root / SUMS).read_text().splitlines()]
    sound = all(hashlib.sha256((root / name).read_bytes()).hexdigest() == digest for digest, name in sums)
    return sound and any(name.endswith("/work.txt") for _, name in sums)


KEEPING = (Exporting(), Archiving(), Restoring(), Recovering(), ExportDeletion(), HostCleanup())
