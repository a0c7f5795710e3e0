"""The fake's checkpoints: one for each room, sound unless its room is called so."""

from __future__ import annotations

from jamcore.domain.continuity import Checkpoint, CheckpointEntry, EntryKind
from jamcore.domain.errors import NotFoundError
from jamcore.domain.requests import CheckpointDiff, CheckpointVerdict, CheckpointView
from jamcore.testing.fake_daemon.records import AT, checkpoint
from jamcore.testing.fake_daemon.state import Part

ENTRY = CheckpointEntry(path="home/sessions/a\x1b[2J.jsonl", kind=EntryKind.FILE, mode="0600", bytes=4096)


class FakeCheckpoints(Part):
    """Answers about one checkpoint."""

    async def list(self, room: str) -> tuple[Checkpoint, ...]:
        """See :class:`~jamcore.daemon.services.CheckpointService`."""
        await self.fake.note("checkpoints", room)
        return (checkpoint(self.fake.find(room)),)

    async def show(self, ref: str) -> CheckpointView:
        """See :class:`~jamcore.daemon.services.CheckpointService`."""
        await self.fake.note("checkpoint", ref)
        if ref.startswith("gone"):
            return CheckpointView(checkpoint=self._one(ref), entries=(), entries_total=0, removed_at=AT)
        return CheckpointView(checkpoint=self._one(ref), entries=(ENTRY,), entries_total=2)

    async def verify(self, ref: str) -> CheckpointVerdict:
        """See :class:`~jamcore.daemon.services.CheckpointService`."""
        await self.fake.note("verify", ref)
        problem = "its pack is gone \x1b[2J" if ref.startswith("bad") else ""
        return CheckpointVerdict(checkpoint=self._one(ref), sound=not problem, problem=problem)

    async def diff(self, older: str, newer: str) -> CheckpointDiff:
        """See :class:`~jamcore.daemon.services.CheckpointService`."""
        await self.fake.note("diff", (older, newer))
        one, two = self._one(older), self._one(newer)
        return CheckpointDiff(older=one, newer=two, added=(ENTRY,), changed=(ENTRY,), removed=(), total=3)

    def _one(self, ref: str) -> Checkpoint:
        if ref == "nobody" or not self.fake.rooms:
            raise NotFoundError(kind="checkpoint", ref=ref)
        return checkpoint(next(iter(self.fake.rooms.values())))
