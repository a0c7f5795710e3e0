"""A whole daemon with two parked rooms, one of them archived, for tests of what clears the disk."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import UUID

from jamcore.daemon.services import Services
from jamcore.domain import layout
from jamcore.domain.cleanup_plans import CleanupPlan, CleanupQuestion, CleanupRequest
from jamcore.domain.keeping import ArchiveQuestion, ArchiveRequest
from jamcore.domain.removal import RemovalOverride
from jamcore.testing.parked_world import SUBJECT, World, living, make_world
from jamcore.testing.rooms import new_id


async def make_archived(world: World, kept: Path) -> None:
    """Make the world, archive the subject's files into two exports, and keep that state."""
    await make_world(world)
    async with living(world) as services:
        await archive(services, SUBJECT)
    world.keep(kept)


async def archive(services: Services, room: str) -> UUID:
    """Archive a room's files whatever lies in them, and return the export."""
    found = await services.archives.plan(room, ArchiveQuestion())
    words = tuple(RemovalOverride(reason=each.reason, path=each.path) for each in found.standing)
    plan = await services.archives.plan(room, ArchiveQuestion(overrides=words))
    done = await services.archives.archive(room, ArchiveRequest(id=new_id(), confirmed=plan.digest, overrides=words))
    return done.export.id


async def look(services: Services, *, discard_work: bool = False) -> CleanupPlan:
    """Look at what the clean-up of the subject's host would take away."""
    return await services.cleanups.plan(SUBJECT, CleanupQuestion(discard_work=discard_work))


async def confirmed(services: Services) -> CleanupRequest:
    """Look, and return the request that confirms what was seen."""
    plan = await look(services)
    assert plan.standing == ()
    return CleanupRequest(id=new_id(), confirmed=plan.digest)


def reasons(plan: CleanupPlan) -> list[str]:
    """Return what stands against it."""
    return sorted({each.reason.value for each in plan.standing})


def taken(app: Path, *below: str) -> int:
    """Return what some directories take on the disk, counted as ``du`` counts it."""
    seen: dict[int, int] = {}
    for root in below or (layout.HOSTS, layout.OWNERS):
        for directory, _, files in os.walk(app / root):
            for name in (".", *files):
                status = (Path(directory) / name).lstat()
                seen[status.st_ino] = status.st_blocks * 512
    return sum(seen.values())
