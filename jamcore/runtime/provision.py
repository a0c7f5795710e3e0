"""Carries out provision operations: intent is stored first, the layout is made, the end is stored; start-up replays it (START-2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

import anyio
from anyio import to_thread

from jamcore.domain.errors import FaultError, RefusalError
from jamcore.domain.host_native import HostNativeWorkspace
from jamcore.domain.operations import Operation, OperationKind, OperationState
from jamcore.domain.sessions import RuntimeHost, SessionWorkspace, WorkspaceState
from jamcore.store import Repos, Store
from jamcore.system.clock import Clock
from jamcore.system.ids import IdSource
from jamcore.workspace.provision import HostManifest, Provisioner


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
    hint: ClassVar[str] = "Look at the host's directory: its manifest is preserved as it was found."

    session: str
    state: str


class SessionProvisioner:
    """Runs provision operations; every step may be repeated."""

    def __init__(self, *, store: Store, layout: Provisioner, clock: Clock, ids: IdSource) -> None:
        self._store = store
        self._layout = layout
        self._clock = clock
        self._ids = ids
        self._locks: dict[UUID, anyio.Lock] = {}

    async def provision(self, operation_id: UUID) -> None:
        """Carry out a running provision operation.

        Raises:
            ProvisionFailedError: The file system refused; the operation is failed and can be tried again.
            WorkspaceNotReadyError: Somebody else's or an unreadable manifest is there; it is preserved (START-3).
        """
        operation, host, workspace, native = await self._store.read(lambda repos: _read(repos, operation_id))
        manifest = HostManifest(
            agent_id=host.agent_id, host_id=host.id, provider=host.provider, sandbox=host.sandbox, created_at=host.created_at
        )

        def make() -> bool:
            return self._layout.provision(
                manifest,
                session=workspace.session_id,
                source=workspace.source,
                subdirectories=(),
                elsewhere=native.sessions_path if native else None,
            )

        try:
            ours = await to_thread.run_sync(make)
        except OSError as error:
            await self._end(operation, OperationState.FAILED, WorkspaceState.PROVISION_FAILED, "io-error")
            raise ProvisionFailedError(session=str(workspace.session_id), problem=str(error)) from error
        if not ours:
            await self._end(operation, OperationState.FAILED, WorkspaceState.NEEDS_RECONCILIATION, "manifest-mismatch")
            raise WorkspaceNotReadyError(session=str(workspace.session_id), state=WorkspaceState.NEEDS_RECONCILIATION)
        await self._end(operation, OperationState.SUCCEEDED, WorkspaceState.READY, "provisioned")

    async def require_ready(self, workspace: SessionWorkspace) -> None:
        """Return when the workspace can be used; one whose provisioning failed is provisioned again.

        Raises:
            ProvisionFailedError, WorkspaceNotReadyError: It cannot.
        """
        if workspace.state is WorkspaceState.READY:
            return
        async with self._locks.setdefault(workspace.id, anyio.Lock()):
            await self._make_ready(await self._store.read(lambda repos: repos.workspaces.get(workspace.id)))

    async def _make_ready(self, workspace: SessionWorkspace) -> None:
        if workspace.state is WorkspaceState.READY:
            return
        if workspace.state is WorkspaceState.PROVISIONING:
            # A provision that a full disk or a cancelled request cut: its operation is still running, and is finished.
            running = await self._store.read(lambda repos: repos.operations.running())
            for operation in running:
                if operation.workspace_id == workspace.id:
                    await self.provision(operation.id)
                    return
        if workspace.state is not WorkspaceState.PROVISION_FAILED:
            raise WorkspaceNotReadyError(session=str(workspace.session_id), state=workspace.state)
        fence = self._store.fence
        again = Operation(
            id=self._ids.uuid(),
            workspace_id=workspace.id,
            host_id=workspace.host_id,
            session_id=workspace.session_id,
            kind=OperationKind.PROVISION,
            state=OperationState.RUNNING,
            result="",
            daemon_id=fence.daemon_id,
            fence_epoch=fence.epoch,
            started_at=self._clock.now(),
            ended_at=None,
        )

        def begin(repos: Repos) -> None:
            repos.operations.upsert(again)
            repos.workspaces.move(workspace.id, WorkspaceState.PROVISIONING)
            if native := repos.host_native.of_session(workspace.session_id):
                repos.host_native.move(native.id, WorkspaceState.PROVISIONING)

        await self._store.transact(begin)
        await self.provision(again.id)

    async def unfinished(self) -> tuple[UUID, ...]:
        """Return the provisions that were running when a daemon died, for :meth:`provision`."""
        return await self._store.read(lambda repos: repos.operations.running_ids(OperationKind.PROVISION))

    async def _end(self, operation: Operation, state: OperationState, workspace: WorkspaceState, result: str) -> None:
        done = operation.model_copy(update={"state": state, "result": result, "ended_at": self._clock.now()})

        def write(repos: Repos) -> None:
            repos.operations.upsert(done)
            repos.workspaces.move(operation.workspace_id, workspace)
            if native := repos.host_native.of_session(operation.session_id):
                repos.host_native.move(native.id, workspace)

        await self._store.transact(write)


def _read(repos: Repos, operation_id: UUID) -> tuple[Operation, RuntimeHost, SessionWorkspace, HostNativeWorkspace | None]:
    operation = repos.operations.get(operation_id)
    session = operation.session_id
    return (
        operation,
        repos.hosts.get(operation.host_id),
        repos.workspaces.of_session(session),
        repos.host_native.of_session(session),
    )
