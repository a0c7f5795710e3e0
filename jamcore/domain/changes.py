"""Change requests: what a run leaves for a person to accept or reject (RUN-1)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal
from uuid import UUID

from jamcore.domain.records import Record

PATCH = "change.patch"
"""The file of a package that holds the patch."""


class ChangeFlag(StrEnum):
    """What a reviewer must look at twice (SEC-2)."""

    CI_DEFINITION = "ci-definition"
    GIT_HOOK = "git-hook"
    EXECUTABLE = "executable"
    SYMLINK = "symlink"
    SUBMODULE = "submodule"
    BINARY = "binary"
    CONTROL_CHARACTERS = "control-characters"


class ChangedPath(Record):
    """One path of the patch. ``path`` is shown escaped; flags say why it needs a look."""

    path: str
    change: Literal["added", "modified", "deleted", "type-changed"]
    flags: tuple[ChangeFlag, ...] = ()


class EvidenceFile(Record):
    """One file of the package with its SHA-256."""

    name: str
    bytes: int
    sha256: str


class ChangeRequest(Record):
    """The package: patch, transcript and evidence below ``change-requests/<id>/``, each with its checksum.

    ``complete``: the patch turns the base into the whole work tree. ``skipped`` are bounded words on what of it could not be read.
    """

    schema_version: Literal[1] = 1
    id: UUID
    room_id: UUID
    session_id: UUID
    objective: str
    base: str
    paths: tuple[ChangedPath, ...]
    files: tuple[EvidenceFile, ...]
    complete: bool
    skipped: tuple[str, ...] = ()
    created_at: datetime

    @property
    def patch_sha256(self) -> str:
        """Digest of the patch; empty in a package that names none."""
        return next((file.sha256 for file in self.files if file.name == PATCH), "")


class Verdict(StrEnum):
    """What a reviewer said of a change request; said once."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"


class ChangeDecision(Record):
    """What became of a change request. ``id`` is the reviewer's, which makes a retry exact; ``patch_sha256`` is of what was judged.

    Accepted: ``commit`` holds them on ``branch`` of ``repository``, on top of ``parent``; ``moved`` says that this was not the commit the
    session began with. Rejected: ``reason``, and the turn that told the agent of it, if one did.
    """

    id: UUID
    change_id: UUID
    verdict: Verdict
    patch_sha256: str
    decided_at: datetime
    repository: str | None = None
    branch: str | None = None
    commit: str | None = None
    parent: str | None = None
    moved: bool = False
    reason: str = ""
    turn_id: UUID | None = None


class Run(Record):
    """An objective's thread through the records: its room, its one turn, and the id that its change request will have."""

    room_id: UUID
    turn_id: UUID
    change_id: UUID
    objective: str
