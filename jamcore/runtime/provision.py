"""Provisioning as a journaled action: intent is stored with the rows, the layout is made, the workspace is ready (START-2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar
from uuid import UUID

import anyio
from anyio import to_thread

from jamcore.domain.errors import FaultError, RefusalError
from jamcore.domain.host_native import HostNativeWorkspace
from jamcore.domain.keeping import WorkspaceArchivedError, WorkspaceBusyError
from jamcore.domain.operations import OnRestart
from jamcore.domain.records import Record
from jamcore.domain.sessions import RuntimeHost, SessionWorkspace, WorkspaceState
from jamcore.journal.declaration import Declaration
from jamcore.journal.runner import Runner
from jamcore.journal.steps import Action, Step, about, boundaries
from jamcore.store import Repos, Store
from jamcore.system.ids import IdSource
from jamcore.workspace.provision import HostManifest, Provisioner

KIND = "provision"
LAYOUT, READY = "layout", "ready"
PROVISION_POINTS = boundaries(KIND, (LAYOUT, READY))
"""Every boundary of one provision, in the order in which a run passes them."""


@dataclass(eq=False)
class ProvisionFailedError(FaultError):
    """The session's directories could not be made."""

    code: ClassVar[str] = "workspace.provision_failed"
    hint: ClassVar[str] = "Free some space or mend the app directory, then run `jam room resume`."

    session: str
    problem: str


@dataclass(eq=False)
class WorkspaceNotReadyError(RefusalError):
    """The session's workspace is in a state from which nothing can be started."""

    code: ClassVar[str] = "workspace.not_ready"
    hint: ClassVar[str] = "Look at it with `jam workspace inspect ROOM`; `jam workspace recover ROOM retry` puts it right."

    session: str
    state: str


class ProvisionIntent(Record):
    """Whose directories are made."""

    id: UUID
    host_id: UUID
    session_id: UUID
    workspace_id: UUID


def begin_provision(repos: Repos, intent: ProvisionIntent) -> None:
    """Keep the intent in the transaction that makes the workspace Provisioning, so that neither is there without the other."""
    repos.operations.begin(intent.id, KIND, intent.canonical_json().decode(), about(intent))


class SessionProvisioner:
    """Makes workspaces ready. One for each daemon; whoever composes it registers :attr:`action`."""

    def __init__(self, *, store: Store, layout: Provisioner, runner: Runner, ids: IdSource) -> None:
        self._store = store
        self._layout = layout
        self._runner = runner
        self._ids = ids
        self._locks: dict[UUID, anyio.Lock] = {}
        self.action = Action(
            KIND,
            ProvisionIntent,
            (
                Step(LAYOUT, self._make_layout, OnRestart.REPLAY, leaves="some of its directories, without anything in them"),
                Step(READY, self._mark_ready, OnRestart.REPLAY, leaves="its directories, which nobody uses"),
            ),
            hopeless=(ProvisionFailedError, WorkspaceNotReadyError),
            settle=self._settle,
            declares=Declaration(
                title="making of the directories",
                evidence="the manifest in the host's directory",
                replay="workspace reconciliation",
            ),
        )

    async def provision(self, intent: ProvisionIntent) -> None:
        """Carry out a provision that was begun, or begin and carry it out.

        Raises:
            ProvisionFailedError: The file system refused; the operation is failed and can be tried again.
            WorkspaceNotReadyError: Somebody else's or an unreadable manifest is there; it is preserved (START-3).
        """
        await self._runner.run(self.action, intent.id, intent)

    async def require_ready(self, workspace: SessionWorkspace) -> None:
        """Return when the workspace can be used; one whose provisioning failed is provisioned again.

        One that something stood against when it was to be removed is used as before.

        Raises:
            WorkspaceArchivedError: It must be brought back first.
            WorkspaceBusyError: Another operation makes it, or takes it away.
            ProvisionFailedError, WorkspaceNotReadyError: It cannot.
        """
        if workspace.state is WorkspaceState.READY and not await self._store.read(partial(_left, workspace)):
            return
        async with self._locks.setdefault(workspace.id, anyio.Lock()):
            await self._make_ready(await self._store.read(lambda repos: repos.workspaces.get(workspace.id)))

    async def _make_ready(self, workspace: SessionWorkspace) -> None:
        if workspace.state is WorkspaceState.READY:
            if left := await self._store.read(partial(_left, workspace)):
                await self.provision(_intent(left, workspace))
            return
        if workspace.state is WorkspaceState.ARCHIVED:
            raise WorkspaceArchivedError(room=await self._store.read(partial(_room, workspace.session_id)))
        if workspace.state is WorkspaceState.REMOVAL_BLOCKED:
            await self._store.transact(partial(_unblock, workspace.id))
            return
        # A provision that a full disk or a cancelled request cut: its operation has not ended, and is finished.
        cut = await self._store.read(partial(_cut, workspace))
        states = (WorkspaceState.PROVISIONING,) if cut else (WorkspaceState.PROVISION_FAILED,)
        if workspace.state not in states:
            raise WorkspaceNotReadyError(session=str(workspace.session_id), state=workspace.state)
        intent = _intent(cut or self._ids.uuid(), workspace)
        if cut is None:
            await self._store.transact(lambda repos: _begin_again(repos, intent))
        await self.provision(intent)

    async def _make_layout(self, intent: ProvisionIntent) -> ProvisionIntent:
        host, workspace, native = await self._store.read(lambda repos: _read(repos, intent))

        def make() -> bool:
            return self._layout.provision(
                HostManifest.of(host),
                session=workspace.session_id,
                source=workspace.source,
                subdirectories=(),
                elsewhere=native.sessions_path if native else None,
            )

        try:
            ours = await to_thread.run_sync(make)
        except OSError as error:
            raise ProvisionFailedError(session=str(workspace.session_id), problem=str(error)) from error
        if not ours:
            raise WorkspaceNotReadyError(session=str(workspace.session_id), state=WorkspaceState.NEEDS_RECONCILIATION)
        return intent

    async def _mark_ready(self, intent: ProvisionIntent) -> ProvisionIntent:
        await self._store.transact(lambda repos: _move(repos, intent, WorkspaceState.READY))
        return intent

    async def _settle(self, intent: ProvisionIntent, error: Exception) -> None:
        failed = isinstance(error, ProvisionFailedError)
        state = WorkspaceState.PROVISION_FAILED if failed else WorkspaceState.NEEDS_RECONCILIATION
        await self._store.transact(lambda repos: _move(repos, intent, state))


def _read(repos: Repos, intent: ProvisionIntent) -> tuple[RuntimeHost, SessionWorkspace, HostNativeWorkspace | None]:
    session = intent.session_id
    return repos.hosts.get(intent.host_id), repos.workspaces.of_session(session), repos.host_native.of_session(session)


def _room(session: UUID, repos: Repos) -> str:
    return repos.rooms.get(repos.bindings.of_session(session).room_id).name


def _intent(identifier: UUID, workspace: SessionWorkspace) -> ProvisionIntent:
    return ProvisionIntent(id=identifier, host_id=workspace.host_id, session_id=workspace.session_id, workspace_id=workspace.id)


def _left(workspace: SessionWorkspace, repos: Repos) -> UUID | None:
    """Return the provision of a workspace that has done all but note its end: a full disk cut it there."""
    unfinished = repos.operations.unfinished_of_workspace(workspace.id)
    return unfinished if unfinished is not None and repos.operations.get(unfinished).kind == KIND else None


def _cut(workspace: SessionWorkspace, repos: Repos) -> UUID | None:
    """Return the provision of a workspace that has not ended.

    Raises:
        WorkspaceBusyError: Something else makes it, or takes it away.
    """
    unfinished = repos.operations.unfinished_of_workspace(workspace.id)
    if unfinished is not None and (kind := repos.operations.get(unfinished).kind) != KIND:
        raise WorkspaceBusyError(room=_room(workspace.session_id, repos), operation=str(unfinished), kind=kind)
    return unfinished


def _unblock(workspace: UUID, repos: Repos) -> None:
    """Make a workspace Ready that was to be archived, unless an archive goes on with it: whoever is first wins."""
    if repos.operations.unfinished_of_workspace(workspace) is None:
        stored = repos.workspaces.move(workspace, WorkspaceState.READY)
        if native := repos.host_native.of_session(stored.session_id):
            repos.host_native.move(native.id, WorkspaceState.READY)


def _begin_again(repos: Repos, intent: ProvisionIntent) -> None:
    _move(repos, intent, WorkspaceState.PROVISIONING)
    begin_provision(repos, intent)


def _move(repos: Repos, intent: ProvisionIntent, state: WorkspaceState) -> None:
    """Move a workspace, and what is its own of a host-native session; both are together in every state, so one that is there stays."""
    if repos.workspaces.get(intent.workspace_id).state is state:
        return
    repos.workspaces.move(intent.workspace_id, state)
    if native := repos.host_native.of_session(intent.session_id):
        repos.host_native.move(native.id, state)
