"""A checkpoint inside an export: what ``checkpoint.json`` says, and how both ways are refused (WS-5, WS-6). Pure.

Everything in it is checked when it is read: an export may come from anywhere.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Literal
from uuid import UUID

from pydantic import Field

from jamcore.domain import limits
from jamcore.domain.continuity import CaptureKind, CheckpointReason, EntryKind
from jamcore.domain.errors import RefusalError
from jamcore.domain.records import Record

MODES = 0o777
"""Mode bits that a checkpoint has."""
_RAW = "base64:"
_TIME_NS = 1 << 63

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Word = Annotated[str, Field(min_length=1, max_length=256)]


class CheckpointScope(StrEnum):
    """Whose conversations a checkpoint in an export holds: all of its host, or chosen ones alone."""

    HOST = "host"
    SESSIONS = "sessions"


class ExportedEntry(Record):
    """One captured name.

    Attributes:
        path: Below the state root, of a database below the guest's home; see :func:`spelled`.
        kind: What it is.
        declared: How it was captured; ``None`` for directories.
        mode: The nine mode bits that it had. In the export all is private.
        mtime_ns: When it was changed, in nanoseconds since 1970; 0 for a database.
        size: Bytes of its content or its link target; 0 for a directory.
        sha256: Of the content of a file or database.
        target: What a link names; see :func:`spelled`.
    """

    path: str
    kind: EntryKind
    declared: CaptureKind | None
    mode: int = Field(ge=0, le=MODES)
    mtime_ns: int = Field(ge=-_TIME_NS, lt=_TIME_NS)
    size: int = Field(ge=0, le=limits.CAPTURE_BYTES)
    sha256: Digest | None = None
    target: str | None = None


class ExportedConversation(Record):
    """A conversation in an export: the session and its last turn where it comes from, and the provider's id."""

    session_id: UUID
    provider_identity: Word
    last_turn_id: UUID | None


class OriginCheckpoint(Record):
    """The checkpoint that an export was made from: where it was, and what it was there."""

    checkpoint_id: UUID
    host_id: UUID
    agent_id: UUID
    generation: int
    reason: CheckpointReason
    root_digest: Digest
    guest_frozen: bool
    created_at: datetime


class ExportedCheckpoint(Record):
    """The content of ``checkpoint.json``: everything besides the bytes that it takes to make a generation again.

    Attributes:
        sessions: The conversations that are in it. Sessions that never began one are not named.
        mode: Mode bits of the state root.
        mtime_ns: When that was changed.
        files: How many entries are no directories.
        bytes_total: Their sizes together.
        left_out: Captured files that were left out, because they are not of the chosen conversations.
        entries: In the order of their paths; databases last.
    """

    schema_version: Literal[1] = 1
    provider: Word
    provider_version: Word
    origin: OriginCheckpoint
    scope: CheckpointScope
    sessions: tuple[ExportedConversation, ...] = Field(max_length=limits.EXPORTED_SESSIONS)
    mode: int = Field(ge=0, le=MODES)
    mtime_ns: int = Field(ge=-_TIME_NS, lt=_TIME_NS)
    files: int = Field(ge=0)
    bytes_total: int = Field(ge=0, le=limits.CAPTURE_BYTES)
    left_out: int = Field(ge=0)
    entries: tuple[ExportedEntry, ...] = Field(max_length=limits.CAPTURE_FILES + limits.DATABASES)


class CheckpointSummary(Record):
    """A checkpoint in an export as the export's manifest names it. ``digest`` is the SHA-256 of ``checkpoint.json``."""

    digest: Digest
    checkpoint_id: UUID
    generation: int
    created_at: datetime
    provider: str
    provider_version: str
    scope: CheckpointScope
    sessions: tuple[ExportedConversation, ...]
    files: int
    bytes_total: int
    left_out: int


@dataclass(eq=False)
class CheckpointExportRefusedError(RefusalError):
    """A checkpoint may not go into an export: it holds a credential, or others' conversations that cannot be told apart (SEC-7, WS-5)."""

    code: ClassVar[str] = "continuity.export_refused"
    hint: ClassVar[str] = (
        "The checkpoint is as it was. Look at the named path; a shared sandbox may have to be exported as a whole."
    )

    path: str
    reason: str


@dataclass(eq=False)
class CheckpointImportRefusedError(RefusalError):
    """The checkpoint in an export is not, name for name and byte for byte, one that can be taken in (WS-6, SEC-7)."""

    code: ClassVar[str] = "continuity.import_refused"
    hint: ClassVar[str] = (
        "Nothing was published. The export was changed or damaged since it was made, or is not for this host: take another copy of it."
    )

    path: str
    reason: str


def spelled(raw: bytes) -> str:
    """Return raw bytes as text: UTF-8 as it is, anything else as ``base64:`` and their base64."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return _RAW + base64.b64encode(raw).decode()
    return _RAW + base64.b64encode(raw).decode() if text.startswith(_RAW) else text


def unspelled(text: str) -> bytes:
    """Return the bytes that :func:`spelled` wrote.

    Raises:
        ValueError: It did not write this text: each name has one spelling.
    """
    raw = base64.b64decode(text.removeprefix(_RAW), validate=True) if text.startswith(_RAW) else text.encode()
    if spelled(raw) != text:
        raise ValueError("it is not the one spelling of a name")
    return raw
