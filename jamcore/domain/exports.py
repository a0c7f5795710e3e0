"""Exports of a workspace: what its files say, and how it is refused (WS-5, WS-6, WS-13). Pure.

Names in it are spelled as in :mod:`jamcore.domain.checkpoint_exports`: UTF-8 as it is, anything else as ``base64:`` and its base64.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Literal
from uuid import UUID

from pydantic import Field

from jamcore.domain import limits
from jamcore.domain.cells import WorkspaceSource
from jamcore.domain.checkpoint_exports import CheckpointSummary, Digest
from jamcore.domain.errors import FaultError, RefusalError
from jamcore.domain.records import Record

WORKSPACE = "workspace"
CHECKPOINT = "checkpoint"
MANIFEST = "manifest.json"
ENTRIES = "entries.jsonl"
SUMS = "SHA256SUMS"
README = "README.txt"

Mode = Annotated[str, Field(pattern=r"^[01][0-7]{3}$")]
_TIME_NS = 1 << 63


class ExportedKind(StrEnum):
    """What an entry is. ``left-out`` was in the tree and is not in the export; its entry says why."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    LEFT_OUT = "left-out"


class ExportEntry(Record):
    """One name of ``workspace/`` or ``checkpoint/``: one line of ``entries.jsonl``. What is empty is not written.

    Attributes:
        path: Below the export, spelled.
        kind: What it is.
        mode: Permission bits in octal, the sticky bit included, set-id bits never.
        mtime_ns: When it was changed, in nanoseconds since 1970.
        size: Bytes of a file, holes included.
        sha256: Of a file's bytes.
        target: What a symbolic link names, spelled, as it is: also absolute or leading nowhere.
        same_file_as: The path of an earlier entry of which this is a hard link.
        attributes: Extended attributes of the ``user`` name space in order: name and value, both spelled.
        stripped: What it lost on the way, in words: set-id bits, attributes of other name spaces.
        why: Why it was left out.
    """

    path: str = Field(min_length=1)
    kind: ExportedKind
    mode: Mode = "0000"
    mtime_ns: int = Field(default=0, ge=-_TIME_NS, lt=_TIME_NS)
    size: int = Field(default=0, ge=0)
    sha256: Digest | None = None
    target: str | None = None
    same_file_as: str | None = None
    attributes: tuple[tuple[str, str], ...] = ()
    stripped: tuple[str, ...] = ()
    why: str = ""

    def line(self) -> bytes:
        """Return the entry's one line, its end included."""
        return self.model_dump_json(exclude_defaults=True).encode() + b"\n"


class Listed(Record):
    """Some paths of many, for a person: how many there are, and the first, escaped. ``entries.jsonl`` has all of them."""

    total: int = Field(default=0, ge=0)
    first: tuple[str, ...] = Field(default=(), max_length=limits.EXPORT_LISTED)


class TreeTotals(Record):
    """What a tree holds. ``bytes_total`` counts holes, and each hard link once."""

    files: int = Field(default=0, ge=0)
    directories: int = Field(default=0, ge=0)
    symlinks: int = Field(default=0, ge=0)
    left_out: int = Field(default=0, ge=0)
    bytes_total: int = Field(default=0, ge=0)


class ExportOrigin(Record):
    """Where an export comes from. The ids are of the app directory that made it; elsewhere they mean nothing (WS-6)."""

    agent_id: UUID
    agent_name: str
    host_id: UUID
    session_id: UUID
    room_id: UUID | None
    room_name: str | None
    provider: str
    engine: str


class ExportRequest(Record):
    """What an export is to be. A repeated one must be equal (WS-11).

    ``leave_out``: paths below the workspace, spelled, that a person agreed to lose; whatever is there and below it is not looked at.
    """

    export_id: UUID
    origin: ExportOrigin
    source: WorkspaceSource
    leave_out: tuple[str, ...] = Field(default=(), max_length=limits.EXPORT_LISTED)


class ExportManifest(Record):
    """``manifest.json``: what the export is. Its own SHA-256 is the digest that Jam records.

    Attributes:
        workspace: What ``workspace/`` holds.
        checkpoint_files: What ``checkpoint/`` holds; ``None`` when there is none.
        checkpoint: Which checkpoint that is.
        left_out: What was in the workspace and is not in the export: sockets, FIFOs, what a person agreed to lose.
        stripped: What lost set-id bits or attributes.
        credentials: Where something that looks like a credential was found; it was exported all the same (SEC-7).
    """

    schema_version: Literal[1] = 1
    request: ExportRequest
    created_at: datetime
    workspace: TreeTotals
    checkpoint_files: TreeTotals | None
    checkpoint: CheckpointSummary | None
    left_out: Listed
    stripped: Listed
    credentials: Listed
    entries_sha256: Digest
    readme_sha256: Digest

    def file_bytes(self) -> bytes:
        """Return the bytes of ``manifest.json``."""
        text = json.dumps(self.model_dump(mode="json"), indent=2, sort_keys=True, ensure_ascii=False)
        return text.encode() + b"\n"


@dataclass(eq=False)
class ExportRefusedError(RefusalError):
    """Something in the tree cannot be exported exactly; nothing was published (WS-13).

    ``total`` may be more than are named.
    """

    code: ClassVar[str] = "export.refused"
    hint: ClassVar[str] = "Remove or repair what is named, or say that it may be left out, and export again."

    total: int
    named: tuple[str, ...]


@dataclass(eq=False)
class NotLeftOutError(RefusalError):
    """What was to be left out of an export is not in the workspace; nothing was changed."""

    code: ClassVar[str] = "export.not_left_out"
    hint: ClassVar[str] = "Name paths below the workspace as they are there, or leave --leave-out out."

    named: tuple[str, ...]


@dataclass(eq=False)
class TreeChangedError(RefusalError):
    """The tree changed while it was copied, so that the copy is of no one moment; nothing was published (WS-13)."""

    code: ClassVar[str] = "export.tree_changed"
    hint: ClassVar[str] = "Stop what writes to the named paths, and try again."

    total: int
    named: tuple[str, ...]


@dataclass(eq=False)
class ExportDamagedError(FaultError):
    """An export is not what its manifest says, or not the one that was recorded (WS-5)."""

    code: ClassVar[str] = "export.damaged"
    hint: ClassVar[str] = (
        "Nothing was changed. What is not named is whole. `sha256sum -c SHA256SUMS` in the export says the same of contents."
    )

    export: str
    total: int
    named: tuple[str, ...]


@dataclass(eq=False)
class ImportNamesError(RefusalError):
    """Names in an export from elsewhere could mean another place, or one another (WS-6)."""

    code: ClassVar[str] = "export.names_refused"
    hint: ClassVar[str] = "Nothing was taken in. Rename what is named where the export comes from, and export it again."

    total: int
    named: tuple[str, ...]
