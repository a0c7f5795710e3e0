"""Change requests as clients see them: built from a room's work tree, listed, shown."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from jamcore.daemon.removed_hosts import require_there
from jamcore.daemon.views import room_records
from jamcore.domain import layout
from jamcore.domain.changes import ChangeDecision, ChangeRequest
from jamcore.domain.errors import ConflictError
from jamcore.domain.keeping import WorkspaceArchivedError
from jamcore.domain.requests import ChangeView
from jamcore.domain.sessions import WorkspaceState
from jamcore.journal.runner import Runner
from jamcore.journal.steps import Action
from jamcore.runs.change_action import ChangeIntent, ChangeSources
from jamcore.runs.change_request import read_patch
from jamcore.runtime.gate import StopGate
from jamcore.store import Repos, Store
from jamcore.system.blocking import in_thread

SHOWN_BYTES = 1 << 20
"""How much of a patch is shown; the whole is in the package's file."""


class Changes:
    """See :class:`~jamcore.daemon.services.ChangeService`."""

    def __init__(
        self,
        app: Path,
        *,
        store: Store,
        runner: Runner,
        action: Action[ChangeIntent],
        sources: ChangeSources,
        gate: StopGate,
    ) -> None:
        self._app = app
        self._store = store
        self._runner = runner
        self._action = action
        self._sources = sources
        self._gate = gate

    async def build(self, ref: str, identifier: UUID) -> ChangeRequest:
        """Build the package and record it, as a journaled action: what is cut is finished by an exact retry or the next start.

        Raises:
            ConflictError: The id belongs to another room's change request.
            DaemonStoppingError: The daemon is being stopped; the next start finishes it.
            WorkspaceArchivedError, HostRemovedError: Its files are in an export, or gone with the sandbox.
            JamError: The work tree cannot be read, or the disk refused.
        """
        records = await self._store.read(lambda repos: room_records(repos, repos.rooms.find(ref)))
        if known := await self._store.read(lambda repos: repos.changes.find_id(identifier)):
            if known.room_id != records.room.id:
                raise ConflictError(kind="change request", ref=str(identifier), problem="the id was used for another room")
            return known
        await self._store.read(lambda repos: require_there(repos, records.host))
        if records.workspace.state is WorkspaceState.ARCHIVED:
            raise WorkspaceArchivedError(room=records.room.name)
        intent = ChangeIntent(id=identifier, room_id=records.room.id, session_id=records.session.id)
        await self._sources.review(intent)  # a work tree that cannot be reached is refused before anything is begun
        with self._gate.until_stop("build a change request"):
            await self._runner.run(self._action, identifier, intent)
        return await self._store.read(lambda repos: repos.changes.find(str(identifier)))

    async def list(self) -> tuple[ChangeRequest, ...]:
        """Return all, newest first."""
        return await self._store.read(lambda repos: tuple(repos.changes.list()))

    async def show(self, ref: str) -> ChangeView:
        """Return one with its patch. What a terminal may show of it is the client's to escape; here the bytes become text.

        Raises:
            ChangePackageError, PatchChangedError: The patch is not there, or not the one that was made.
        """
        change, decision = await self._store.read(lambda repos: _judged(repos, ref))
        directory = self._app / layout.change(change.id)

        def read() -> tuple[str, bool]:
            data = read_patch(directory, change.id, digest=change.patch_sha256)
            return data[:SHOWN_BYTES].decode("utf-8", errors="backslashreplace"), len(data) > SHOWN_BYTES

        patch, truncated = await in_thread(read)
        return ChangeView(change=change, directory=str(directory), patch=patch, patch_truncated=truncated, decision=decision)


def _judged(repos: Repos, ref: str) -> tuple[ChangeRequest, ChangeDecision | None]:
    change = repos.changes.find(ref)
    return change, repos.change_decisions.of_change(change.id)
