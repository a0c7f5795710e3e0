"""What people are shown of a room's workspace, and the ways in which one that something is wrong with is recovered (WS-15, START-3)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar
from uuid import UUID

from jamcore.domain.errors import RefusalError
from jamcore.domain.keeping import ExportRow
from jamcore.domain.operation_views import OperationRow
from jamcore.domain.reconciling import PlaceFound
from jamcore.domain.records import Record
from jamcore.domain.removal import RemovalInspection
from jamcore.domain.sessions import HostState, SessionWorkspace, WorkspaceState

FOUND_CHARACTERS = 2000
"""As much of what lies in a manifest's place is shown."""


class WorkspaceView(Record):
    """Everything about one workspace. Nothing was changed to find it out.

    Attributes:
        path: Where the files are, or in words why they are nowhere that Jam can look.
        place: What lies in its place; ``None`` when the machine cannot say, for the reason in ``problem``.
        manifest_path: Where the host's manifest belongs.
        manifest_found: The beginning of what lies there, escaped, when it is not the host's own.
        inspection: What the removal of the files would lose, and who works in them; ``None`` where nobody could look, for the reason in
            ``inspection_problem``, or where there is nothing of Jam's to look at.
        confirms_archive: What `jam workspace archive ROOM --confirm` takes while nothing changes; empty while something stands against it.
        unfinished: The operation that has not ended and holds the workspace.
        kept_aside: What earlier recoveries kept, below the host's directory.
        next: Commands that a person can type now, the likeliest first.
    """

    room: str
    workspace: SessionWorkspace
    host_state: HostState
    sandbox: str
    live: bool
    path: str
    place: PlaceFound | None = None
    problem: str = ""
    manifest_path: str = ""
    manifest_found: str = ""
    inspection: RemovalInspection | None = None
    inspection_problem: str = ""
    confirms_archive: str = ""
    unfinished: OperationRow | None = None
    exports: tuple[ExportRow, ...] = ()
    kept_aside: tuple[str, ...] = ()
    next: tuple[str, ...] = ()


class RecoveryWay(StrEnum):
    """How a workspace is recovered. None of them removes anything.

    RETRY: what was begun is finished, or its place is made or put right again. EXPORT: what is there is exported and verified.
    RESTORE_LATEST: the newest sound export takes the place of what is there, which is kept beside it.
    """

    RETRY = "retry"
    EXPORT = "export"
    RESTORE_LATEST = "restore-latest"


class RecoverRequest(Record):
    """Recover a room's workspace in one of the ways. The id is the client's: a repeated request is the same request."""

    id: UUID
    way: RecoveryWay


class RecoverResult(Record):
    """What came of it: the state that the workspace is in now, and in words what was done.

    Attributes:
        export_id: The export that was made, or that the files came from.
        kept_aside: Where what was there is kept, below the host's directory; empty when nothing was in the way.
    """

    room: str
    way: RecoveryWay
    state: WorkspaceState
    said: str
    export_id: UUID | None = None
    kept_aside: str = ""


@dataclass(eq=False)
class NotRecoverableError(RefusalError):
    """The workspace cannot be recovered in this way as it is now; nothing was changed."""

    code: ClassVar[str] = "workspace.not_recoverable"
    hint: ClassVar[str] = "`jam workspace inspect ROOM` shows how it stands and what can be typed next."

    room: str
    problem: str
