"""Makes the generations of a host (CONT-2 to CONT-4).

The host is held still only while bytes are read. Syncing, comparing the beginnings of large logs and publishing come after.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import UUID

import anyio
import anyio.from_thread
import anyio.to_thread

from jamcore.continuity.capturing.capture import Bounds, Capture, Captured
from jamcore.continuity.capturing.kept import can_keep, kept_of
from jamcore.continuity.capturing.ledger import inputs_of, record_generation
from jamcore.continuity.capturing.reading import Before, root_before
from jamcore.continuity.coordinator import Coordinators, ExclusivePermit
from jamcore.continuity.databases.capture import DatabaseCapture, paths_before
from jamcore.continuity.databases.guest_calls import GuestDatabases
from jamcore.continuity.generations.databases import declared
from jamcore.continuity.generations.format import ALGORITHM
from jamcore.continuity.generations.objects import Root, write_root
from jamcore.continuity.generations.packs import PackWriter
from jamcore.continuity.generations.publish import CheckpointFailedError, Generation, Generations
from jamcore.continuity.generations.restoring import is_half_restored
from jamcore.continuity.ports import CheckpointStore
from jamcore.continuity.tree.patterns import CaptureRules
from jamcore.continuity.tree.patterns import Path as Names
from jamcore.domain import limits
from jamcore.domain.continuity import (
    CaptureList,
    CaptureRefusedError,
    Checkpoint,
    CheckpointCorruptError,
    CheckpointReason,
    CheckpointSession,
    DatabaseBusyError,
)
from jamcore.domain.errors import ConflictError
from jamcore.domain.sessions import RuntimeHost
from jamcore.journal.points import CrashPoints
from jamcore.system.clock import Clock
from jamcore.system.files import Files
from jamcore.system.ids import IdSource, behind

Freeze = Callable[[], AbstractAsyncContextManager[object]]

ROUNDS = 3
"""How often a capture begins again: a log's beginning turned out to have changed and is then read whole, or a database was locked."""
LOCKED_PAUSE_S = 0.2
"""For a guest that holds a database locked to finish what it is about; twice as long the next time."""


@dataclass(frozen=True, slots=True)
class _Request:
    """One capture, with everything it was asked with. ``checkpoint_id`` is given for an exact retry alone."""

    host: RuntimeHost
    checkpoint_id: UUID | None
    reason: CheckpointReason
    state_root: Path
    rules: CaptureRules
    declared: tuple[str, ...]
    conversations: tuple[str, ...]
    provider_version: str
    identities: Mapping[UUID, str]
    freeze: Freeze | None
    confirmed: bool
    databases: GuestDatabases | None


@dataclass(frozen=True, slots=True)
class _Read:
    """What one reading gave: an unsealed pack, for which generation, and what is in it."""

    checkpoint_id: UUID
    pack: PackWriter
    captured: Captured
    sessions: tuple[CheckpointSession, ...]
    databases: DatabaseCapture | None


class CheckpointBroker:
    """The one place where generations come from. One object per daemon."""

    def __init__(
        self,
        generations: Generations,
        *,
        store: CheckpointStore,
        coordinators: Coordinators,
        clock: Clock,
        ids: IdSource,
        crash: CrashPoints,
        bounds: Bounds | None = None,
    ) -> None:
        self._generations = generations
        self._files: Files = generations.files
        self._store = store
        self._coordinators = coordinators
        self._clock = clock
        self._ids = ids
        self._crash = crash
        self._bounds = bounds
        self._publishing: dict[UUID, anyio.Lock] = {}
        self._accounted: dict[UUID, set[UUID]] = {}

    async def capture(
        self,
        host: RuntimeHost,
        *,
        reason: CheckpointReason,
        state_root: Path,
        capture_list: CaptureList,
        provider_version: str,
        freeze: Freeze | None = None,
        databases: GuestDatabases | None = None,
        permit_held_by: ExclusivePermit | None = None,
        identities: Mapping[UUID, str] | None = None,
        checkpoint_id: UUID | None = None,
        bound_s: float = limits.CHECKPOINT_WAIT_S,
        confirmed: bool = True,
    ) -> Checkpoint:
        """Make, publish and record one generation of a host, with all its sessions.

        Args:
            host: The host as stored.
            reason: Why.
            state_root: The provider's state root on the host's file system.
            capture_list: What the provider declared.
            provider_version: Version of the program that wrote the state.
            freeze: Holds every guest process still; ``None`` where the engine cannot, which the generation then says.
            databases: The way to the databases in the guest's home, for a provider that declares some.
            permit_held_by: The host's exclusive permit, when the caller has it already.
            identities: Identities of sessions that are not bound in the store yet (FIRST_TURN).
            checkpoint_id: Give it to retry exactly; a generation that is complete already is only recorded.
            bound_s: Seconds to wait for running turns.
            confirmed: Whether completed turns are known to be in the state. If not, the bytes are kept and no turn reads as safe by them.

        Returns:
            The stored row.

        Raises:
            CaptureRefusedError: A bound, a credential, a special file, a log that lost captured bytes, a half-done restore, or a database
                that is locked, damaged or not there.
            HostBusyError: Turns did not end within the bound.
            ConflictError: Host, agent, sessions or identities are not those of the store.
            CheckpointFailedError, DatabaseHelperError: The machine or the helper in the guest failed; nothing was published.
        """
        request = _Request(
            host=host,
            checkpoint_id=checkpoint_id,
            reason=reason,
            state_root=state_root,
            rules=CaptureRules(capture_list),
            declared=declared(capture_list),
            conversations=capture_list.conversation_patterns if can_keep(capture_list) else (),
            provider_version=provider_version,
            identities=dict(identities or {}),
            freeze=freeze,
            databases=databases,
            confirmed=confirmed,
        )
        try:
            return await self._capture(request, permit_held_by, bound_s)
        except OSError as error:
            raise CheckpointFailedError(host=str(host.id), problem=str(error)) from error

    async def unrecorded(self) -> tuple[UUID, ...]:
        """Return the hosts for which :meth:`repair` may have something to do, for start-up: usually none of thousands."""
        recorded = await self._store.read(lambda rows: rows.checkpoints.ids_by_host())
        return await anyio.to_thread.run_sync(self._generations.unrecorded, recorded)

    async def repair(self, host_id: UUID) -> tuple[Checkpoint, ...]:
        """Finish what a crash left: record generations that are complete, remove packs that are not. For start-up (CONT-4).

        Returns:
            The rows that were added. A generation that cannot be read is left as it is, unrecorded.
        """
        try:
            async with self._lock(host_id):
                return await self._repair(host_id)
        except OSError as error:
            raise CheckpointFailedError(host=str(host_id), problem=str(error)) from error

    async def _capture(self, request: _Request, permit: ExclusivePermit | None, bound_s: float) -> Checkpoint:
        distrusted: frozenset[int] = frozenset()
        for attempt in range(ROUNDS):
            try:
                done = await self._attempt(request, permit, bound_s, distrusted)
            except DatabaseBusyError:
                if attempt == ROUNDS - 1:
                    raise
                await anyio.sleep(LOCKED_PAUSE_S * 2**attempt)
                continue
            if isinstance(done, Checkpoint):
                return done
            distrusted |= done
        raise CaptureRefusedError(path=".", reason="the beginnings of logs change again and again")

    async def _attempt(
        self, request: _Request, permit: ExclusivePermit | None, bound_s: float, distrusted: frozenset[int]
    ) -> Checkpoint | frozenset[int]:
        """Make a generation, or return the inodes of logs whose beginning turned out to have changed."""
        # The lock is taken inside the permit and kept beyond it: whoever waits for it holding a permit waits for a publication only.
        async with AsyncExitStack() as lock_scope:
            with ExitStack() as owned:
                begun = DatabaseCapture.begun(
                    request.databases, request.declared, frozen=request.freeze is not None, host=str(request.host.id)
                )
                databases = await lock_scope.enter_async_context(begun)
                async with self._alone(request.host.id, permit, bound_s):
                    await lock_scope.enter_async_context(self._lock(request.host.id))
                    await self._repair(request.host.id)
                    if done := await self._published_before(request):
                        return await self._record(done)
                    read = await self._read(request, distrusted, owned, databases)
                root = await self._with_databases(read)
                moved, digest = await anyio.to_thread.run_sync(self._settle, read, root)
                return moved or await self._publish(request, read, root, digest)

    async def _published_before(self, request: _Request) -> Generation | None:
        """Return the generation when this is an exact retry of a publication that went through."""
        if request.checkpoint_id is None:
            return None
        done = await anyio.to_thread.run_sync(self._generations.read, request.host.id, request.checkpoint_id)
        if done and (done.reason, done.provider_version) != (request.reason, request.provider_version):
            raise ConflictError(
                kind="checkpoint", ref=str(request.checkpoint_id), problem="it exists with another reason or version"
            )
        return done

    @asynccontextmanager
    async def _alone(self, host_id: UUID, permit: ExclusivePermit | None, bound_s: float) -> AsyncIterator[None]:
        coordinator = self._coordinators.for_host(host_id)
        if permit is None:
            async with coordinator.exclusive("checkpoint", bound_s):
                yield
        elif coordinator.is_held_by(permit):
            yield
        else:
            raise ConflictError(kind="permit", ref=str(host_id), problem="it is not held any more, or is another host's")

    async def _read(
        self, request: _Request, distrusted: frozenset[int], owned: ExitStack, databases: DatabaseCapture | None
    ) -> _Read:
        """Read everything into an unsealed pack while the host is held still. Databases are copied in the guest meanwhile.

        ``owned`` takes what must be dropped in the end.
        """
        sessions, previous, refused = await self._store.read(
            partial(inputs_of, request.host, request.identities, confirmed=request.confirmed)
        )
        # The order of ids is the order of making: what is recorded late, and which of two copies is the newer one, goes by it.
        checkpoint = request.checkpoint_id or behind(self._ids.uuid(), previous.id if previous else None)
        now_ns = int(self._clock.now().timestamp() * 1e9)
        async with request.freeze() if request.freeze else nullcontext():
            if databases:
                await databases.begin()
            pack, captured, before = await anyio.to_thread.run_sync(
                partial(self._read_state, request, checkpoint, previous, distrusted, owned, now_ns, refused)
            )
            if databases:
                await databases.made(before)
        self._crash.reach("publish.read")
        return _Read(checkpoint, pack, captured, sessions, databases)

    def _read_state(
        self,
        request: _Request,
        checkpoint: UUID,
        previous: Checkpoint | None,
        distrusted: frozenset[int],
        owned: ExitStack,
        now_ns: int,
        refused: frozenset[str],
    ) -> tuple[PackWriter, Captured, tuple[Names, ...]]:
        """Read the state, and return what databases the generation before has, too."""
        host_id = request.host.id
        if is_half_restored(self._generations.recovery(host_id)):
            raise CaptureRefusedError(path=".", reason="a restore was interrupted: the session must be resumed first")
        self._generations.prepare(host_id)
        blocks = self._generations.blocks(host_id)
        pack = blocks.writer(checkpoint, self._files)
        owned.callback(self._generations.drop_unpublished, host_id, checkpoint, pack)
        self._crash.reach("publish.begun")
        with blocks.reader() as source:
            before = Before(source, intact=not blocks.damaged, distrusted=distrusted)
            root = root_before(before, previous)
            kept = kept_of(refused, request.conversations, source, root, intact=before.intact)
            capture = Capture(
                request.rules,
                pack,
                before,
                now_ns=now_ns,
                stack=owned,
                bounds=self._bounds,
                kept=kept,
                alive=anyio.from_thread.check_cancelled,
            )
            return pack, capture.run(request.state_root, root), paths_before(source, root)

    async def _with_databases(self, read: _Read) -> Root:
        """Store what was copied in the guest, which goes on meanwhile, and return the root of everything."""
        if read.databases is None:
            return read.captured.root
        room = (self._bounds or Bounds()).bytes_total
        return await read.databases.stored(read.pack, read.captured.root, room)

    def _settle(self, read: _Read, root: Root) -> tuple[frozenset[int], bytes]:
        """Compare the beginnings of logs. If all hold, make the pack durable and return the root's digest, else return which do not."""
        moved = frozenset(log.inode for log in read.captured.deferred if not log.holds(anyio.from_thread.check_cancelled))
        if moved:
            return moved, b""
        digest = write_root(read.pack, root)
        read.pack.seal()
        self._crash.reach("publish.sealed")
        return moved, digest

    async def _publish(self, request: _Request, read: _Read, root: Root, digest: bytes) -> Checkpoint:
        generation = Generation(
            algorithm=ALGORITHM,
            checkpoint_id=read.checkpoint_id,
            host_id=request.host.id,
            agent_id=request.host.agent_id,
            provider=request.host.provider,
            provider_version=request.provider_version,
            reason=request.reason,
            root_digest=digest.hex(),
            sessions=read.sessions,
            files=root.files,
            bytes_total=root.bytes_total,
            bytes_written=read.pack.bytes_written,
            guest_frozen=request.freeze is not None,
            created_at=self._clock.now(),
        ).sealed()
        await anyio.to_thread.run_sync(self._complete, generation)
        return await self._record(generation)

    def _complete(self, generation: Generation) -> None:
        self._generations.make_directory(generation.host_id, generation.checkpoint_id)
        self._crash.reach("publish.prepared")
        self._generations.complete(generation)
        self._crash.reach("publish.completed")

    async def _record(self, generation: Generation) -> Checkpoint:
        row = await self._recorded(generation)
        self._accounted[generation.host_id].add(generation.checkpoint_id)
        return row

    async def _recorded(self, generation: Generation) -> Checkpoint:
        row = await self._store.transact(partial(record_generation, generation))
        self._crash.reach("publish.recorded")
        return row

    async def _repair(self, host_id: UUID) -> tuple[Checkpoint, ...]:
        """Record what is complete and has no row, oldest first, so that generation numbers follow the order of making.

        Done before every capture and inspection, since a row may be missing without any crash: the store may have been full.
        """
        first = host_id not in self._accounted
        known = self._accounted.get(host_id, set())
        new = await anyio.to_thread.run_sync(self._generations.published, host_id, frozenset(known))
        if not new and not first:
            return ()
        recorded = await self._store.read(lambda rows: rows.checkpoints.of_host(host_id))
        rows = {row.id for row in recorded}
        added: list[Checkpoint] = []
        for checkpoint in sorted(new - rows):
            if recorded and checkpoint < recorded[-1].id:
                continue  # its row was lost, not never written: recorded now it would pass for the newest, and lose turns
            try:
                generation = await anyio.to_thread.run_sync(self._generations.read, host_id, checkpoint)
            except CheckpointCorruptError:
                continue  # kept for inspection, never selected: it has no row
            if generation is not None:
                added.append(await self._recorded(generation))
        if first:
            await anyio.to_thread.run_sync(self._generations.discard_unpublished, host_id, frozenset(rows))
        self._accounted[host_id] = known | new  # last: what failed on the way is done again, the sweep too
        return tuple(added)

    @asynccontextmanager
    async def between_publications(self, host_id: UUID) -> AsyncIterator[None]:
        """Let no capture of the host read or publish meanwhile. A capture that waits keeps turns waiting: do little."""
        async with self._lock(host_id):
            yield

    def _lock(self, host_id: UUID) -> anyio.Lock:
        return self._publishing.setdefault(host_id, anyio.Lock())
