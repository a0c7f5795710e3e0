"""The fake's exports from elsewhere: one for each directory that was taken in, and a room when it was confirmed."""

from __future__ import annotations

from types import MappingProxyType
from uuid import UUID

from jamcore.domain.checkpoint_exports import CheckpointScope, CheckpointSummary
from jamcore.domain.errors import NotFoundError
from jamcore.domain.exports import ExportOrigin, Listed, TreeTotals
from jamcore.domain.imports import (
    AdoptRequest,
    ConfirmRequest,
    ConversationClaim,
    ExportQuarantinedError,
    ImportEvidence,
    ImportRequest,
    ImportView,
)
from jamcore.domain.kept_exports import ExportMaker, ExportState, KeptExport
from jamcore.domain.requests import RoomRequest, RoomView
from jamcore.testing.fake_daemon.records import AT
from jamcore.testing.fake_daemon.rooms import FakeRooms
from jamcore.testing.fake_daemon.state import Part

_ELSEWHERE = UUID(int=77)
FOUND, LOST, PROGRAMLESS = "d" * 64, "e" * 64, "f" * 64
_KINDS = MappingProxyType({"lost": LOST, "programless": PROGRAMLESS})
_CLAIMED = ConversationClaim(
    checkpoint=CheckpointSummary(
        digest="a" * 64,
        checkpoint_id=_ELSEWHERE,
        generation=4,
        created_at=AT,
        provider="codex",
        provider_version="1",
        scope=CheckpointScope.SESSIONS,
        sessions=(),
        files=1,
        bytes_total=1,
        left_out=0,
    )
)


class FakeImports(Part):
    """Keeps what was taken in among the fake's exports. One of a directory called ``lost`` has a conversation that cannot go on.

    One of a directory called ``programless`` has one that can, once the agent's program is there.
    """

    async def take(self, request: ImportRequest) -> ImportView:
        """See :class:`~jamcore.daemon.services.ImportService`."""
        await self.fake.note("import_export", request)
        self.fake.exports.setdefault(request.id, _taken(request.id, _KINDS.get(request.path.rpartition("/")[2], FOUND)))
        return self._view(request.id)

    async def inspect(self, ref: str) -> ImportView:
        """See :class:`~jamcore.daemon.services.ImportService`."""
        await self.fake.note("inspect_import", ref)
        return self._view(self._find(ref))

    async def confirm(self, ref: str, request: ConfirmRequest) -> ImportView:
        """See :class:`~jamcore.daemon.services.ImportService`."""
        await self.fake.note("confirm_import", request)
        found = self._find(ref)
        self._view(found).evidence.require_confirmed(request.confirmed)
        self.fake.exports[found] = self.fake.exports[found].model_copy(update={"state": ExportState.PUBLISHED})
        return self._view(found)

    async def restore(self, ref: str, request: AdoptRequest) -> RoomView:
        """See :class:`~jamcore.daemon.services.AdoptionService`."""
        await self.fake.note("restore_import", request)
        row = self.fake.exports[self._find(ref)]
        if row.state is not ExportState.PUBLISHED:
            raise ExportQuarantinedError(export=str(row.id), state=row.state)
        return await FakeRooms(self.fake).create(RoomRequest(id=request.id, provider="codex", name=request.name))

    def _find(self, ref: str) -> UUID:
        for identifier, row in self.fake.exports.items():
            if row.maker is ExportMaker.ELSEWHERE and str(identifier).startswith(ref):
                return identifier
        raise NotFoundError(kind="export", ref=ref)

    def _view(self, identifier: UUID) -> ImportView:
        row = self.fake.exports[identifier]
        problem = "the plugin of codex is not installed here" if row.manifest_sha256 == LOST else ""
        evidence = ImportEvidence(
            export_id=identifier,
            claimed_id=_ELSEWHERE,
            manifest_sha256=row.manifest_sha256,
            origin=ExportOrigin(
                agent_id=_ELSEWHERE,
                agent_name="codex\x1b[2J",
                host_id=_ELSEWHERE,
                session_id=_ELSEWHERE,
                room_id=_ELSEWHERE,
                room_name="their room\x1b[2J",
                provider="codex",
                engine="bubblewrap",
            ),
            provider_installed=not problem,
            workspace=TreeTotals(files=3, directories=1, bytes_total=4096),
            conversation=_CLAIMED
            if row.manifest_sha256 == PROGRAMLESS
            else ConversationClaim(checkpoint=None, problem=problem or "no conversation is in it"),
            credentials=Listed(total=1, first=(".env \x1b[2J: an API key",)),
            stripped=Listed(),
            left_out=Listed(),
        )
        path = f"/jam/workspace-exports/{identifier}"
        missing = "version 1 of codex's program" if row.manifest_sha256 == PROGRAMLESS else ""
        return ImportView(export=row, path=path, evidence=evidence, digest=evidence.content_digest(), program_missing=missing)


def _taken(identifier: UUID, digest: str) -> KeptExport:
    return KeptExport(
        id=identifier,
        maker=ExportMaker.ELSEWHERE,
        state=ExportState.QUARANTINED,
        agent_id=None,
        host_id=None,
        session_id=None,
        workspace_id=None,
        room_id=None,
        checkpoint_id=None,
        manifest_sha256=digest,
        files=3,
        bytes_total=4096,
        created_at=AT,
        verified_at=AT,
    )
