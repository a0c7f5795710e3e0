"""What people ask for and are shown of exports, archives and restores of a room's workspace (WS-4, WS-5, WS-6, WS-16)."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal
from uuid import UUID

from pydantic import Field

from jamcore.domain import limits
from jamcore.domain.errors import FaultError, RefusalError
from jamcore.domain.exports import ExportManifest, Listed, TreeTotals
from jamcore.domain.kept_exports import KeptExport
from jamcore.domain.operations import ExportRetention
from jamcore.domain.records import Record
from jamcore.domain.removal import RemovalBlocker, RemovalEvidenceChangedError, RemovalInspection, RemovalOverride

OVERRIDES = 100
"""Blockers that one archive overrides at most; each is named."""


class RoomExportRequest(Record):
    """Export a room's workspace. ``leave_out``: paths below it, spelled, that may be lost, each with what is below it."""

    id: UUID
    leave_out: tuple[str, ...] = Field(default=(), max_length=limits.EXPORT_LISTED)


class ExportRow(Record):
    """An export as lists show it. ``room`` is the name of the room that it is of; empty where nobody knows one here."""

    export: KeptExport
    room: str = ""


class ExportView(ExportRow):
    """One export with what its manifest says.

    Attributes:
        path: Its directory, absolute.
        manifest: ``None`` when it cannot be read, for the reason in ``problem``.
    """

    path: str
    manifest: ExportManifest | None
    problem: str = ""


class ExportVerdict(Record):
    """Whether an export is whole: every name and byte was read. ``named`` are the first of ``total`` differences."""

    export: KeptExport
    sound: bool
    total: int = 0
    named: tuple[str, ...] = ()


class KeptBytes(Record):
    """An export with its size, in a list of what goes or stays."""

    id: UUID
    bytes_total: int


class ArchiveEvidence(Record):
    """What a person confirms: the work tree as it is, what is left out of its export, and the exports that go.

    ``kind`` binds the digest to this action.
    """

    kind: Literal["archive"] = "archive"
    workspace_id: UUID
    retention: ExportRetention
    leave_out: tuple[str, ...] = ()
    inspection: RemovalInspection
    exports_that_go: tuple[KeptBytes, ...] = ()

    def require_confirmed(self, confirmed: str, others: Iterable[ArchiveEvidence] = ()) -> None:
        """Require that this is what was confirmed. ``others`` are of the same moment, for other options.

        Raises:
            OtherPlanError: It is one of the others.
            RemovalEvidenceChangedError: It is neither.
        """
        found = self.content_digest()
        if hmac.compare_digest(found.encode(), confirmed.encode()):
            return
        for other in others:
            if hmac.compare_digest(other.content_digest().encode(), confirmed.encode()):
                raise OtherPlanError(asked=self.options(), planned=other.options())
        raise RemovalEvidenceChangedError(confirmed=confirmed, found=found)

    def options(self) -> str:
        """Return the options that this is for, as they are typed."""
        return " ".join((f"--retention {self.retention}", *(f"--leave-out {path}" for path in self.leave_out)))


class ArchiveQuestion(Record):
    """What an archive would do. ``leave_out`` as in :class:`RoomExportRequest`: it is lost."""

    retention: ExportRetention = ExportRetention.KEEP_ALL
    overrides: tuple[RemovalOverride, ...] = Field(default=(), max_length=OVERRIDES)
    leave_out: tuple[str, ...] = Field(default=(), max_length=limits.EXPORT_LISTED)


class ArchivePlan(Record):
    """What an archive would do, and what stands against it.

    Attributes:
        evidence: What would be confirmed.
        standing: Blockers that stay although some were overridden.
        live: The room is live: it has to be stopped before anybody can say what would be lost.
        holds: What the export would hold of the files, and a restore bring back; git's own files are among them.
        left_out: What no export holds and nobody misses while its program is gone: sockets and FIFOs. It is lost.
        not_exportable: What no export could hold exactly, the first by name; nothing is archived while there is some.
        exports_that_stay: Exports of the workspace that stay as they are. A new one is made besides.
        digest: Confirms the evidence; empty while something stands against it.
    """

    evidence: ArchiveEvidence
    standing: tuple[RemovalBlocker, ...]
    live: bool
    holds: TreeTotals = TreeTotals()
    left_out: Listed = Listed()
    not_exportable: tuple[str, ...] = ()
    exports_that_stay: tuple[KeptBytes, ...] = ()
    digest: str


class ArchiveRequest(ArchiveQuestion):
    """Archive a room's workspace. The id is the client's, and becomes the export's; ``confirmed`` is the digest of the plan."""

    id: UUID
    confirmed: str = Field(pattern=r"^[0-9a-f]{64}$")


class ArchiveResult(Record):
    """The workspace is gone from its place, and in its export. ``files`` and ``bytes_removed`` are what a restore brings back."""

    id: UUID
    room: str
    workspace_id: UUID
    export: KeptExport
    files: int = 0
    bytes_removed: int
    exports_removed: tuple[KeptBytes, ...]


class RestoreRequest(Record):
    """Bring an archived workspace back, from the newest of its exports or the one that is named."""

    id: UUID
    export: str | None = None


class RestoreResult(Record):
    """The workspace is back. ``checkpoint`` says in words where the conversation will come from."""

    id: UUID
    room: str
    workspace_id: UUID
    export_id: UUID
    files: int
    bytes_total: int
    checkpoint: str


@dataclass(eq=False)
class WorkspaceElsewhereError(RefusalError):
    """The room works on files that lie in no directory of Jam's, so there is nothing here to archive or export."""

    code: ClassVar[str] = "workspace.elsewhere"
    hint: ClassVar[str] = "Nothing was changed: the files are where the message says, and they are yours to keep or remove."

    room: str
    where: str


@dataclass(eq=False)
class OtherPlanError(RefusalError):
    """The confirmed digest is of a plan with other options; nothing was removed (WS-10)."""

    code: ClassVar[str] = "workspace.other_plan"
    hint: ClassVar[str] = "Repeat the command with the options of that plan, or look again with those that you want."

    asked: str
    planned: str


@dataclass(eq=False)
class WorkspaceArchivedError(RefusalError):
    """The room's workspace is archived: its files are in an export, and no agent can work on them."""

    code: ClassVar[str] = "workspace.archived"
    hint: ClassVar[str] = "Bring it back with `jam workspace restore ROOM`, then resume the room."

    room: str


@dataclass(eq=False)
class WorkspaceNotArchivedError(RefusalError):
    """The room's workspace is not archived, so there is nothing to bring back."""

    code: ClassVar[str] = "workspace.not_archived"
    hint: ClassVar[str] = "Look at the room with `jam room show ROOM`: its files are where they were."

    room: str
    state: str


@dataclass(eq=False)
class WorkspaceBusyError(RefusalError):
    """Another operation on the room's workspace has not ended."""

    code: ClassVar[str] = "conflict.workspace_busy"
    hint: ClassVar[str] = (
        "Wait until it has ended; what was cut short goes on when the daemon starts, or when its command is repeated."
    )

    room: str
    operation: str
    kind: str


@dataclass(eq=False)
class ExportNotUsableError(RefusalError):
    """The export cannot be brought back to this room."""

    code: ClassVar[str] = "export.not_usable"
    hint: ClassVar[str] = (
        "Nothing was changed. `jam export ls ROOM` lists the exports of a room; "
        "a sound one becomes a new room by `jam export import DIRECTORY`."
    )

    export: str
    problem: str


@dataclass(eq=False)
class ArchiveUnfinishedError(FaultError):
    """The workspace was set aside and its removal could not be finished; it is tried again at each start of the daemon."""

    code: ClassVar[str] = "workspace.archive_unfinished"
    hint: ClassVar[str] = "Mend what the problem names, then repeat the command or restart the daemon with `jam daemon restart`."

    workspace: str
    problem: str
