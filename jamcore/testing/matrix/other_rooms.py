"""Scenarios of rooms that are not a managed workspace of their own, where the steps of a kind do something else for them.

A private clone lies on its sandbox's disk, so its tree is found, looked at and carried there; a directory in place is a person's own; rooms
that share a sandbox share its directory, its checkpoints and its end.
"""

from __future__ import annotations

from typing import ClassVar

from jamcore.daemon.services import Services
from jamcore.domain import layout
from jamcore.domain.cleanup_plans import CleanupQuestion, CleanupRequest
from jamcore.domain.kept_exports import ExportState
from jamcore.domain.sessions import WorkspaceState
from jamcore.testing.matrix.keeping import Archiving, Exporting, HostCleanup, Restoring, archive, holds_work
from jamcore.testing.matrix.scenario import EARLIER, LATER, Scenario
from jamcore.testing.matrix.working import Acceptance, ChangeMaking, FreshStart, Override, Provision
from jamcore.testing.parked_world import SIBLING, SUBJECT, Rooms, World


class ChangeOfClone(ChangeMaking):
    """A change request of what was done in a private clone."""

    rooms = Rooms.CLONE


class AcceptanceOfClone(Acceptance):
    """A change request of a private clone that goes on a branch of the repository that was cloned."""

    rooms = Rooms.CLONE


class OverrideOfClone(Override):
    """A sandbox with a private clone that lost its proof is removed on a person's word."""

    rooms = Rooms.CLONE


class FreshStartOfClone(FreshStart):
    """A conversation over a private clone is begun afresh, and the clone is carried along."""

    rooms = Rooms.CLONE

    async def check(self, services: Services, world: World) -> None:
        """The new sandbox has the clone as it was."""
        await super().check(services, world)
        host = (await services.rooms.get(SUBJECT)).host.id
        carried = world.app / layout.guest_disk(host) / "clone"
        assert (carried / "work.txt").read_text() == "work of subject\n"
        assert (carried / "README").is_file()


class CleanupOfClone(HostCleanup):
    """A host goes with its private clone, whose work a person lets go."""

    rooms = Rooms.CLONE

    async def prepare(self, services: Services, world: World) -> None:
        """Look at what would go, and let the work go."""
        question = CleanupQuestion(discard_work=True)
        plan = await services.cleanups.plan(SUBJECT, question)
        assert plan.digest, plan
        world.note("cleanup", CleanupRequest(id=world.asked, confirmed=plan.digest, discard_work=question.discard_work))

    def holds(self, world: World) -> None:
        """The repository that was cloned is as it was at every moment."""
        assert (world.repository / "README").read_text() == "a person's own\n"


class ChangeInPlace(ChangeMaking):
    """A change request of what was done in a person's linked work tree."""

    rooms = Rooms.DIRECT


class FreshStartInPlace(FreshStart):
    """A conversation over a person's own directory is begun afresh in the same place."""

    rooms = Rooms.DIRECT

    async def check(self, services: Services, world: World) -> None:
        """The new session works where the old one did."""
        await super().check(services, world)
        assert (await services.rooms.get(SUBJECT)).workspace.path == str(world.in_place(SUBJECT))


class Joining(Provision):
    """A new room in a sandbox that others share."""

    rooms = Rooms.SHARED
    hosts: ClassVar[int] = 1

    async def check(self, services: Services, world: World) -> None:
        """It has its place in the one sandbox."""
        await super().check(services, world)
        assert (await services.rooms.get(str(world.asked))).host.id == world.room().host.id


class ExportOfShared(Exporting):
    """One room of a shared sandbox is exported, with its own conversation alone."""

    rooms = Rooms.SHARED


class ArchiveOfShared(Archiving):
    """One room of a shared sandbox is archived."""

    rooms = Rooms.SHARED


class RestoreOfShared(Restoring):
    """One room of a shared sandbox is brought back."""

    rooms = Rooms.SHARED


class FreshStartOfShared(FreshStart):
    """The conversations of a shared sandbox are begun afresh, all of them."""

    rooms = Rooms.SHARED
    hosts: ClassVar[int] = 2

    async def check(self, services: Services, world: World) -> None:
        """Both rooms are in the one new sandbox, each with a session of its own."""
        await super().check(services, world)
        one, other = await services.rooms.get(SUBJECT), await services.rooms.get(SIBLING)
        assert one.host.id == other.host.id
        assert one.session.id != other.session.id


class CleanupOfShared(HostCleanup):
    """A shared sandbox goes, whose rooms are archived."""

    rooms = Rooms.SHARED

    async def prepare(self, services: Services, world: World) -> None:
        """Archive the other room too."""
        await archive(services, LATER, SIBLING)
        await super().prepare(services, world)

    async def check(self, services: Services, world: World) -> None:
        """Both exports are there, and both rooms stay archived."""
        await super().check(services, world)
        assert {row.export.state for row in await services.exports.list(None)} == {ExportState.PUBLISHED}
        states = {(await services.rooms.get(name)).workspace.state for name in (SUBJECT, SIBLING)}
        assert states == {WorkspaceState.ARCHIVED}

    async def ask_otherwise(self, services: Services, world: World) -> object:
        """Confirm other evidence under the same id: there is no other sandbox."""
        request = world.asking("cleanup", CleanupRequest).model_copy(update={"confirmed": "0" * 64})
        return await services.cleanups.clean_up(world.room().host.sandbox, request)

    def holds(self, world: World) -> None:
        """Both exports are whole at every moment."""
        assert all(holds_work(world.app / layout.export_root(export)) for export in (EARLIER, LATER))


OTHER_ROOMS: tuple[Scenario, ...] = (
    ChangeOfClone(),
    AcceptanceOfClone(),
    OverrideOfClone(),
    FreshStartOfClone(),
    CleanupOfClone(),
    ChangeInPlace(),
    FreshStartInPlace(),
    Joining(),
    ExportOfShared(),
    ArchiveOfShared(),
    RestoreOfShared(),
    FreshStartOfShared(),
    CleanupOfShared(),
)
