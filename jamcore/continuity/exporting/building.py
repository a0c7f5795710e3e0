"""Makes a generation of the files in an export, from which a session resumes exactly (WS-6, CONT-1, CONT-3, CONT-4).

The order is that of every publication: everything is read and held against what is listed, the pack is synced, ``complete.json`` appears,
then the row. The provider's ids are bound before: a session that is cut in between has an id and no checkpoint, which is refused and never
started afresh. Beside ``complete.json`` stands ``origin.json``: what the generation was made from.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal
from uuid import UUID

import anyio.from_thread
import anyio.to_thread
from pydantic import ValidationError

from jamcore.continuity.capturing.broker import CheckpointBroker
from jamcore.continuity.capturing.ledger import record_generation
from jamcore.continuity.exporting.listing import ExportListing, checked, read_listing
from jamcore.continuity.exporting.materialise import summary_of
from jamcore.continuity.exporting.rebuild import Rebuild
from jamcore.continuity.exporting.seats import Seat, bind, seats_of
from jamcore.continuity.generations.content import DigestsOnly
from jamcore.continuity.generations.format import ALGORITHM
from jamcore.continuity.generations.objects import Root, write_root
from jamcore.continuity.generations.publish import CheckpointFailedError, Generation, Generations
from jamcore.continuity.generations.verify import verify
from jamcore.continuity.ports import CheckpointStore, Rows
from jamcore.domain.checkpoint_exports import CheckpointSummary, ExportedCheckpoint, OriginCheckpoint
from jamcore.domain.continuity import CaptureList, Checkpoint, CheckpointReason, CheckpointSession
from jamcore.domain.errors import ConflictError
from jamcore.domain.records import Record
from jamcore.domain.sessions import RuntimeHost
from jamcore.journal.points import CrashPoints
from jamcore.system.clock import Clock
from jamcore.system.tree_calls import TreeCalls
from jamcore.system.trees import open_root, owned

ORIGIN = "origin.json"
BUILD_POINTS = ("build.begun", "build.sealed", "build.bound", "build.prepared", "build.noted", "build.completed", "build.recorded")
"""The boundaries of a build, in order; at most one durable effect lies between two of them."""


class BuiltFrom(Record):
    """The content of ``origin.json``. ``digest`` is that of the listing; ``sessions`` are pairs of the old and the new one's id."""

    schema_version: Literal[1] = 1
    digest: str
    checkpoint: OriginCheckpoint
    sessions: tuple[tuple[UUID, UUID], ...]


@dataclass(frozen=True, slots=True)
class Build:
    """One build, with everything it was asked with.

    Attributes:
        directory: The checkpoint directory of the export.
        digest: What the listing must have; what a person confirmed, or the export's manifest says.
        host: The host as stored. Nothing runs on it, and its caller sees to that.
        checkpoint_id: The new generation's; the same again is an exact retry.
        sessions: For each session in the export, its new seat.
        captures: What the provider declares here.
    """

    directory: Path
    digest: str
    host: RuntimeHost
    checkpoint_id: UUID
    sessions: Mapping[UUID, Seat]
    captures: CaptureList


class CheckpointBuilder:
    """Makes generations from exports. One object per daemon."""

    def __init__(
        self,
        generations: Generations,
        *,
        broker: CheckpointBroker,
        store: CheckpointStore,
        clock: Clock,
        crash: CrashPoints,
        calls: TreeCalls | None = None,
    ) -> None:
        self._generations = generations
        self._calls = calls or TreeCalls()
        self._broker = broker
        self._store = store
        self._clock = clock
        self._crash = crash

    async def inspect(self, directory: Path, *, captures: CaptureList, digest: str | None = None) -> CheckpointSummary:
        """Read the checkpoint of an export whole, as :meth:`build` would, and return what it holds. Changes nothing.

        Raises:
            CheckpointImportRefusedError: Anything about it is not as it must be; it is named.
            OSError: The machine failed.
        """
        return await anyio.to_thread.run_sync(partial(_inspected, self._calls, directory, captures, digest))

    async def build(self, build: Build) -> Checkpoint:
        """Publish, record and verify one generation.

        Returns:
            The stored row.

        Raises:
            CheckpointImportRefusedError: Anything about the export is not as it must be; nothing was published.
            ConflictError: Host, sessions or identities are not those of the store, or the id is another generation's.
            CheckpointCorruptError: What was written cannot be read back.
            CheckpointFailedError: The machine failed.
        """
        try:
            await self._broker.repair(build.host.id)
            async with self._broker.between_publications(build.host.id):
                return await self._built(build)
        except OSError as error:
            raise CheckpointFailedError(host=str(build.host.id), problem=str(error)) from error

    async def _built(self, build: Build) -> Checkpoint:
        generation = await anyio.to_thread.run_sync(self._published_before, build)
        if generation is None:
            exported = await anyio.to_thread.run_sync(_confirmed, build)
            await self._store.read(partial(seats_of, build.host, exported, build.sessions))
            generation = await self._publish(build, exported)
        row = await self._store.transact(partial(record_generation, generation))
        self._crash.reach("build.recorded")
        await anyio.to_thread.run_sync(self._verify, generation)
        await self._store.transact(partial(_note_sound, row))
        return row

    async def _publish(self, build: Build, exported: ExportedCheckpoint) -> Generation:
        with ExitStack() as owned_here:
            root, digest, written = await anyio.to_thread.run_sync(self._sealed, build, exported, owned_here)
            sessions = await self._store.transact(partial(bind, build.host, exported, build.sessions))
            self._crash.reach("build.bound")
            generation = self._generation(build, exported, sessions, root, digest, written)
            await anyio.to_thread.run_sync(self._complete, generation, _origin(build, exported))
        return generation

    # ---------------------------------------------------------------------------------------------------- worker thread

    def _published_before(self, build: Build) -> Generation | None:
        """Return the generation when this is an exact retry of a build that went through."""
        done = self._generations.read(build.host.id, build.checkpoint_id)
        if done is None:
            if self._generations.is_retired(build.host.id, build.checkpoint_id):
                raise ConflictError(kind="checkpoint", ref=str(build.checkpoint_id), problem="its payload was removed")
            return None
        origin = origin_of(self._generations, build.host.id, build.checkpoint_id)
        if origin is None or (origin.digest, origin.sessions) != (build.digest, _pairs(build)):
            raise ConflictError(
                kind="checkpoint", ref=str(build.checkpoint_id), problem="it exists and was made from something else"
            )
        return done

    def _sealed(self, build: Build, exported: ExportedCheckpoint, owned_here: ExitStack) -> tuple[Root, bytes, int]:
        """Read and check everything into a pack, and make that durable. What is not published in the end is removed."""
        listing = checked(exported, build.captures)
        host = build.host.id
        self._generations.prepare(host)
        pack = self._generations.blocks(host).writer(build.checkpoint_id, self._generations.files)
        owned_here.callback(self._generations.drop_unpublished, host, build.checkpoint_id, pack)
        self._crash.reach("build.begun")
        with owned(open_root(build.directory)) as directory:
            root = Rebuild(pack, listing, anyio.from_thread.check_cancelled, self._calls).run(directory)
        digest = write_root(pack, root)
        pack.seal()
        self._crash.reach("build.sealed")
        return root, digest, pack.bytes_written

    def _generation(
        self,
        build: Build,
        exported: ExportedCheckpoint,
        sessions: tuple[CheckpointSession, ...],
        root: Root,
        digest: bytes,
        written: int,
    ) -> Generation:
        return Generation(
            algorithm=ALGORITHM,
            checkpoint_id=build.checkpoint_id,
            host_id=build.host.id,
            agent_id=build.host.agent_id,
            provider=build.host.provider,
            provider_version=exported.provider_version,
            reason=CheckpointReason.FROM_EXPORT,
            root_digest=digest.hex(),
            sessions=sessions,
            files=root.files,
            bytes_total=root.bytes_total,
            bytes_written=written,
            guest_frozen=exported.origin.guest_frozen,
            created_at=self._clock.now(),
        ).sealed()

    def _complete(self, generation: Generation, origin: BuiltFrom) -> None:
        host, checkpoint = generation.host_id, generation.checkpoint_id
        self._generations.make_directory(host, checkpoint)
        self._crash.reach("build.prepared")
        self._generations.files.write_atomic(_origin_path(self._generations, host, checkpoint), origin.canonical_json())
        self._crash.reach("build.noted")
        self._generations.complete(generation)
        self._crash.reach("build.completed")

    def _verify(self, generation: Generation) -> None:
        with self._generations.blocks(generation.host_id).reader() as source:
            verify(source, generation, anyio.from_thread.check_cancelled)


def origin_of(generations: Generations, host: UUID, checkpoint: UUID) -> BuiltFrom | None:
    """Return what a generation was made from; ``None`` for one of live state, and where that cannot be read any more."""
    try:
        return BuiltFrom.model_validate_json(_origin_path(generations, host, checkpoint).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _origin_path(generations: Generations, host: UUID, checkpoint: UUID) -> Path:
    return generations.recovery(host) / "checkpoints" / str(checkpoint) / ORIGIN


def _origin(build: Build, exported: ExportedCheckpoint) -> BuiltFrom:
    return BuiltFrom(digest=build.digest, checkpoint=exported.origin, sessions=_pairs(build))


def _pairs(build: Build) -> tuple[tuple[UUID, UUID], ...]:
    return tuple(sorted((old, seat.session_id) for old, seat in build.sessions.items()))


def _confirmed(build: Build) -> ExportedCheckpoint:
    with owned(open_root(build.directory)) as directory:
        return read_listing(directory, build.digest)


def _inspected(calls: TreeCalls, path: Path, captures: CaptureList, digest: str | None) -> CheckpointSummary:
    with owned(open_root(path)) as directory:
        listing: ExportListing = checked(read_listing(directory, digest), captures)
        Rebuild(DigestsOnly(), listing, anyio.from_thread.check_cancelled, calls).run(directory)
    return summary_of(listing.exported)


def _note_sound(row: Checkpoint, rows: Rows) -> None:
    rows.verifications.note(row.id, row.host_id)
