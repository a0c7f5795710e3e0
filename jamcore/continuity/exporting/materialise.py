"""Writes a generation as plain files (WS-5).

    checkpoint.json     what was captured, and how: :class:`~jamcore.domain.checkpoint_exports.ExportedCheckpoint`
    files/              the provider's state, each file under its path below the state root; symbolic links are in the listing alone
    databases/          whole databases, each under its path below the guest's home; only where there are some

Every block is proven by its digest on its way, and everything is private, whatever its mode was. Nothing is synced here: an export is
made durable as a whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from pathlib import Path
from uuid import UUID

from jamcore.continuity.exporting.form import LISTING
from jamcore.continuity.exporting.selecting import Part, select
from jamcore.continuity.exporting.writing import StateWriter
from jamcore.continuity.generations.damage import damage_of
from jamcore.continuity.generations.publish import Generation, Generations
from jamcore.continuity.tree.patterns import CaptureRules
from jamcore.domain import limits
from jamcore.domain.checkpoint_exports import (
    CheckpointExportRefusedError,
    CheckpointSummary,
    ExportedCheckpoint,
    ExportedEntry,
    OriginCheckpoint,
)
from jamcore.domain.continuity import CaptureList, Checkpoint, CheckpointCorruptError
from jamcore.system.tree_calls import TreeCalls
from jamcore.system.trees import open_root, owned


class CheckpointExporter:
    """Writes generations of one app directory for exports. Blocking: call it in a worker thread."""

    def __init__(self, generations: Generations, calls: TreeCalls | None = None) -> None:
        self._generations = generations
        self._calls = calls or TreeCalls()

    def materialise(
        self,
        row: Checkpoint,
        into: Path,
        *,
        captures: CaptureList,
        sessions: AbstractSet[UUID] | None = None,
        alive: Callable[[], None] = lambda: None,
    ) -> CheckpointSummary:
        """Write one generation into an empty directory, proven while it is written.

        Args:
            row: The checkpoint as recorded.
            into: An empty private directory that nobody else can write. What a failure leaves in it is the caller's to remove.
            captures: What the provider declares.
            sessions: The sessions whose conversations are wanted; ``None``: the state of the whole host. Others' conversations never go
                along with chosen ones: where the provider cannot tell them apart, it is refused.
            alive: Called often; raises when the caller gave up.

        Raises:
            CheckpointCorruptError: The generation is gone, damaged, or not what was recorded.
            ContinuityRefusedError: It does not hold the conversation of one of the sessions.
            CheckpointExportRefusedError: It holds a credential, or conversations that cannot be told apart.
            OSError: The machine failed.
        """
        generation = self._generations.read(row.host_id, row.id)
        if generation is None:
            raise CheckpointCorruptError(checkpoint=str(row.id), detail="its complete.json is gone")
        generation.require_recorded(row)
        with damage_of(row.id), self._generations.blocks(row.host_id).reader() as source, owned(open_root(into)) as directory:
            part = select(source, generation, captures, sessions)
            made_ns = int(generation.created_at.timestamp()) * 1_000_000_000
            writer = StateWriter(self._calls, source, directory, CaptureRules(captures), made_ns=made_ns, alive=alive)
            exported = _described(generation, row.generation, part, writer.write(part))
            self._write_listing(directory, exported)
        return summary_of(exported)

    def _write_listing(self, directory: int, exported: ExportedCheckpoint) -> None:
        data = exported.canonical_json()
        if len(data) > limits.EXPORTED_BYTES:
            raise CheckpointExportRefusedError(
                path=LISTING, reason=f"more than {limits.EXPORTED_BYTES} bytes: its names are too long"
            )
        with owned(self._calls.create(directory, LISTING.encode())) as descriptor:
            self._calls.write(descriptor, memoryview(data), 0)


def summary_of(exported: ExportedCheckpoint) -> CheckpointSummary:
    """Return what an export's manifest says of its checkpoint."""
    return CheckpointSummary(
        digest=hashlib.sha256(exported.canonical_json()).hexdigest(),
        checkpoint_id=exported.origin.checkpoint_id,
        generation=exported.origin.generation,
        created_at=exported.origin.created_at,
        provider=exported.provider,
        provider_version=exported.provider_version,
        scope=exported.scope,
        sessions=exported.sessions,
        files=exported.files,
        bytes_total=exported.bytes_total,
        left_out=exported.left_out,
    )


def _described(generation: Generation, number: int, part: Part, entries: tuple[ExportedEntry, ...]) -> ExportedCheckpoint:
    sizes = [entry.size for entry in entries if entry.declared is not None]
    return ExportedCheckpoint(
        provider=generation.provider,
        provider_version=generation.provider_version,
        origin=OriginCheckpoint(
            checkpoint_id=generation.checkpoint_id,
            host_id=generation.host_id,
            agent_id=generation.agent_id,
            generation=number,
            reason=generation.reason,
            root_digest=generation.root_digest,
            guest_frozen=generation.guest_frozen,
            created_at=generation.created_at,
        ),
        scope=part.scope,
        sessions=part.sessions,
        mode=part.root.mode,
        mtime_ns=part.root.mtime_ns,
        files=len(sizes),
        bytes_total=sum(sizes),
        left_out=part.left_out,
        entries=entries,
    )
