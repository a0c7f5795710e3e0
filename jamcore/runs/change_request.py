"""Builds a change request: the patch, the transcript and the evidence, each with its checksum (RUN-1)."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar
from uuid import UUID

from anyio import to_thread

from jamcore.domain import layout
from jamcore.domain.changes import PATCH, ChangedPath, ChangeRequest, EvidenceFile
from jamcore.domain.continuity import Checkpoint, Observation
from jamcore.domain.errors import FaultError, JamError
from jamcore.domain.events import CommandFinished, RoomEvent
from jamcore.domain.limits import PATCH_BYTES
from jamcore.domain.records import Record
from jamcore.domain.sessions import Turn
from jamcore.journal.points import CrashPoints, NoCrash
from jamcore.runs.flags import describe, split_patch
from jamcore.system.files import Files, storage_error
from jamcore.workspace.review import RawChange, ReviewGit

TRANSCRIPT = "transcript.jsonl"
EVIDENCE = "evidence.json"
METADATA = "change.json"
PATCHED, WRITTEN = "change-request.package.patched", "change-request.package.written"
"""Boundaries within the writing of a package, before it has its name: the patch is there; all of it is there."""


_NOT_AS_PUBLISHED = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO})
"""What a file says by its name that is gone, or something else."""


@dataclass(eq=False)
class ChangePackageError(FaultError):
    """A published package is damaged; it is kept as it is, and nothing is built over it."""

    code: ClassVar[str] = "change.package_unreadable"
    hint: ClassVar[str] = "Move the directory of this change request aside, then ask again."

    change: str
    problem: str


@dataclass(eq=False)
class PatchChangedError(FaultError):
    """The patch on the disk is not the one that the change request was made with; it is neither shown nor applied."""

    code: ClassVar[str] = "change.patch_changed"
    hint: ClassVar[str] = "Somebody changed the file after it was made: make another change request with `jam change new`."

    change: str
    made: str
    found: str


class CommandEvidence(Record):
    """One command that the agent ran, as the provider reported it."""

    command: str
    exit_code: int | None


class Evidence(Record):
    """What a reviewer needs besides the patch: turns, commands, checkpoints, proofs of resumption."""

    provider: str
    provider_version: str
    engine: str
    base_commit: str | None
    base_tree: str
    tree: str
    patch_reproduces_tree: bool
    patch_truncated: bool
    turns: tuple[Turn, ...]
    commands: tuple[CommandEvidence, ...]
    checkpoints: tuple[Checkpoint, ...]
    resumptions: tuple[Observation, ...]


@dataclass(frozen=True, slots=True)
class ChangeMaterial:
    """All that goes into a package besides the work tree."""

    id: UUID
    room_id: UUID
    session_id: UUID
    objective: str
    provider: str
    provider_version: str
    engine: str
    base_commit: str | None
    turns: tuple[Turn, ...]
    events: tuple[RoomEvent, ...]
    skipped: tuple[str, ...]
    checkpoints: tuple[Checkpoint, ...]
    resumptions: tuple[Observation, ...]
    created_at: datetime


class ChangeBuilder:
    """Writes packages below the app directory. A package is published by one rename; a half one is never seen."""

    def __init__(self, app: Path, *, files: Files, crash: CrashPoints | None = None) -> None:
        self._app = app
        self._files = files
        self._crash = crash or NoCrash()

    def published(self, identifier: UUID) -> ChangeRequest | None:
        """Return the package of an id, or ``None`` if none was published.

        Raises:
            ChangePackageError: One was, and it cannot be read as this change request.
        """
        directory = self._app / layout.change(identifier)
        if not directory.exists():
            return None
        try:
            change = ChangeRequest.model_validate_json((directory / METADATA).read_bytes())
        except OSError as error:
            raise _unreadable(str(identifier), METADATA, error) from error
        except ValueError as error:
            raise ChangePackageError(
                change=str(identifier), problem=f"{METADATA} cannot be read: {type(error).__name__}"
            ) from error
        if change.id != identifier:
            raise ChangePackageError(change=str(identifier), problem=f"it is the package of {change.id}")
        return change

    async def build(self, material: ChangeMaterial, git: ReviewGit, *, base: str, tree: str) -> ChangeRequest:
        """Write and publish the package, or return what is already published under its id.

        Raises:
            ReviewGitError: Git could not compare the trees.
            ChangePackageError: What is published cannot be read.
            OSError: The disk refused; nothing is published.
        """
        if known := await to_thread.run_sync(self.published, material.id):
            return known
        final = self._app / layout.change(material.id)
        partial = final.with_name(f".{final.name}.partial")
        patch, truncated = await git.patch(base, tree, limit=PATCH_BYTES)
        await to_thread.run_sync(self._begin, partial, patch)
        whole = not truncated and await git.reproduces(base, tree, partial / PATCH)
        evidence = Evidence(
            provider=material.provider,
            provider_version=material.provider_version,
            engine=material.engine,
            base_commit=material.base_commit,
            base_tree=base,
            tree=tree,
            patch_reproduces_tree=whole,
            patch_truncated=truncated,
            turns=material.turns,
            commands=_commands(material.events),
            checkpoints=material.checkpoints,
            resumptions=material.resumptions,
        )
        changes = await git.changes(base, tree)
        return await to_thread.run_sync(self._publish, partial, material, evidence, describe_all(changes, patch))

    def _begin(self, partial: Path, patch: bytes) -> None:
        self._files.remove_tree(partial)
        self._files.make_private(partial)
        self._files.write_atomic(partial / PATCH, patch)
        self._crash.reach(PATCHED)

    def _publish(
        self, partial: Path, material: ChangeMaterial, evidence: Evidence, paths: tuple[ChangedPath, ...]
    ) -> ChangeRequest:
        lines = b"".join(event.canonical_json() + b"\n" for event in material.events)
        self._files.write_atomic(partial / TRANSCRIPT, lines)
        self._files.write_atomic(partial / EVIDENCE, _pretty(evidence))
        change = ChangeRequest(
            id=material.id,
            room_id=material.room_id,
            session_id=material.session_id,
            objective=material.objective,
            base=material.base_commit or evidence.base_tree,
            paths=paths,
            files=tuple(_evidence_file(partial / name) for name in (PATCH, TRANSCRIPT, EVIDENCE)),
            complete=evidence.patch_reproduces_tree and not material.skipped,
            skipped=material.skipped,
            created_at=material.created_at,
        )
        self._files.write_atomic(partial / METADATA, _pretty(change))
        self._crash.reach(WRITTEN)
        self._files.rename(partial, self._app / layout.change(material.id))
        return change


def read_packaged(directory: Path, name: str, *, limit: int) -> bytes:
    """Return at most ``limit`` bytes of a file of a package, which may have been replaced since: what is no file is never waited for.

    Raises:
        ChangePackageError: It is not there, or it is a link, a pipe or anything else that was not published.
        StorageFailedError: The machine failed, which says nothing of the package.
    """
    try:
        descriptor = os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ChangePackageError(change=directory.name, problem=f"{name} is not a file any more")
            return stream.read(limit)
    except OSError as error:
        raise _unreadable(directory.name, name, error) from error


def _unreadable(change: str, name: str, error: OSError) -> JamError:
    """Return what is wrong when a file of a package cannot be read: the package, if it is not there as it was published."""
    if error.errno in _NOT_AS_PUBLISHED:
        return ChangePackageError(change=change, problem=f"{name}: {error.strerror}")
    return storage_error(error)


def read_patch(directory: Path, change: UUID, *, digest: str) -> bytes:
    """Return the patch of a package if it still has its digest: what is shown and what is applied are the same bytes.

    Raises:
        ChangePackageError: It is not there.
        PatchChangedError: It is another one.
    """
    # One byte more than any patch has: another file is then another digest, not gigabytes in memory.
    data = read_packaged(directory, PATCH, limit=PATCH_BYTES + 1)
    found = hashlib.sha256(data).hexdigest()
    if found != digest:
        raise PatchChangedError(change=str(change), made=digest, found=found)
    return data


def describe_all(changes: tuple[RawChange, ...], patch: bytes) -> tuple[ChangedPath, ...]:
    """Join git's list of changes with the sections of the patch: a type change has two sections, all else one."""
    sections = list(split_patch(patch))
    described = []
    for change in changes:
        own = [sections.pop(0) for _ in range(2 if change.status == "T" else 1) if sections]
        binary = any(section.binary for section in own)
        described.append(describe(change, binary=binary, added="\n".join(section.added for section in own)))
    return tuple(described)


def _commands(events: tuple[RoomEvent, ...]) -> tuple[CommandEvidence, ...]:
    finished = (event.payload for event in events if isinstance(event.payload, CommandFinished))
    return tuple(CommandEvidence(command=payload.command, exit_code=payload.exit_code) for payload in finished)


def _evidence_file(path: Path) -> EvidenceFile:
    data = path.read_bytes()
    return EvidenceFile(name=path.name, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def _pretty(record: Record) -> bytes:
    return json.dumps(record.model_dump(mode="json"), indent=2, sort_keys=True, ensure_ascii=False).encode() + b"\n"
