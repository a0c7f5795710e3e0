"""Generations on disk: ``complete.json`` is what makes one (CONT-4).

The order is: the pack is synced, then ``complete.json`` appears by one durable rename, then the row is written. Each later thing implies
the earlier ones, so a crash between any two is repaired by doing the rest, and what has no ``complete.json`` was never a generation.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar, Literal
from uuid import UUID

from pydantic import ValidationError

from jamcore.continuity.generations.blocks import (
    COMPLETE,
    PACK_SUFFIX,
    SHARED_SUFFIX,
    BlockStore,
    generation_of,
    is_regular,
    mode_of,
    published,
)
from jamcore.continuity.generations.format import Algorithm
from jamcore.continuity.generations.packs import PackWriter
from jamcore.domain import layout
from jamcore.domain.continuity import Checkpoint, CheckpointCorruptError, CheckpointReason, CheckpointSession
from jamcore.domain.errors import ConflictError, FaultError
from jamcore.domain.records import Record
from jamcore.system.files import Files

POINTS = ("publish.begun", "publish.read", "publish.sealed", "publish.prepared", "publish.completed", "publish.recorded")
"""The boundaries of a publication, in order; at most one durable effect lies between two of them."""

REMOVED = "removed.json"
"""What ``complete.json`` is called when the payload is removed: the generation is one no more, and what it was can still be read."""

COMPLETE_BYTES = 4 << 20
"""Largest ``complete.json``: room for some ten thousand sessions."""


@dataclass(eq=False)
class CheckpointFailedError(FaultError):
    """The machine would not let a checkpoint be written or read: a full disk, an unreadable directory."""

    code: ClassVar[str] = "continuity.checkpoint_failed"
    hint: ClassVar[str] = (
        "Look at the named problem; the last good checkpoint is untouched. Then stop or say something to try again."
    )

    host: str
    problem: str


class Generation(Record):
    """The content of ``complete.json``: the root of a generation alone, with whose it is and what it was made with.

    ``root_digest`` names the root object in the packs. ``guest_frozen`` says whether the guest was held still while it was read, or
    only Jam's own turns were (CONT-2). ``checksum`` is over all other fields. Generations of the first schema have no databases.
    """

    schema_version: Literal[1, 2] = 2
    algorithm: Algorithm
    checkpoint_id: UUID
    host_id: UUID
    agent_id: UUID
    provider: str
    provider_version: str
    reason: CheckpointReason
    root_digest: str
    sessions: tuple[CheckpointSession, ...]
    files: int
    bytes_total: int
    bytes_written: int
    guest_frozen: bool
    created_at: datetime
    checksum: str = ""

    def sealed(self) -> Generation:
        """Return this generation with its checksum."""
        bare = self.model_copy(update={"checksum": ""})
        return self.model_copy(update={"checksum": hashlib.sha256(bare.canonical_json()).hexdigest()})

    def differs_from(self, row: Checkpoint) -> str:
        """Return the names of the fields in which this is not the generation that was recorded; empty when it is that one."""
        mine, theirs = self.row().model_dump(exclude={"generation"}), row.model_dump(exclude={"generation"})
        return ", ".join(name for name, value in mine.items() if theirs[name] != value)

    def require_recorded(self, row: Checkpoint) -> None:
        """Hold this against what was recorded of it.

        Raises:
            CheckpointCorruptError: They differ; the fields are named.
        """
        if different := self.differs_from(row):
            detail = f"{COMPLETE} does not say what was recorded of generation {row.generation}: {different}"
            raise CheckpointCorruptError(checkpoint=str(row.id), detail=detail)

    def row(self) -> Checkpoint:
        """Return the row; its generation number is given by the store."""
        return Checkpoint(
            id=self.checkpoint_id,
            host_id=self.host_id,
            agent_id=self.agent_id,
            provider=self.provider,
            provider_version=self.provider_version,
            reason=self.reason,
            root_digest=self.root_digest,
            sessions=self.sessions,
            files=self.files,
            bytes_total=self.bytes_total,
            bytes_written=self.bytes_written,
            generation=0,
            created_at=self.created_at,
        )


class Generations:
    """The generations of a daemon's hosts, and one block store for each host."""

    def __init__(self, app: Path, files: Files) -> None:
        self._app = app
        self.files = files
        self._blocks: dict[UUID, BlockStore] = {}

    def blocks(self, host: UUID) -> BlockStore:
        """Return the host's block store, with everything published in its index. Reads packs: call it in a worker thread."""
        packs, checkpoints = self._app / layout.packs(host), self._checkpoints(host)
        store = self._blocks.setdefault(host, BlockStore(packs, checkpoints))
        store.refresh()
        return store

    def prepare(self, host: UUID) -> None:
        """Make the directories that packs and generations go to."""
        self.files.make_private(self._app / layout.packs(host))
        self.files.make_private(self._checkpoints(host))

    def afresh(self) -> Generations:
        """Return the same generations with nothing known of them yet, as a new process sees them."""
        return Generations(self._app, self.files)

    def packs(self, host: UUID) -> Path:
        """Return the directory of the host's packs."""
        return self._app / layout.packs(host)

    def recovery(self, host: UUID) -> Path:
        """Return the host's directory for all that is kept for coming back."""
        return self._app / layout.recovery(host)

    def published(self, host: UUID, known: frozenset[UUID] = frozenset()) -> set[UUID]:
        """Return the generations that have their ``complete.json``, without those that the caller knows."""
        return published(self._checkpoints(host), known)

    def make_directory(self, host: UUID, checkpoint: UUID) -> None:
        """Make the directory of one generation, durably.

        Raises:
            ConflictError: It was one, and its payload was removed: nothing brings it back.
        """
        if self.is_retired(host, checkpoint):
            raise ConflictError(kind="checkpoint", ref=str(checkpoint), problem="its payload was removed")
        self.files.make_private(self._app / layout.checkpoint_root(host, checkpoint))

    def complete(self, generation: Generation) -> None:
        """Publish: write ``complete.json`` in one durable step."""
        self.files.write_atomic(self._complete(generation.host_id, generation.checkpoint_id), generation.canonical_json())

    def retire(self, host: UUID, checkpoint: UUID) -> bool:
        """End a generation whose payload goes, in one durable step. Returns whether it was one until now."""
        complete = self._complete(host, checkpoint)
        if mode_of(complete) is None:
            return False
        self.files.rename(complete, complete.with_name(REMOVED))
        return True

    def is_retired(self, host: UUID, checkpoint: UUID) -> bool:
        """Say whether the payload of a generation was removed, or may be at any moment."""
        complete = self._complete(host, checkpoint)
        if mode_of(self._grave(host, checkpoint)) is not None:
            return True
        return mode_of(complete.with_name(REMOVED)) is not None and mode_of(complete) is None

    def bury(self, host: UUID, checkpoint: UUID) -> None:
        """Put what says what a removed generation was beside the others of its kind, so that no list of generations meets it again."""
        retired = self._complete(host, checkpoint).with_name(REMOVED)
        if mode_of(retired) is not None:
            grave = self._grave(host, checkpoint)
            self.files.make_private(grave.parent)
            self.files.rename(retired, grave)
        with suppress(FileNotFoundError):
            if not _entries(retired.parent):
                retired.parent.rmdir()

    def read(self, host: UUID, checkpoint: UUID) -> Generation | None:
        """Return a generation, or ``None`` when it has no ``complete.json``: it is Incomplete, which is not the same as damaged.

        Raises:
            CheckpointCorruptError: The file is not, byte for byte, one that Jam wrote for this host and checkpoint.
            OSError: It is there and cannot be read.
        """
        path = self._complete(host, checkpoint)
        mode = mode_of(path)
        if mode is None:
            return None
        if not stat.S_ISREG(mode):
            raise CheckpointCorruptError(checkpoint=str(checkpoint), detail=f"{COMPLETE} is not a file")
        with path.open("rb") as stream:
            data = stream.read(COMPLETE_BYTES + 1)
        try:
            found = Generation.model_validate_json(data)
        except ValidationError as error:
            raise CheckpointCorruptError(
                checkpoint=str(checkpoint), detail=f"{COMPLETE} is not readable: {_first(error)}"
            ) from error
        if found.canonical_json() != data or found.sealed() != found:
            raise CheckpointCorruptError(checkpoint=str(checkpoint), detail=f"{COMPLETE} does not have its checksum")
        if (found.host_id, found.checkpoint_id) != (host, checkpoint):
            raise CheckpointCorruptError(checkpoint=str(checkpoint), detail=f"{COMPLETE} belongs to another generation")
        return found

    def drop_unpublished(self, host: UUID, checkpoint: UUID, pack: PackWriter) -> None:
        """Close a pack at the end of a capture, and remove it unless its generation was published."""
        if mode_of(self._complete(host, checkpoint)) is not None:
            pack.close()
        else:
            pack.discard()

    def discard_unpublished(self, host: UUID, recorded: AbstractSet[UUID] = frozenset()) -> tuple[str, ...]:
        """Remove packs that a crash left without a generation, and return their names. The caller is the host's only publisher.

        What has a row was a generation, whatever became of its ``complete.json``: its pack is evidence, and may be all that another
        generation's blocks are in. What does not bear the name of a generation is not Jam's.

        Args:
            host: Whose.
            recorded: The generations that have a row.
        """
        keep = self.published(host) | recorded
        directory = self._app / layout.packs(host)
        left = sorted(path for path in _entries(directory) if (named := _pack_of(path)) and named not in keep and is_regular(path))
        for path in left:
            path.unlink(missing_ok=True)
        self.files.sweep(directory)
        self._discard_incomplete(host, recorded)
        return tuple(path.name for path in left)

    def unrecorded(self, recorded: Mapping[UUID, AbstractSet[UUID]]) -> tuple[UUID, ...]:
        """Return the hosts that have a generation or a pack which no row explains: what a crash may have left. Two reads of a host's names.

        Args:
            recorded: The generations that have a row, by host.
        """
        found = []
        for host in filter(None, map(generation_of, _names(self._app / layout.HOSTS))):
            try:
                named = self._made(host)
            except OSError:
                found.append(host)  # whoever repairs it says what is wrong
                continue
            if named - {str(one) for one in recorded.get(host, ())}:
                found.append(host)
        return tuple(found)

    def _made(self, host: UUID) -> set[str]:
        """Return the names of a host's generations and packs, as they are on the disk."""
        packs = _names(self._app / layout.packs(host))
        own = {name.removesuffix(PACK_SUFFIX) for name in packs if not name.endswith(SHARED_SUFFIX)}
        return own | set(_names(self._checkpoints(host)))

    def _discard_incomplete(self, host: UUID, recorded: AbstractSet[UUID]) -> None:
        """Remove what a kill in the middle of ``complete.json`` left: its temporary file, and the directory if it is empty then."""
        for directory in _entries(self._checkpoints(host)):
            named = generation_of(directory.name)
            mode = mode_of(directory)
            if named is None or named in recorded or mode is None or not stat.S_ISDIR(mode):
                continue
            if mode_of(directory / COMPLETE) is None:
                self.files.sweep(directory)
                if not _entries(directory):
                    directory.rmdir()

    def _grave(self, host: UUID, checkpoint: UUID) -> Path:
        return self.recovery(host) / "removed" / f"{checkpoint}.json"

    def _checkpoints(self, host: UUID) -> Path:
        return self.recovery(host) / "checkpoints"

    def _complete(self, host: UUID, checkpoint: UUID) -> Path:
        return self._app / layout.checkpoint_root(host, checkpoint) / COMPLETE


def _first(error: ValidationError) -> str:
    """Return the first thing that is wrong, without the value."""
    found = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in found["loc"])
    return f"{where}: {found['msg']}" if where else found["msg"]


def _pack_of(path: Path) -> UUID | None:
    """Return whose pack a file is by its name."""
    return generation_of(path.stem) if path.suffix == PACK_SUFFIX else None


def _names(directory: Path) -> list[str]:
    """Return the names in a directory; none where there is none."""
    try:
        return [entry.name for entry in os.scandir(directory)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _entries(directory: Path) -> list[Path]:
    """Return what is in a directory; nothing where there is none."""
    try:
        return list(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
