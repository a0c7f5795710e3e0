"""The databases of a guest, held against a generation and put back where they differ (CONT-5, CONT-11).

A database that changed proves nothing, so live ones are used only where they are the captured ones to the byte: SQLite's own backup of
equal databases gives equal bytes. All of it happens in the sandbox, through the helper, before the provider starts. A generation is one
moment: where its databases have to be restored, its files are, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import islice
from uuid import UUID

import anyio.to_thread
import structlog

from jamcore.continuity.coordinator import Coordinators
from jamcore.continuity.databases.capture import LOCKED_S, stored
from jamcore.continuity.databases.guest_calls import GuestDatabases
from jamcore.continuity.generations.content import DigestsOnly, read_blocks
from jamcore.continuity.generations.damage import damage_of
from jamcore.continuity.generations.databases import Database, declared, read_databases
from jamcore.continuity.generations.format import Source
from jamcore.continuity.generations.objects import read_root
from jamcore.continuity.generations.publish import CheckpointFailedError, Generations
from jamcore.continuity.generations.restoring import end_restore
from jamcore.continuity.resuming.activate import Placement
from jamcore.continuity.resuming.compare import RestoredOtherwiseError
from jamcore.domain import limits
from jamcore.domain.continuity import (
    CaptureList,
    CaptureRefusedError,
    CheckpointCorruptError,
    DatabaseHelperError,
    ResumeSource,
)
from jamcore.domain.sandboxes import SandboxGoneError
from jamcore.system.ids import IdSource
from jamcore.system.trees import shown

BLOCKS_EACH = 128
"""Blocks read in one go: half a megabyte of the usual pages."""


class DatabaseActivator:
    """Finishes a placement once the sandbox runs and before the provider does. One object per daemon."""

    def __init__(self, generations: Generations, *, coordinators: Coordinators, ids: IdSource) -> None:
        self._generations = generations
        self._coordinators = coordinators
        self._ids = ids

    async def place(
        self,
        placement: Placement,
        *,
        host: UUID,
        checkpoint: UUID,
        guest: GuestDatabases,
        captures: CaptureList,
        restore_files: Callable[[str], Awaitable[Placement]],
        bound_s: float = limits.CHECKPOINT_WAIT_S,
    ) -> Placement:
        """Leave the live databases as they are if they are the generation's, else restore the generation.

        Args:
            placement: Where the files come from.
            host: Whose they are.
            checkpoint: The generation that was decided on.
            guest: The way to the databases.
            captures: What the provider declared.
            restore_files: Restores the files of the generation for the reason that it is given.
            bound_s: Seconds to wait for running turns before a restore.

        Returns:
            Which bytes the provider will find, after all.

        Raises:
            CheckpointCorruptError: The generation is damaged.
            RestoredOtherwiseError: What was restored is not what was captured.
            CheckpointFailedError, DatabaseHelperError, DatabaseRefusedError: The machine, the helper or the guest's disk failed.
        """
        try:
            with damage_of(checkpoint):
                return await self._place(placement, host, checkpoint, guest, declared(captures), restore_files, bound_s)
        except OSError as error:
            raise CheckpointFailedError(host=str(host), problem=str(error)) from error

    async def hindrance(self, host: UUID, checkpoint: UUID, guest: GuestDatabases) -> str | None:
        """Return why the live databases would not be used for a resume, or ``None``. Changes nothing.

        Raises:
            CheckpointCorruptError: The generation is damaged.
            CheckpointFailedError, DatabaseHelperError: The machine or the helper failed.
        """
        try:
            with damage_of(checkpoint):
                return await differs(guest, await anyio.to_thread.run_sync(self._databases, host, checkpoint))
        except OSError as error:
            raise CheckpointFailedError(host=str(host), problem=str(error)) from error

    async def _place(
        self,
        placement: Placement,
        host: UUID,
        checkpoint: UUID,
        guest: GuestDatabases,
        patterns: tuple[str, ...],
        restore_files: Callable[[str], Awaitable[Placement]],
        bound_s: float,
    ) -> Placement:
        wanted = await anyio.to_thread.run_sync(self._databases, host, checkpoint)
        if not wanted and (placement.source is ResumeSource.LIVE or not patterns):
            return placement
        if placement.source is ResumeSource.LIVE:
            hindrance = await differs(guest, wanted)
            if hindrance is None:
                return placement
            placement = await restore_files(hindrance)
        async with self._coordinators.for_host(host).exclusive("restore", bound_s):
            with self._generations.blocks(host).reader() as source:
                await restore(guest, wanted, source, patterns=patterns, restore_id=self._ids.uuid())
            if hindrance := await differs(guest, wanted):
                raise RestoredOtherwiseError(host=str(host), problem=f"restored, and yet {hindrance}")
            # Until here the marker of the files stands: what a cut restore left would not always be told from what was captured.
            await anyio.to_thread.run_sync(end_restore, self._generations.recovery(host), self._generations.files)
            await _thin_out(guest)
        return placement

    def _databases(self, host: UUID, checkpoint: UUID) -> tuple[Database, ...]:
        generation = self._generations.read(host, checkpoint)
        if generation is None:
            raise CheckpointCorruptError(checkpoint=str(checkpoint), detail="it is not complete any more")
        with self._generations.blocks(host).reader() as source:
            return read_databases(source, read_root(source, bytes.fromhex(generation.root_digest)).databases)


async def _thin_out(guest: GuestDatabases) -> None:
    """Drop what older restores replaced, now that this one is proven; what cannot be dropped stays until the next restore."""
    try:
        await guest.thin_out()
    except (SandboxGoneError, DatabaseHelperError, CaptureRefusedError) as error:
        structlog.get_logger("jam.continuity").warning("replaced databases kept", host=guest.host, error=str(error))


async def differs(guest: GuestDatabases, wanted: Sequence[Database]) -> str | None:
    """Return why the live databases may not be used, or ``None``: they are the captured ones.

    Raises:
        DatabaseHelperError: The helper failed, which proves nothing.
    """
    if not wanted:
        return None
    try:
        async with guest.copying((), [one.path for one in wanted], wait_s=LOCKED_S, check=False) as copies:
            await copies.begin()
            await copies.made()
            live = {one.path: one.content for one in await stored(copies, DigestsOnly(), guest.host)}
    except CaptureRefusedError as error:
        return f"{error.path}: {error.reason}"
    changed = next((one for one in wanted if live.get(one.path) != one.content), None)
    return f"~/{shown(changed.path)} is not what was captured" if changed else None


async def restore(
    guest: GuestDatabases, wanted: Sequence[Database], source: Source, *, patterns: tuple[str, ...], restore_id: UUID
) -> None:
    """Put the captured databases in place of whatever is there.

    Raises:
        BlockDamagedError: The generation cannot be read; nothing was exchanged.
        DatabaseRefusedError, DatabaseHelperError: The guest's disk or the helper failed; the next attempt begins anew.
    """

    async def content(one: Database) -> AsyncIterator[bytes]:
        blocks, digest = read_blocks(source, one.content), hashlib.sha256()
        while data := await anyio.to_thread.run_sync(lambda: b"".join(islice(blocks, BLOCKS_EACH))):
            digest.update(data)
            yield data
        yield digest.hexdigest().encode()

    await guest.restore(wanted, content, patterns, restore_id)
