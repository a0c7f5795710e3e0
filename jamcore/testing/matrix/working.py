"""Scenarios of what makes rooms and what comes of their work: directories, change requests, conversations, sandboxes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import ClassVar

from jamcore.continuity.resets.action import KIND as RESET
from jamcore.continuity.retention.deletion import KIND as DELETION
from jamcore.continuity.retention.repack import REPACK_POINTS
from jamcore.daemon.services import Services
from jamcore.domain import layout
from jamcore.domain.changes import ChangeRequest
from jamcore.domain.ownership import GUEST_MARKER
from jamcore.domain.requests import AcceptRequest, OverrideRequest
from jamcore.domain.resets import StartFreshRequest
from jamcore.domain.retention import RemovalQuestion, RemovalRequest
from jamcore.domain.sessions import WorkspaceState
from jamcore.domain.workspace_care import RecoverRequest, RecoveryWay
from jamcore.runs.accept_action import KIND as ACCEPT
from jamcore.runs.change_action import KIND as CHANGE
from jamcore.runs.change_request import METADATA, PATCHED, WRITTEN
from jamcore.runtime.provision import KIND as PROVISION
from jamcore.runtime.reconcile import KIND as RECONCILE
from jamcore.sandbox.override import KIND as OVERRIDE
from jamcore.testing.matrix.scenario import EARLIER, Scenario
from jamcore.testing.parked_world import SIBLING, SUBJECT, World, room_request, say

AUTHOR = "A Person <person@example.org>"


class Provision(Scenario):
    """A new room's directories."""

    kind = PROVISION
    hosts: ClassVar[int] = 3

    async def prepare(self, services: Services, world: World) -> None:
        """Need nothing."""

    async def ask(self, services: Services, world: World) -> object:
        """Create a room."""
        view = await services.rooms.create(room_request(world, "new", self.rooms, world.asked))
        return view.room, view.host.id, view.workspace

    async def ask_otherwise(self, services: Services, world: World) -> object:
        """Create another one under its id."""
        return await services.rooms.create(room_request(world, "other", self.rooms, world.asked))

    async def check(self, services: Services, world: World) -> None:
        """The workspace is ready and there is one manifest more."""
        view = await services.rooms.get(str(world.asked))
        assert view.workspace.state is WorkspaceState.READY
        assert (world.app / layout.manifest(view.host.id)).is_file()
        assert len(list((world.app / layout.HOSTS).iterdir())) == self.hosts

    def holds(self, world: World) -> None:
        """The other rooms' files are there at every moment."""
        require_work(world)


class Reconciliation(Scenario):
    """The place of a workspace has lost its manifest, and a start puts that right."""

    kind = RECONCILE
    has_words = False

    async def prepare(self, services: Services, world: World) -> None:
        """Lose it."""
        self._manifest(world).unlink()

    async def ask(self, services: Services, world: World) -> object:
        """Ask for nothing: the start has done it."""
        return (await services.rooms.get(SUBJECT)).workspace

    async def look_again(self, services: Services, world: World) -> None:
        """Say that the place is to be the workspace's own again, where a start could not put it right."""
        if (await services.rooms.get(SUBJECT)).workspace.state is WorkspaceState.NEEDS_RECONCILIATION:
            await services.workspaces.recover(SUBJECT, RecoverRequest(id=world.asked, way=RecoveryWay.RETRY))

    async def check(self, services: Services, world: World) -> None:
        """The manifest is there again, and the workspace is ready."""
        assert self._manifest(world).is_file()
        assert (await services.rooms.get(SUBJECT)).workspace.state is WorkspaceState.READY
        self.holds(world)

    def holds(self, world: World) -> None:
        """The files are there at every moment."""
        require_work(world)

    def _manifest(self, world: World) -> Path:
        return world.app / layout.manifest(world.room().host.id)


class ChangeMaking(Scenario):
    """A change request of a room's work."""

    kind = CHANGE
    inner = (PATCHED, WRITTEN)

    async def prepare(self, services: Services, world: World) -> None:
        """Need nothing: the room has worked."""

    async def ask(self, services: Services, world: World) -> object:
        """Ask for one."""
        return await services.changes.build(SUBJECT, world.asked)

    async def ask_otherwise(self, services: Services, world: World) -> object:
        """Ask for one of the other room under its id."""
        return await services.changes.build(SIBLING, world.asked)

    async def check(self, services: Services, world: World) -> None:
        """There is one whole package with the work in it."""
        (change,) = await services.changes.list()
        assert (change.id, change.complete, [each.path for each in change.paths]) == (world.asked, True, ["work.txt"])
        assert "work of subject" in (await services.changes.show(str(world.asked))).patch
        assert [path.name for path in (world.app / layout.CHANGES).iterdir()] == [str(world.asked)]

    def holds(self, world: World) -> None:
        """What has the package's name is whole, and the work tree is as it was, at every moment."""
        package = world.app / layout.change(world.asked)
        if package.exists():
            for file in ChangeRequest.model_validate_json((package / METADATA).read_bytes()).files:
                assert hashlib.sha256((package / file.name).read_bytes()).hexdigest() == file.sha256
        require_work(world)


class Acceptance(Scenario):
    """A change request that goes on a branch of a person's repository."""

    kind = ACCEPT

    async def prepare(self, services: Services, world: World) -> None:
        """Make the change request."""
        world.note("change", await services.changes.build(SUBJECT, EARLIER))

    async def ask(self, services: Services, world: World) -> object:
        """Accept it."""
        return await services.reviews.accept(str(EARLIER), self._request(world, "jam/work"))

    async def ask_otherwise(self, services: Services, world: World) -> object:
        """Accept it onto another branch under the same id."""
        return await services.reviews.accept(str(EARLIER), self._request(world, "jam/other"))

    async def check(self, services: Services, world: World) -> None:
        """One commit on one branch, one decision, and the person's own branch as it was."""
        (decision,) = await services.reviews.decisions()
        heads = {path.relative_to(world.repository / ".git/refs/heads") for path in world.repository.glob(".git/refs/heads/**/*")}
        assert {str(head) for head in heads} == {"main", "jam", "jam/work"}
        assert (world.repository / ".git/refs/heads/jam/work").read_text().strip() == decision.commit

    def holds(self, world: World) -> None:
        """The person's own branch and files are as they were, at every moment."""
        assert (world.repository / "README").read_text() == "a person's own\n"
        assert len((world.repository / ".git/logs/refs/heads/main").read_text().splitlines()) == 1

    def _request(self, world: World, branch: str) -> AcceptRequest:
        sha = world.noted("change", ChangeRequest).patch_sha256
        assert sha is not None
        return AcceptRequest(id=world.asked, patch_sha256=sha, branch=branch, repository=str(world.repository), author=AUTHOR)


class PayloadRemoval(Scenario):
    """The payload of two checkpoints in the middle."""

    kind = DELETION
    inner = REPACK_POINTS

    async def prepare(self, services: Services, world: World) -> None:
        """Say much, so that checkpoints need of each other what they hold, and look at what would go."""
        for text in ("much " * 20_000, "one", "two"):
            await say(services, SUBJECT, text)
        await services.rooms.stop(SUBJECT)
        rows = await services.checkpoints.list(SUBJECT)
        chosen = tuple(str(row.id) for row in reversed(rows[2:4]))
        plan = await services.removals.plan(RemovalQuestion(checkpoints=chosen))
        assert plan.digest, plan.evidence
        world.note("removal", RemovalRequest(id=world.asked, checkpoints=chosen, confirmed=plan.digest))

    async def ask(self, services: Services, world: World) -> object:
        """Remove them."""
        return await services.removals.remove(world.asking("removal", RemovalRequest))

    async def ask_otherwise(self, services: Services, world: World) -> object:
        """Remove only one of them under the same id."""
        request = world.asking("removal", RemovalRequest)
        return await services.removals.remove(request.model_copy(update={"checkpoints": request.checkpoints[:1]}))

    async def check(self, services: Services, world: World) -> None:
        """What was chosen is gone, and everything else is sound."""
        chosen = set(world.asking("removal", RemovalRequest).checkpoints)
        standings = await services.removals.standings(SUBJECT)
        assert {str(each.checkpoint.id) for each in standings if each.removed_at} == chosen
        for each in standings:
            if each.removed_at is None:
                assert (await services.checkpoints.verify(str(each.checkpoint.id))).sound

    def holds(self, world: World) -> None:
        """The newest generation is a generation at every moment."""
        host = world.room().host.id
        newest = max((world.app / layout.recovery(host) / "checkpoints").iterdir())
        assert (newest / "complete.json").is_file()


class FreshStart(Scenario):
    """A conversation that cannot be brought back is begun afresh."""

    kind = RESET
    hosts: ClassVar[int] = 3

    async def prepare(self, services: Services, world: World) -> None:
        """Damage every generation."""
        host = world.room().host.id
        for pack in (world.app / layout.packs(host)).glob("*.pack"):
            pack.write_bytes(pack.read_bytes()[:-1])
        view = await services.continuity.inspect(SUBJECT)
        assert view.can_start_fresh, view
        world.note("reset", StartFreshRequest(id=world.asked, evidence=view.digest, confirm=True))

    async def ask(self, services: Services, world: World) -> object:
        """Begin afresh."""
        return await services.continuity.start_fresh(SUBJECT, world.asking("reset", StartFreshRequest))

    async def ask_otherwise(self, services: Services, world: World) -> object:
        """Confirm other evidence under the same id."""
        request = world.asking("reset", StartFreshRequest)
        return await services.continuity.start_fresh(SUBJECT, request.model_copy(update={"evidence": "0" * 64}))

    async def check(self, services: Services, world: World) -> None:
        """One new host; the old one is archived with its files where they were."""
        view, before = await services.rooms.get(SUBJECT), world.room()
        assert view.host.id != before.host.id
        assert len(world.rows("SELECT id FROM continuity_resets")) == 1
        assert len(world.rows("SELECT id FROM hosts")) == self.hosts
        self.holds(world)

    def holds(self, world: World) -> None:
        """The old session's files are there at every moment."""
        require_work(world)


class Override(Scenario):
    """A sandbox that lost its proof is removed on a person's word."""

    kind = OVERRIDE

    async def prepare(self, services: Services, world: World) -> None:
        """Lose the proof."""
        host = world.room().host
        (world.app / layout.guest_disk(host.id) / "home" / GUEST_MARKER.rpartition("/")[2]).unlink()
        record = world.app / layout.engine_root(host.engine) / f"{host.sandbox}.json"
        record.write_text(record.read_text().replace(f'"proof":"{_proof(record)}"', '"proof":""'))
        view = await services.hosts.inspect_override(SUBJECT)
        assert view.needed, view
        world.note("override", OverrideRequest(id=world.asked, confirmed=view.digest))

    async def ask(self, services: Services, world: World) -> object:
        """Remove it."""
        return await services.hosts.override(SUBJECT, world.asking("override", OverrideRequest))

    async def ask_otherwise(self, services: Services, world: World) -> object:
        """Confirm other evidence under the same id."""
        request = world.asking("override", OverrideRequest)
        return await services.hosts.override(SUBJECT, request.model_copy(update={"confirmed": "0" * 64}))

    async def check(self, services: Services, world: World) -> None:
        """Sandbox and marker are gone; the files are not."""
        host = world.room().host
        assert not (world.app / layout.engine_root(host.engine) / f"{host.sandbox}.json").exists()
        assert not (world.app / layout.owner_marker(host.sandbox)).exists()
        self.holds(world)

    def holds(self, world: World) -> None:
        """What the guest wrote is there at every moment."""
        require_work(world)
        assert (world.app / layout.guest_disk(world.room().host.id) / "home/.notebook/notebook.db").is_file()


def _proof(record: Path) -> str:
    return str(json.loads(record.read_bytes())["spec"]["proof"])


def require_work(world: World) -> None:
    """Require that the room's own files are in their place."""
    assert (world.work() / "work.txt").read_text() == "work of subject\n"


WORKING = (Provision(), Reconciliation(), ChangeMaking(), Acceptance(), PayloadRemoval(), FreshStart(), Override())
