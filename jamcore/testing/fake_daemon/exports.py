"""The fake's exports: one for each that was asked for; a room that is called ``bad`` has damaged ones."""

from __future__ import annotations

from uuid import UUID

from jamcore.domain.cells import WorkspaceSource
from jamcore.domain.errors import NotFoundError
from jamcore.domain.exports import ExportManifest, ExportOrigin, ExportRequest, Listed, TreeTotals
from jamcore.domain.keeping import ExportRow, ExportVerdict, ExportView, RoomExportRequest
from jamcore.domain.kept_exports import ExportMaker, ExportState, KeptExport
from jamcore.testing.fake_daemon.records import AT, Conversation
from jamcore.testing.fake_daemon.state import Part


class FakeExports(Part):
    """Keeps what was asked for in the fake's memory."""

    async def new(self, ref: str, request: RoomExportRequest) -> ExportView:
        """See :class:`~jamcore.daemon.services.ExportService`."""
        await self.fake.note("new_export", request)
        room = self.fake.find(ref)
        self.fake.exports[request.id] = kept_export(room, request.id)
        return self._view(request.id)

    async def list(self, room: str | None) -> tuple[ExportRow, ...]:
        """See :class:`~jamcore.daemon.services.ExportService`."""
        await self.fake.note("exports", room)
        wanted = None if room is None else self.fake.find(room).room.id
        rows = (self._row(each) for each in reversed(list(self.fake.exports)))
        return tuple(row for row in rows if wanted in (None, row.export.room_id))

    async def show(self, ref: str) -> ExportView:
        """See :class:`~jamcore.daemon.services.ExportService`."""
        await self.fake.note("show_export", ref)
        return self._view(self._find(ref))

    async def verify(self, ref: str) -> ExportVerdict:
        """See :class:`~jamcore.daemon.services.ExportService`."""
        await self.fake.note("verify_export", ref)
        row = self._row(self._find(ref))
        if row.room.startswith("bad"):
            return ExportVerdict(export=row.export, sound=False, total=2, named=("workspace/\x1b[2J: has other content",))
        return ExportVerdict(export=row.export, sound=True)

    def _find(self, ref: str) -> UUID:
        for identifier in self.fake.exports:
            if str(identifier).startswith(ref):
                return identifier
        raise NotFoundError(kind="export", ref=ref)

    def _row(self, identifier: UUID) -> ExportRow:
        row = self.fake.exports[identifier]
        name = self.fake.rooms[row.room_id].room.name if row.room_id else ""
        return ExportRow(export=row, room=name)

    def _view(self, identifier: UUID) -> ExportView:
        found = self._row(identifier)
        path = f"/jam home/workspace-exports/{identifier}"
        return ExportView(export=found.export, room=found.room, path=path, manifest=_manifest(found.export))


def kept_export(room: Conversation, identifier: UUID) -> KeptExport:
    """Return the record of an export of a room."""
    return KeptExport(
        id=identifier,
        maker=ExportMaker.HERE,
        state=ExportState.PUBLISHED,
        agent_id=room.host.agent_id,
        host_id=room.host.id,
        session_id=room.session.id,
        workspace_id=room.workspace.id,
        room_id=room.room.id,
        checkpoint_id=None,
        manifest_sha256="d" * 64,
        files=3,
        bytes_total=4096,
        created_at=AT,
        verified_at=AT,
    )


def _manifest(row: KeptExport) -> ExportManifest:
    origin = ExportOrigin(
        agent_id=row.agent_id or row.id,
        agent_name="codex",
        host_id=row.host_id or row.id,
        session_id=row.session_id or row.id,
        room_id=row.room_id,
        room_name="r",
        provider="codex",
        engine="bubblewrap",
    )
    return ExportManifest(
        request=ExportRequest(export_id=row.id, origin=origin, source=WorkspaceSource.MANAGED),
        created_at=AT,
        workspace=TreeTotals(files=3, bytes_total=4096),
        checkpoint_files=None,
        checkpoint=None,
        left_out=Listed(total=1, first=("sock: a socket",)),
        stripped=Listed(),
        credentials=Listed(total=1, first=(".env \x1b[2J",)),
        entries_sha256="e" * 64,
        readme_sha256="f" * 64,
    )
