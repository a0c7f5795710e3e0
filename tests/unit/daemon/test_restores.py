"""What may be brought back to a room: an export of this very workspace that is there, while nothing lives in its host's stead (WS-6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import pytest

from jamcore.daemon.restorable import begun_restore
from jamcore.domain.cells import Placement
from jamcore.domain.cleanup_plans import HostRemovedError
from jamcore.domain.errors import ConflictError, JamError
from jamcore.domain.keeping import ExportNotUsableError, RestoreRequest, WorkspaceBusyError, WorkspaceNotArchivedError
from jamcore.domain.kept_exports import ExportMaker, ExportState, KeptExport
from jamcore.domain.operations import About
from jamcore.domain.sessions import HostState, RuntimeHost, WorkspaceState
from jamcore.store import Repos, open_store
from jamcore.system.files import Files
from jamcore.testing.store.records import HandClock, Records
from jamcore.workspace.keeping.restoring import RestoreIntent

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.guarantee("WS-6")]

DAEMON, OPERATION = UUID(int=1), UUID(int=42 << 64)


@dataclass
class Stored:
    """The rows of a room whose workspace is archived, as a test changes them before they are stored."""

    make: Records = field(default_factory=lambda: Records(HandClock()))
    placement: Placement = Placement.DEDICATED
    host: tuple[HostState, ...] = (HostState.PARKED,)
    workspace: WorkspaceState = WorkspaceState.ARCHIVED
    maker: ExportMaker = ExportMaker.HERE
    export: ExportState = ExportState.PUBLISHED
    other_owner: bool = False
    newer_host: bool = False
    unfinished: str = ""

    def store(self, repos: Repos) -> None:
        """Insert them."""
        make = self.make
        agent = repos.agents.insert(make.agent())
        host = repos.hosts.insert(make.host(agent, placement=self.placement))
        session = repos.sessions.insert(make.session(host))
        workspace = repos.workspaces.insert(make.workspace(session, state=self.workspace))
        room = repos.rooms.insert(make.room(agent, "room"))
        repos.bindings.insert(make.binding(room, session))
        row = make.export(workspace, state=self.export).model_copy(
            update={"maker": self.maker, "agent_id": agent.id, "room_id": room.id, "checkpoint_id": None}
        )
        if self.other_owner:
            other = repos.sessions.insert(make.session(host))
            row = row.model_copy(update={"session_id": other.id})
        repos.exports.insert(row)
        for state in self.host:
            repos.hosts.move(host.id, state)
        if self.newer_host:
            repos.hosts.insert(make.host(agent, placement=self.placement))
        if self.unfinished:
            repos.operations.begin(OPERATION, self.unfinished, "{}", About(workspace_id=workspace.id))


async def begin(path: Path, stored: Stored, *, named: bool = False) -> tuple[RestoreIntent, KeptExport, RuntimeHost]:
    """Store the rows, and ask for a restore."""
    async with open_store(path / "jam.db", files=Files(), clock=stored.make.clock, daemon_id=DAEMON) as store:
        await store.transact(stored.store)
        export = str((await store.read(lambda repos: repos.exports.list()))[0].id) if named else None
        request = RestoreRequest(id=UUID(int=9 << 64), export=export)
        intent = await store.read(lambda repos: begun_restore("room", request, repos))
        return intent, *await store.read(lambda repos: (repos.exports.list()[0], repos.hosts.list()[0]))


@pytest.mark.parametrize("host", [(HostState.PARKED,), (HostState.PARKED, HostState.ARCHIVED)])
@pytest.mark.parametrize("placement", list(Placement))
async def test_the_newest_export_of_the_workspace_is_taken(
    tmp_path: Path, placement: Placement, host: tuple[HostState, ...]
) -> None:
    """Of a parked host and of an archived one; nothing of another workspace is named in the intent."""
    intent, export, stored = await begin(tmp_path, Stored(placement=placement, host=host))
    assert (intent.export_id, intent.host_id, intent.workspace_id) == (export.id, stored.id, export.workspace_id)


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        (lambda: Stored(workspace=WorkspaceState.READY), WorkspaceNotArchivedError),
        (lambda: Stored(maker=ExportMaker.ELSEWHERE), ExportNotUsableError),
        (lambda: Stored(export=ExportState.QUARANTINED), ExportNotUsableError),
        (lambda: Stored(export=ExportState.DELETING), ExportNotUsableError),
        (lambda: Stored(other_owner=True), ExportNotUsableError),
        (lambda: Stored(host=(HostState.PARKED, HostState.REMOVED)), HostRemovedError),
        (lambda: Stored(unfinished="archive"), WorkspaceBusyError),
        (
            lambda: Stored(placement=Placement.SHARED, host=(HostState.PARKED, HostState.ARCHIVED), newer_host=True),
            ConflictError,
        ),
    ],
)
@pytest.mark.parametrize("named", [False, True])
async def test_nothing_else_is_brought_back(tmp_path: Path, rows: Callable[[], Stored], error: type[JamError], named: bool) -> None:
    """Each by its own error, whether the export is chosen or named; nothing is begun."""
    with pytest.raises(error):
        await begin(tmp_path, rows(), named=named)
