"""Deleting exports on a person's word: what is there, and the journaled deletion (WS-7, WS-10)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from uuid import UUID

from anyio import from_thread, to_thread

from jamcore.daemon.sound_exports import SoundExports
from jamcore.domain import layout
from jamcore.domain.events import SessionNotice
from jamcore.domain.export_deletions import (
    DeletionBlocker,
    DeletionReason,
    ExportDeletionEvidence,
    ExportDeletionPlan,
    ExportDeletionRequest,
    ExportDeletionResult,
    ExportDeletionUnfinishedError,
)
from jamcore.domain.keeping import KeptBytes
from jamcore.domain.kept_exports import ExportState, KeptExport
from jamcore.domain.sessions import HostState, WorkspaceState
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.gate import StopGate
from jamcore.store import Repos, Store
from jamcore.system.files import Files, storage_error
from jamcore.system.trees import open_root, owned
from jamcore.system.usage import Usage, mounts_below, usage_of
from jamcore.workspace.keeping.aside import SetAside
from jamcore.workspace.keeping.deleting import ExportDeletionIntent, Payload, deletion_action

DELETED = "export.deleted"
"""Code of what is said in the room."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the store says of an export and of those beside it.

    Those made ``later`` hold what it holds, or what became of that; an older one does not.
    """

    row: KeptExport
    room: str
    blockers: tuple[DeletionBlocker, ...]
    archived: bool
    others: tuple[KeptExport, ...]
    later: tuple[KeptExport, ...]


class ExportDeletions:
    """See :class:`~jamcore.daemon.services.ExportDeletionService`; adds the journaled deletion to ``actions``."""

    def __init__(
        self,
        app: Path,
        *,
        store: Store,
        feed: RoomFeed,
        files: Files,
        sound: SoundExports,
        gate: StopGate,
        runner: Runner,
        actions: ActionRegistry,
    ) -> None:
        self._app = app
        self._aside = SetAside(app, files=files)
        self._store = store
        self._feed = feed
        self._sound = sound
        self._gate = gate
        self._runner = runner
        self._action = deletion_action(self)
        actions.register(self._action)

    async def plan(self, ref: str) -> ExportDeletionPlan:
        """Return what the deletion of an export would do. Changes nothing."""
        row = await self._store.read(lambda repos: repos.exports.find(ref))
        evidence = await self._evidence(row.id)
        path = str(self._app.resolve() / layout.export_root(row.id))
        return ExportDeletionPlan(evidence=evidence, path=path, digest="" if evidence.blockers else evidence.content_digest())

    async def delete(self, ref: str, request: ExportDeletionRequest) -> ExportDeletionResult:
        """Delete what was confirmed. What can be refused is refused before anything is begun; an exact retry returns the same.

        Raises:
            ExportDeletionRefusedError: Something stands against it, or it is not what was confirmed.
            LastExportError: The files of an archived workspace would be lost, and nobody said that they may be.
            ConflictError: Another operation of the workspace has not ended, or the id was used for something else.
        """
        row = await self._store.read(lambda repos: repos.exports.find(ref))
        if not await self._store.read(lambda repos: repos.operations.knows(request.id)):
            (await self._evidence(row.id)).require(request.confirmed, lose_workspace=request.lose_workspace)
        intent = ExportDeletionIntent(
            id=request.id,
            export_id=row.id,
            room_id=row.room_id,
            host_id=row.host_id,
            session_id=row.session_id,
            workspace_id=row.workspace_id,
            confirmed=request.confirmed,
            force=request.lose_workspace,
        )
        with self._gate.until_stop("delete an export"):
            done = await self._runner.run(self._action, request.id, intent)
        return ExportDeletionResult(id=done.id, export_id=done.export_id, bytes_freed=done.freed.bytes if done.freed else 0)

    # ------------------------------------------------------------------------------------------------------- of the action

    async def mark(self, intent: ExportDeletionIntent) -> Payload:
        """See :class:`~jamcore.workspace.keeping.deleting.DeletionSources`."""
        evidence = await self._evidence(intent.export_id, own=intent.id)
        evidence.require(intent.confirmed, lose_workspace=intent.force)
        await self._store.transact(lambda repos: repos.exports.move(intent.export_id, ExportState.DELETING))
        return Payload(bytes=evidence.bytes_freed, state=evidence.payload)

    async def marked(self, intent: ExportDeletionIntent) -> Payload | None:
        """See :class:`~jamcore.workspace.keeping.deleting.DeletionSources`."""
        row = await self._store.read(lambda repos: repos.exports.get(intent.export_id))
        if row.state is not ExportState.DELETING:
            return None
        usage = await to_thread.run_sync(self._usage, intent.export_id)
        return Payload(bytes=usage.bytes, state=usage.state)

    async def set_aside(self, intent: ExportDeletionIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.deleting.DeletionSources`."""
        await self._require_marked(intent)
        await to_thread.run_sync(self._set_aside, intent)

    async def is_aside(self, intent: ExportDeletionIntent) -> bool:
        """See :class:`~jamcore.workspace.keeping.deleting.DeletionSources`."""
        return not await to_thread.run_sync(self._aside.is_there, layout.export_root(intent.export_id))

    async def remove(self, intent: ExportDeletionIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.deleting.DeletionSources`."""
        await self._require_marked(intent)
        await to_thread.run_sync(self._remove, intent)

    async def settle(self, intent: ExportDeletionIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.deleting.DeletionSources`."""
        if (room := await self._store.transact(partial(_settle, intent))) is not None:
            self._feed.announce(room)

    async def _require_marked(self, intent: ExportDeletionIntent) -> None:
        """Require the record that says that this export goes: without it nothing in its place is touched."""
        row = await self._store.read(lambda repos: repos.exports.get(intent.export_id))
        if row.state is not ExportState.DELETING:
            raise _unfinished(intent, f"its record says {row.state}")

    # --------------------------------------------------------------------------------------------------------- the evidence

    async def _evidence(self, export: UUID, own: UUID | None = None) -> ExportDeletionEvidence:
        stored = await self._store.read(partial(_stored, export, own))
        blockers = list(stored.blockers)
        usage = Usage()
        try:
            usage = await to_thread.run_sync(self._usage, export)
        except OSError as error:
            blockers.append(DeletionBlocker(reason=DeletionReason.UNREADABLE, detail=error.strerror or str(error)))
        return ExportDeletionEvidence(
            export_id=export,
            room=stored.room,
            manifest_sha256=stored.row.manifest_sha256,
            payload=usage.state,
            bytes_freed=usage.bytes,
            last_of_workspace=stored.archived and not blockers and await self._sound.first(stored.later) is None,
            others=tuple(KeptBytes(id=each.id, bytes_total=each.bytes_total) for each in stored.others),
            blockers=tuple(blockers),
        )

    def _usage(self, export: UUID) -> Usage:
        """Measure an export, under its own name or the one that it goes under; nothing when it is gone."""
        if mounted := mounts_below(self._app / layout.export_root(export)):
            raise OSError(f"something is mounted at {mounted[0]}")
        with owned(open_root(self._app / layout.EXPORTS)) as exports:
            for path in (layout.export_root(export), layout.removed_export(export)):
                name = PurePosixPath(path).name.encode()
                if (found := usage_of(exports, name, alive=from_thread.check_cancelled)) is not None:
                    return found
        return Usage()

    # --------------------------------------------------------------------------------------------------------- worker thread

    def _set_aside(self, intent: ExportDeletionIntent) -> None:
        try:
            usage = self._usage(intent.export_id)
            if intent.freed is None or usage.state != intent.freed.state:
                raise _unfinished(intent, "what lies in its place is no longer what was confirmed")
            there, aside = layout.export_root(intent.export_id), layout.removed_export(intent.export_id)
            if self._aside.is_there(there):
                if self._aside.is_there(aside):
                    raise _unfinished(intent, f"{aside} is in the way")
                self._aside.move(there, aside)
        except OSError as error:
            raise storage_error(error) from error

    def _remove(self, intent: ExportDeletionIntent) -> None:
        try:
            self._aside.remove(layout.removed_export(intent.export_id))
        except OSError as error:
            raise _unfinished(intent, str(storage_error(error))) from error


def _unfinished(intent: ExportDeletionIntent, problem: str) -> ExportDeletionUnfinishedError:
    return ExportDeletionUnfinishedError(export=str(intent.export_id), problem=problem)


def _stored(export: UUID, own: UUID | None, repos: Repos) -> _Stored:
    row = repos.exports.get(export)
    archived, blockers = False, []
    if row.state in (ExportState.DELETING, ExportState.DELETED):
        blockers.append(DeletionBlocker(reason=DeletionReason.DELETED, detail=f"its record says {row.state}"))
    if row.workspace_id is not None:
        state = repos.workspaces.get(row.workspace_id).state
        removed = row.host_id is not None and repos.hosts.get(row.host_id).state is HostState.REMOVED
        archived = state is WorkspaceState.ARCHIVED or removed
        if not archived:
            detail = f"the workspace that it is of is {state}: archive it first, or keep the export"
            blockers.append(DeletionBlocker(reason=DeletionReason.NOT_ARCHIVED, detail=detail))
        if (busy := repos.operations.unfinished_of_workspace(row.workspace_id)) not in (None, own):
            blockers.append(DeletionBlocker(reason=DeletionReason.BUSY, detail=f"operation {busy} has not ended"))
    beside = repos.exports.of_workspace(row.workspace_id) if row.workspace_id else ()
    others = tuple(each for each in beside if each.id != row.id and each.state is ExportState.PUBLISHED)
    later = others[: sum(each.created_at > row.created_at for each in others)]
    room = repos.rooms.get(row.room_id).name if row.room_id else ""
    return _Stored(row=row, room=room, blockers=tuple(blockers), archived=archived, others=others, later=later)


def _settle(intent: ExportDeletionIntent, repos: Repos) -> UUID | None:
    if repos.exports.get(intent.export_id).state is ExportState.DELETED:
        return None
    repos.exports.move(intent.export_id, ExportState.DELETED)
    if intent.room_id is not None:
        detail = f"the export {intent.export_id} was deleted on a person's word (evidence {intent.confirmed})"
        repos.events.append(intent.room_id, None, [SessionNotice(code=DELETED, detail=detail)])
    return intent.room_id
