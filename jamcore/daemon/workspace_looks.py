"""Everything that can be said of one workspace without changing anything (WS-15, WS-16)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from anyio import to_thread

from jamcore.daemon.archive_sources import ArchiveMaking
from jamcore.daemon.operations import Operations
from jamcore.daemon.workspaces import KeptRoom, room_of_ref
from jamcore.domain import layout
from jamcore.domain.cells import WorkspaceSource
from jamcore.domain.errors import JamError
from jamcore.domain.keeping import ArchiveEvidence, ExportRow
from jamcore.domain.kept_exports import ExportState
from jamcore.domain.operations import ExportRetention
from jamcore.domain.reconciling import ManifestState, PlaceFound, WorkspacePlace
from jamcore.domain.sessions import HostState, WorkspaceState
from jamcore.domain.workspace_care import FOUND_CHARACTERS, WorkspaceView
from jamcore.runtime.pool import WorkerPool
from jamcore.runtime.reconcile import KEPT_MANIFEST, Reconciler
from jamcore.store import Repos, Store
from jamcore.workspace.keeping.adopting import KIND as ADOPT

KEPT_WORKSPACE = "kept-workspace-"
"""Begins the name of files that were in the place of those of an export; the time follows."""
_RECOVER = "jam workspace recover ROOM"


@dataclass(frozen=True, slots=True)
class StoredWorkspace:
    """What the store knows of a room's workspace. ``never_came`` is the export that it was to be made of, when that was given up."""

    kept: KeptRoom
    place: WorkspacePlace
    exports: tuple[ExportRow, ...]
    unfinished: str | None
    never_came: str | None = None


def stored_workspace(ref: str, repos: Repos) -> StoredWorkspace:
    """Read it."""
    kept = room_of_ref(repos, ref)
    held = repos.operations.unfinished_of_workspace(kept.workspace.id)
    exports = (row for row in repos.exports.of_workspace(kept.workspace.id) if row.state is not ExportState.DELETED)
    return StoredWorkspace(
        kept=kept,
        place=repos.workspaces.place(kept.workspace.id),
        exports=tuple(ExportRow(export=row, room=kept.room.name) for row in exports),
        unfinished=str(held) if held else None,
        never_came=_never_came(repos, kept),
    )


def _never_came(repos: Repos, kept: KeptRoom) -> str | None:
    if kept.workspace.state is not WorkspaceState.NEEDS_RECONCILIATION:
        return None
    return repos.operations.given_up_export(kept.workspace.id, ADOPT)


class WorkspaceLooks:
    """Looks; stateless."""

    def __init__(
        self,
        app: Path,
        *,
        store: Store,
        pool: WorkerPool,
        archiving: ArchiveMaking,
        reconciler: Reconciler,
        operations: Operations,
    ) -> None:
        self._app = app
        self._store = store
        self._pool = pool
        self._archiving = archiving
        self._reconciler = reconciler
        self._operations = operations

    async def inspect(self, ref: str) -> WorkspaceView:
        """Return everything about a room's workspace; what cannot be found out is said in its place."""
        stored = await self._store.read(partial(stored_workspace, ref))
        kept = stored.kept
        live = self._pool.get(kept.host.id, kept.session.id) is not None
        found, problem = await self._place(stored.place)
        evidence, not_looked_at = await self._evidence(kept)
        inspection = evidence.inspection if evidence else None
        free = inspection is not None and not inspection.standing() and not live
        unfinished = (await self._operations.show(stored.unfinished)).row if stored.unfinished else None
        return WorkspaceView(
            room=kept.room.name,
            workspace=kept.workspace,
            host_state=kept.host.state,
            sandbox=kept.host.sandbox,
            live=live,
            path=self._path(stored),
            place=found,
            problem=problem,
            manifest_path=str(self._app.resolve() / layout.manifest(kept.host.id)),
            manifest_found=await to_thread.run_sync(self._manifest, stored.place, found),
            inspection=inspection,
            inspection_problem=not_looked_at,
            confirms_archive=evidence.content_digest() if evidence and free and unfinished is None else "",
            unfinished=unfinished,
            exports=stored.exports,
            kept_aside=await to_thread.run_sync(self._kept_aside, stored.place),
            next=tuple(next_commands(stored, found, live=live)),
        )

    async def _place(self, place: WorkspacePlace) -> tuple[PlaceFound | None, str]:
        try:
            return await self._reconciler.found(place), ""
        except JamError as error:
            return None, str(error)

    async def _evidence(self, kept: KeptRoom) -> tuple[ArchiveEvidence | None, str]:
        if kept.workspace.source is not WorkspaceSource.MANAGED or kept.workspace.state is WorkspaceState.ARCHIVED:
            return None, ""
        try:
            return await self._archiving.evidence(kept, ExportRetention.KEEP_ALL, ()), ""
        except JamError as error:
            return None, str(error)

    def _path(self, stored: StoredWorkspace) -> str:
        if stored.kept.workspace.state is WorkspaceState.ARCHIVED:
            return "in an export: the workspace is archived"
        own = stored.place.own
        return str(self._app.resolve() / own) if own else stored.kept.workspace.path or "on the disk of the sandbox"

    def _manifest(self, place: WorkspacePlace, found: PlaceFound | None) -> str:
        if found is None or found.manifest in (ManifestState.SOUND, ManifestState.MISSING):
            return ""
        try:
            text = self._reconciler.manifests.read(place.host_id)
        except OSError as error:
            return error.strerror or "it cannot be read"
        return text[:FOUND_CHARACTERS].decode("utf-8", "backslashreplace")

    def _kept_aside(self, place: WorkspacePlace) -> tuple[str, ...]:
        look = self._reconciler.manifests.kept
        return (*look(place.host_id, KEPT_MANIFEST), *look(place.host_id, KEPT_WORKSPACE))


def next_commands(stored: StoredWorkspace, found: PlaceFound | None, *, live: bool) -> list[str]:
    """Return what a person can type now; ROOM stands for the room."""
    if first := _only_way(stored, live=live):
        return first
    state = stored.kept.workspace.state
    sound = found is not None and found.sound
    if state is WorkspaceState.READY and sound:
        return ["jam resume ROOM", "jam export new ROOM"]
    if state in (WorkspaceState.READY, WorkspaceState.NEEDS_RECONCILIATION):
        latest = [f"{_RECOVER} restore-latest"] if stored.exports else []
        if found is not None and not found.directory:  # a retry would make an empty one
            return [*latest, f"{_RECOVER} retry"]
        there = [f"{_RECOVER} export"] if found is not None else []
        return [f"{_RECOVER} retry", *there, *latest]
    return [f"{_RECOVER} retry", "jam resume ROOM"]


def _only_way(stored: StoredWorkspace, *, live: bool) -> list[str]:
    """Return what can be typed whatever lies in the place; empty where that decides."""
    if stored.unfinished:
        return [f"jam operation show {stored.unfinished}", f"{_RECOVER} retry"]
    if stored.kept.host.state is HostState.REMOVED:
        return ["jam export ls ROOM", "jam export import DIRECTORY"]
    if stored.kept.workspace.state is WorkspaceState.ARCHIVED:
        return ["jam workspace restore ROOM"]
    if stored.never_came:
        return [f"jam export verify {stored.never_came}", "jam export import DIRECTORY"]
    return ["jam stop ROOM"] if live else []
