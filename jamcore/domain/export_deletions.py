"""Deleting the payload of one export on a person's word: what is shown, confirmed and answered (WS-7, WS-10)."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Literal
from uuid import UUID

from pydantic import Field

from jamcore.domain.errors import FaultError, RefusalError
from jamcore.domain.keeping import KeptBytes
from jamcore.domain.records import Record


class DeletionReason(StrEnum):
    """What stands against deleting an export.

    NOT_ARCHIVED: its room's files may still be live, and nobody archived them. BUSY: another operation of the workspace has not ended.
    DELETED: it went already, or goes with a deletion that was begun. UNREADABLE: what would go cannot be looked at.
    """

    NOT_ARCHIVED = "not-archived"
    BUSY = "busy"
    DELETED = "deleted"
    UNREADABLE = "unreadable"


class DeletionBlocker(Record):
    """One thing that stands against it, with its reason in words."""

    reason: DeletionReason
    detail: str


class ExportDeletionEvidence(Record):
    """What a person confirms. ``kind`` binds the digest to this action (WS-10).

    Attributes:
        export_id: What goes.
        room: The room that it is of; empty where nobody knows one here.
        manifest_sha256: Of what, as recorded.
        payload: Digest of the names, sizes and times of its directory; empty when that is gone.
        bytes_freed: What its removal frees on the disk.
        last_of_workspace: No sound export as new as this one holds the files of an archived workspace: they are lost with it.
        others: The other exports of the workspace, which stay.
    """

    kind: Literal["export-deletion"] = "export-deletion"
    export_id: UUID
    room: str
    manifest_sha256: str
    payload: str
    bytes_freed: int
    last_of_workspace: bool
    others: tuple[KeptBytes, ...] = ()
    blockers: tuple[DeletionBlocker, ...] = ()

    def require(self, confirmed: str, *, lose_workspace: bool) -> None:
        """Require that nothing stands against it, and that it is what was confirmed.

        Raises:
            ExportDeletionRefusedError: It is not, or something does.
            LastExportError: The files of the workspace would be lost, and nobody said that they may be.
        """
        ref = str(self.export_id)
        if self.blockers:
            first = self.blockers[0]
            raise ExportDeletionRefusedError(export=ref, problem=f"{first.reason}: {first.detail}")
        if not hmac.compare_digest(self.content_digest().encode(), confirmed.encode()):
            raise ExportDeletionRefusedError(export=ref, problem="what would be deleted is no longer what was confirmed")
        if self.last_of_workspace and not lose_workspace:
            raise LastExportError(export=ref, room=self.room)


class ExportDeletionPlan(Record):
    """What a deletion would do; the digest is empty while something stands against it."""

    evidence: ExportDeletionEvidence
    path: str
    digest: str


class ExportDeletionRequest(Record):
    """Delete an export. The id is the client's; ``confirmed`` is the plan's digest.

    ``lose_workspace``: the only sound export of an archived workspace may go, and the workspace's files with it.
    """

    id: UUID
    confirmed: str = Field(pattern=r"^[0-9a-f]{64}$")
    lose_workspace: bool = False


class ExportDeletionResult(Record):
    """The payload is gone; the export's record stays."""

    id: UUID
    export_id: UUID
    bytes_freed: int


@dataclass(eq=False)
class ExportDeletionRefusedError(RefusalError):
    """Something stands against the deletion, or it is not what was confirmed; nothing was deleted."""

    code: ClassVar[str] = "export.deletion_refused"
    hint: ClassVar[str] = "Look again with `jam export rm EXPORT`, and confirm what that shows."

    export: str
    problem: str


@dataclass(eq=False)
class LastExportError(RefusalError):
    """No sound export as new as this one has the files of the archived workspace: they would be lost; nothing was deleted."""

    code: ClassVar[str] = "export.last_of_workspace"
    hint: ClassVar[str] = (
        "Restore the workspace or keep the export; `jam export rm EXPORT --confirm DIGEST --lose-workspace` deletes it all the same."
    )

    export: str
    room: str


@dataclass(eq=False)
class ExportDeletionUnfinishedError(FaultError):
    """The deletion was begun and could not be finished; each start of the daemon tries it again."""

    code: ClassVar[str] = "export.deletion_unfinished"
    hint: ClassVar[str] = "Mend what the problem names, then repeat the command or restart the daemon with `jam daemon restart`."

    export: str
    problem: str
