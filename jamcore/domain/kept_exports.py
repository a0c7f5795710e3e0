"""Exports as Jam keeps a record of them: where each comes from, and how far its life is (WS-5, WS-6, WS-7)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from uuid import UUID

from jamcore.domain.records import Record
from jamcore.domain.transitions import TransitionTable


class ExportState(StrEnum):
    """An export's life.

    QUARANTINED: it came from elsewhere, and nobody has confirmed it yet. PUBLISHED: it may be restored. DELETING: a person confirmed that
    it goes, and some of it may be gone; an archive that gives up lets go of one that is still in its place. DELETED: its payload is gone;
    the record stays for ever.
    """

    QUARANTINED = "quarantined"
    PUBLISHED = "published"
    DELETING = "deleting"
    DELETED = "deleted"


_S = ExportState
EXPORT = TransitionTable(
    "export",
    {
        _S.QUARANTINED: frozenset({_S.PUBLISHED, _S.DELETING}),
        _S.PUBLISHED: frozenset({_S.DELETING}),
        _S.DELETING: frozenset({_S.PUBLISHED, _S.DELETED}),
        _S.DELETED: frozenset(),
    },
)


class ExportMaker(StrEnum):
    """Who made an export: this Jam, or another one, of whose word nothing is known."""

    HERE = "here"
    ELSEWHERE = "elsewhere"


class KeptExport(Record):
    """The record of one export; its payload lies in :func:`jamcore.domain.layout.export_root`.

    The ids are of this app directory. An export from elsewhere has none until it becomes a new room, and never a host's or a
    workspace's: it holds nothing of what is done there.

    Attributes:
        checkpoint_id: The checkpoint that it was made with: its payload is not removed while the export is there (WS-9).
        manifest_sha256: Of ``manifest.json``: from it everything else is verified.
        bytes_total: Of all regular files of the export.
        verified_at: When it was last read whole and found to be what its manifest says.
    """

    id: UUID
    maker: ExportMaker
    state: ExportState
    agent_id: UUID | None
    host_id: UUID | None
    session_id: UUID | None
    workspace_id: UUID | None
    room_id: UUID | None
    checkpoint_id: UUID | None
    manifest_sha256: str
    files: int
    bytes_total: int
    created_at: datetime
    verified_at: datetime | None
    deleted_at: datetime | None = None


class IdMapping(Record):
    """What an id of an export from elsewhere became here. ``what`` is a word such as ``host``."""

    export_id: UUID
    what: str
    old_id: UUID
    new_id: UUID
