"""The fake's clean-ups of hosts and deletions of exports: rooms that are live stand against one, and nothing is really removed."""

from __future__ import annotations

from uuid import UUID

from jamcore.domain.capacity import CapacityReport, ExportUse, HostUse
from jamcore.domain.cleanup_plans import (
    CleanupBlocker,
    CleanupEvidence,
    CleanupItem,
    CleanupPlan,
    CleanupQuestion,
    CleanupReason,
    CleanupRequest,
    CleanupResult,
)
from jamcore.domain.errors import NotFoundError
from jamcore.domain.export_deletions import (
    ExportDeletionEvidence,
    ExportDeletionPlan,
    ExportDeletionRequest,
    ExportDeletionResult,
)
from jamcore.domain.host_cleanups import CleanupStage, HostCleanup
from jamcore.domain.keeping import KeptBytes
from jamcore.testing.fake_daemon.records import AT, Conversation
from jamcore.testing.fake_daemon.state import Part

EXPORT = KeptBytes(id=UUID(int=11), bytes_total=2048)


class FakeCleanups(Part):
    """Answers about the hosts of the fake's rooms."""

    async def plan(self, ref: str, question: CleanupQuestion) -> CleanupPlan:
        """See :class:`~jamcore.daemon.services.CleanupService`."""
        await self.fake.note("plan_cleanup", question)
        evidence = _evidence(self.fake.find(ref))
        standing = evidence.standing(discard_work=question.discard_work)
        return CleanupPlan(
            evidence=evidence,
            standing=standing,
            planned_bytes=evidence.planned_bytes,
            retained_bytes=evidence.retained_bytes,
            change_requests=1,
            unfinished=None,
            digest="" if standing else evidence.content_digest(),
        )

    async def clean_up(self, ref: str, request: CleanupRequest) -> CleanupResult:
        """See :class:`~jamcore.daemon.services.CleanupService`."""
        await self.fake.note("clean_up", request)
        evidence = _evidence(self.fake.find(ref))
        evidence.require(request.confirmed, discard_work=request.discard_work)
        done = HostCleanup(
            id=request.id,
            host_id=evidence.host_id,
            stage=CleanupStage.SUCCEEDED,
            confirmed=request.confirmed,
            sandbox_absent=False,
            planned_bytes=evidence.planned_bytes,
            removed_bytes=evidence.planned_bytes,
            retained_bytes=evidence.retained_bytes,
            prepared_at=AT,
            ended_at=AT,
        )
        return CleanupResult(cleanup=done, sandbox=evidence.sandbox, rooms=evidence.rooms, exports=evidence.exports)


class FakeExportDeletions(Part):
    """Answers about the fake's exports."""

    async def plan(self, ref: str) -> ExportDeletionPlan:
        """See :class:`~jamcore.daemon.services.ExportDeletionService`."""
        await self.fake.note("plan_deletion", ref)
        evidence = self._evidence(ref)
        path = f"/jam/workspace-exports/{evidence.export_id}"
        return ExportDeletionPlan(evidence=evidence, path=path, digest=evidence.content_digest())

    async def delete(self, ref: str, request: ExportDeletionRequest) -> ExportDeletionResult:
        """See :class:`~jamcore.daemon.services.ExportDeletionService`."""
        await self.fake.note("delete_export", request)
        evidence = self._evidence(ref)
        evidence.require(request.confirmed, lose_workspace=request.lose_workspace)
        return ExportDeletionResult(id=request.id, export_id=evidence.export_id, bytes_freed=evidence.bytes_freed)

    def _evidence(self, ref: str) -> ExportDeletionEvidence:
        """The only export of a room is the last one of its workspace."""
        for identifier, row in self.fake.exports.items():
            if str(identifier).startswith(ref):
                beside = [each for each in self.fake.exports.values() if each.room_id == row.room_id and each.id != row.id]
                return ExportDeletionEvidence(
                    export_id=identifier,
                    room=self.fake.rooms[row.room_id].room.name if row.room_id else "",
                    manifest_sha256=row.manifest_sha256,
                    payload="f" * 64,
                    bytes_freed=8192,
                    last_of_workspace=not beside,
                    others=tuple(KeptBytes(id=each.id, bytes_total=each.bytes_total) for each in beside),
                )
        raise NotFoundError(kind="export", ref=ref)


class FakeCapacity(Part):
    """One host for each room, one of them too large to be counted whole, and an old export."""

    async def report(self) -> CapacityReport:
        """See :class:`~jamcore.daemon.services.CapacityService`."""
        await self.fake.note("capacity")
        hosts = tuple(
            HostUse(
                host_id=each.host.id,
                sandbox=each.host.sandbox,
                engine=each.host.engine,
                state=each.host.state,
                rooms=(each.room.name,),
                guest_disk=4096,
                checkpoints=8192,
                exports=2048,
                whole=False,
                checkpoints_that_may_go=2,
            )
            for each in self.fake.rooms.values()
        )
        old = ExportUse(id=EXPORT.id, room="old \x1b[2J", bytes_total=2048, age_days=31)
        return CapacityReport(hosts=hosts, exports=1, export_bytes=2048, candidates=(old,), free_bytes=1 << 30)


def _evidence(found: Conversation) -> CleanupEvidence:
    """Of a room that is live, that stands against it; of one named ``worked-in``, work in a private clone."""
    blockers = []
    if found.live:
        blockers.append(CleanupBlocker(reason=CleanupReason.LIVE, subject=found.host.sandbox, detail="stop it \x1b[2J"))
    if found.room.name == "worked-in":
        blockers.append(CleanupBlocker(reason=CleanupReason.WORK, subject=found.host.sandbox, detail="1 uncommitted: mine.txt"))
    return CleanupEvidence(
        host_id=found.host.id,
        sandbox=found.host.sandbox,
        engine=found.host.engine,
        presence="stopped",
        marker_digest="a" * 64,
        rooms=(found.room.name,),
        items=(
            CleanupItem(what="sandbox", path="", in_root=False),
            CleanupItem(what="guest disk", path=f"runtime-hosts/{found.host.id}/guest-disk", bytes=4096, entries=3, state="b" * 64),
        ),
        exports=(EXPORT,),
        blockers=tuple(blockers),
    )
