"""The fake's removals of payload: what its checkpoints would free, unless they are called so that they stay."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from uuid import UUID

from jamcore.domain.retention import (
    REMOVED_TOGETHER,
    Blocker,
    CheckpointStanding,
    RemovalEvidence,
    RemovalPlan,
    RemovalQuestion,
    RemovalRefusedError,
    RemovalRequest,
    RemovalResult,
    Retention,
)
from jamcore.testing.fake_daemon.records import AT, checkpoint
from jamcore.testing.fake_daemon.state import Part

HOST = UUID(int=7)


class FakeRemovals(Part):
    """Answers about checkpoints by their names."""

    async def standings(self, room: str) -> tuple[CheckpointStanding, ...]:
        """See :class:`~jamcore.daemon.services.RemovalService`."""
        await self.fake.note("standings", room)
        row = checkpoint(self.fake.find(room))
        newest = CheckpointStanding(checkpoint=row, kept_because=Blocker.NEWEST, detail="it is what the rooms come back from")
        if not room.startswith("many"):
            return (newest,)
        older = [row.model_copy(update={"id": UUID(int=row.id.int - number), "generation": 2 - number}) for number in (1, 2)]
        if room.startswith("many-old"):
            ids = [UUID(int=row.id.int + number) for number in range(1, REMOVED_TOGETHER + 6)]
            return (newest, *(CheckpointStanding(checkpoint=row.model_copy(update={"id": each})) for each in ids))
        removed = CheckpointStanding(checkpoint=older[1], kept_because=Blocker.REMOVED, removed_at=AT)
        return (newest, CheckpointStanding(checkpoint=older[0]), removed)

    async def plan(self, question: RemovalQuestion) -> RemovalPlan:
        """See :class:`~jamcore.daemon.services.RemovalService`."""
        await self.fake.note("plan_removal", question)
        evidence = _evidence(question.checkpoints)
        return RemovalPlan(evidence=evidence, digest="" if evidence.blocked else evidence.content_digest())

    async def remove(self, request: RemovalRequest) -> RemovalResult:
        """See :class:`~jamcore.daemon.services.RemovalService`."""
        await self.fake.note("remove_checkpoints", request)
        evidence = _evidence(request.checkpoints)
        if evidence.content_digest() != request.confirmed:
            raise RemovalRefusedError(host=str(HOST), problem="what would be removed is no longer what was confirmed")
        chosen = tuple(item.checkpoint_id for item in evidence.items)
        return RemovalResult(id=request.id, host_id=HOST, checkpoints=chosen, bytes_freed=evidence.bytes_freed)


def _evidence(refs: tuple[str, ...]) -> RemovalEvidence:
    """Say what a removal would free: nothing of those that are called ``bad`` or ``gone``, nor of others beside them."""
    kept = [_KEPT.get(ref[:3]) for ref in refs]
    blocked = any(kept)
    items = [
        Retention(
            checkpoint_id=UUID(int=100 + number),
            generation=number + 1,
            blocker=because[0] if because else None,
            detail=because[1] if because else "",
            bytes_freed=0 if blocked else 4096,
            bytes_stay=0 if blocked else 1024,
        )
        for number, because in enumerate(kept)
    ]
    freed = sum(item.bytes_freed for item in items)
    stay = sum(item.bytes_stay for item in items)
    return RemovalEvidence(host_id=HOST, items=tuple(items), bytes_freed=freed, bytes_stay=stay, bytes_copied=stay)


_KEPT: Mapping[str, tuple[Blocker, str]] = MappingProxyType(
    {
        "bad": (Blocker.CORRUPT, "its pack is gone \x1b[2J"),
        "gon": (Blocker.REMOVED, "its payload was removed on 2026-01-02"),
    }
)
