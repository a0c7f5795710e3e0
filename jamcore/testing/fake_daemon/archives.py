"""The fake's archives: a live room has to be stopped, and one that is called ``work`` holds work that has to be overridden."""

from __future__ import annotations

from jamcore.domain.exports import Listed, TreeTotals
from jamcore.domain.keeping import (
    ArchiveEvidence,
    ArchivePlan,
    ArchiveQuestion,
    ArchiveRequest,
    ArchiveResult,
    ExportNotUsableError,
    KeptBytes,
    RestoreRequest,
    RestoreResult,
    WorkspaceArchivedError,
    WorkspaceNotArchivedError,
)
from jamcore.domain.operations import ExportRetention
from jamcore.domain.removal import (
    RemovalBlockedError,
    RemovalBlocker,
    RemovalInspection,
    RemovalLosses,
    RemovalReason,
)
from jamcore.domain.sessions import WorkspaceState
from jamcore.testing.fake_daemon.exports import kept_export
from jamcore.testing.fake_daemon.records import Conversation
from jamcore.testing.fake_daemon.state import Part


class FakeArchives(Part):
    """Moves the state of the fake's workspaces."""

    async def plan(self, ref: str, question: ArchiveQuestion) -> ArchivePlan:
        """See :class:`~jamcore.daemon.services.ArchiveService`."""
        await self.fake.note("plan_archive", question)
        room = self.fake.find(ref)
        if room.workspace.state is WorkspaceState.ARCHIVED:
            raise WorkspaceArchivedError(room=room.room.name)
        evidence = self._evidence(room, question)
        standing = evidence.inspection.standing(question.overrides)
        stay = () if question.retention is ExportRetention.KEEP_LATEST else self._exports(room)
        refused = ("deep: it is too deep",) if room.room.name.startswith("deep") and not question.leave_out else ()
        piped = room.room.name.startswith("piped")
        hindered = room.live or standing or refused
        return ArchivePlan(
            evidence=evidence,
            standing=standing,
            live=room.live,
            holds=TreeTotals(files=3, bytes_total=4096),
            left_out=Listed(total=21, first=tuple(f"pipe {each} \x1b[2J: a FIFO" for each in range(21))) if piped else Listed(),
            not_exportable=refused,
            exports_that_stay=stay,
            digest="" if hindered else evidence.content_digest(),
        )

    async def archive(self, ref: str, request: ArchiveRequest) -> ArchiveResult:
        """See :class:`~jamcore.daemon.services.ArchiveService`."""
        await self.fake.note("archive_workspace", request)
        room = self.fake.find(ref)
        evidence = self._evidence(room, request)
        evidence.require_confirmed(request.confirmed)
        if standing := evidence.inspection.standing(request.overrides):
            raise RemovalBlockedError(blockers=tuple(f"{each.reason} {each.path}" for each in standing))
        room.workspace = room.workspace.model_copy(update={"state": WorkspaceState.ARCHIVED})
        self.fake.exports[request.id] = kept_export(room, request.id)
        return ArchiveResult(
            id=request.id,
            room=room.room.name,
            workspace_id=room.workspace.id,
            export=self.fake.exports[request.id],
            files=3,
            bytes_removed=evidence.inspection.losses.bytes,
            exports_removed=evidence.exports_that_go,
        )

    async def restore(self, ref: str, request: RestoreRequest) -> RestoreResult:
        """See :class:`~jamcore.daemon.services.RestoreService`."""
        await self.fake.note("restore_workspace", request)
        room = self.fake.find(ref)
        if room.workspace.state is not WorkspaceState.ARCHIVED:
            raise WorkspaceNotArchivedError(room=room.room.name, state=room.workspace.state)
        found = [each for each in self.fake.exports if request.export is None or str(each).startswith(request.export)]
        if not found:
            raise ExportNotUsableError(export=request.export or "-", problem="it is of another workspace")
        room.workspace = room.workspace.model_copy(update={"state": WorkspaceState.READY})
        return RestoreResult(
            id=request.id,
            room=room.room.name,
            workspace_id=room.workspace.id,
            export_id=found[-1],
            files=3,
            bytes_total=4096,
            checkpoint="the conversation comes back from generation 2, which is still there",
        )

    def _evidence(self, room: Conversation, question: ArchiveQuestion) -> ArchiveEvidence:
        works = room.room.name.startswith("work")
        work = RemovalBlocker(reason=RemovalReason.UNPUSHED, path="my repo", detail="2 commits \x1b[2J")
        use = RemovalBlocker(reason=RemovalReason.USE_UNKNOWN, path=".", detail="engine.unknown")
        none = dict.fromkeys(RemovalLosses.model_fields, 0)
        losses = RemovalLosses.model_validate(none | {"files": 3, "bytes": 4096})
        blockers = (*((use,) if room.live else ()), *((work,) if works else ()))
        return ArchiveEvidence(
            workspace_id=room.workspace.id,
            retention=question.retention,
            leave_out=question.leave_out,
            inspection=RemovalInspection(losses=losses, blockers=blockers),
            exports_that_go=self._exports(room) if question.retention is ExportRetention.KEEP_LATEST else (),
        )

    def _exports(self, room: Conversation) -> tuple[KeptBytes, ...]:
        mine = (each for each in self.fake.exports.values() if each.room_id == room.room.id)
        return tuple(KeptBytes(id=each.id, bytes_total=each.bytes_total) for each in mine)
