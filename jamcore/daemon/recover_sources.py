"""How a workspace gets its newest export back: satisfies :class:`~jamcore.workspace.keeping.recovering.RecoverSources`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from anyio import from_thread

from jamcore.daemon.export_sources import ExportMaking
from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.workspaces import kept_room, move_workspace
from jamcore.domain.events import SessionNotice
from jamcore.domain.sessions import WorkspaceState
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.pool import WorkerPool
from jamcore.sandbox.override import HostInUseError
from jamcore.store import Repos, Store
from jamcore.system.blocking import in_thread
from jamcore.workspace.keeping.aside import SetAside
from jamcore.workspace.keeping.recovering import RecoverIntent

RECOVERED = "workspace.recovered"


class RecoverMaking:
    """One object per daemon."""

    def __init__(self, options: DaemonOptions, *, store: Store, feed: RoomFeed, pool: WorkerPool, making: ExportMaking) -> None:
        self._options = options
        self._store = store
        self._feed = feed
        self._pool = pool
        self._making = making
        self._aside = SetAside(options.app, files=options.files)

    async def enter(self, intent: RecoverIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.recovering.RecoverSources`. From now on the operation keeps the room down."""
        async with self._pool.kept_down(intent.host_id):
            if self._pool.get(intent.host_id, intent.session_id) is not None:
                raise HostInUseError(host=str(intent.host_id))
            await self._store.transact(partial(_move, intent, WorkspaceState.RECOVERING))

    async def copy(self, intent: RecoverIntent) -> int:
        """See :class:`~jamcore.workspace.keeping.recovering.RecoverSources`."""

        def copied() -> int:
            self._options.files.make_private(self._options.app / Path(intent.copied).parent)
            self._aside.remove(intent.copied, from_thread.check_cancelled)
            restored = self._making.reader.restore(intent.export_id, intent.digest, intent.copied, from_thread.check_cancelled)
            return restored.files

        return await in_thread(copied)

    async def keep_aside(self, intent: RecoverIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.recovering.RecoverSources`."""

        def keep() -> None:
            if self._aside.is_there(intent.tree) and not self._aside.is_there(intent.kept_as):
                self._aside.move(intent.tree, intent.kept_as)

        await in_thread(keep)

    async def place(self, intent: RecoverIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.recovering.RecoverSources`."""
        await in_thread(lambda: self._aside.move(intent.copied, intent.tree))

    async def settle(self, intent: RecoverIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.recovering.RecoverSources`."""
        await self._store.transact(partial(_settled, intent))
        self._feed.announce(intent.room_id)

    async def give_up(self, intent: RecoverIntent, error: Exception) -> None:
        """See :class:`~jamcore.workspace.keeping.recovering.RecoverSources`."""
        del error

        def remove() -> None:
            if self._aside.is_there(intent.copied):
                self._aside.remove(intent.copied, from_thread.check_cancelled)

        await in_thread(remove)
        await self._store.transact(partial(_as_before, intent))

    async def is_kept(self, intent: RecoverIntent) -> bool:
        """Say whether something of before is kept."""
        return await in_thread(lambda: self._aside.is_there(intent.kept_as))


def _move(intent: RecoverIntent, state: WorkspaceState, repos: Repos) -> None:
    move_workspace(repos, kept_room(repos, intent.session_id), state)


def _as_before(intent: RecoverIntent, repos: Repos) -> None:
    if repos.workspaces.get(intent.workspace_id).state is WorkspaceState.RECOVERING:
        _move(intent, WorkspaceState.READY if intent.was_ready else WorkspaceState.NEEDS_RECONCILIATION, repos)


def _settled(intent: RecoverIntent, repos: Repos) -> None:
    if repos.workspaces.get(intent.workspace_id).state is WorkspaceState.READY:
        return
    _move(intent, WorkspaceState.READY, repos)
    detail = f"the workspace's files are those of export {intent.export_id}; what was there is kept as {intent.kept_as}"
    repos.events.append(intent.room_id, None, [SessionNotice(code=RECOVERED, detail=detail)])
