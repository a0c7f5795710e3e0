"""SIGKILL in the middle of a removal of payload, in real processes: the next life finishes it and nothing is lost (WS-9, WS-12)."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import anyio
import pytest

from jamcore.continuity.capturing.broker import CheckpointBroker
from jamcore.continuity.coordinator import Coordinators
from jamcore.continuity.generations.looking import Look
from jamcore.continuity.generations.publish import Generations
from jamcore.continuity.retention.deletion import REMOVAL_POINTS, PayloadRemover, RemovalIntent
from jamcore.domain import layout
from jamcore.domain.continuity import ResumeSource
from jamcore.domain.retention import Blocker, DeletionStage
from jamcore.journal.points import CrashPoints, NoCrash
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner
from jamcore.store import StoreJournal
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds
from jamcore.testing.crash import Lives, SigkillAt
from tests.crash.test_publish_kill import HOST, Daemon, daemon

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.guarantee("WS-9", "WS-12")]

REMOVAL = UUID(int=77 << 100)


class Nothing:
    """Nothing refers to a checkpoint."""

    async def kept(self, host: UUID) -> Mapping[UUID, tuple[Blocker, str]]:
        """See :class:`~jamcore.continuity.retention.deletion.Keeping`."""
        return {}


@dataclass(frozen=True)
class Life:
    """One life of a daemon that removes payloads; its start has finished what was cut."""

    here: Daemon
    remover: PayloadRemover
    runner: Runner

    async def remove(self) -> RemovalIntent:
        """Remove two in the middle of five, or finish it."""
        rows = await self.here.store.read(lambda repos: repos.checkpoints.of_host(HOST))
        chosen = tuple(row.id for row in rows[1:3])
        if await self.here.store.read(lambda repos: repos.payload_deletions.of_removal(REMOVAL)):
            confirmed = (self.here.app / "confirmed").read_text()
        else:
            confirmed = (await self.remover.evidence(HOST, chosen)).content_digest()
            (self.here.app / "confirmed").write_text(confirmed)
        intent = RemovalIntent(id=REMOVAL, host_id=HOST, checkpoints=chosen, confirmed=confirmed)
        return await self.runner.run(self.remover.action, REMOVAL, intent)


@asynccontextmanager
async def life(app: Path, crash: CrashPoints) -> AsyncIterator[Life]:
    """Begin a life over what is on disk, with the start-up step of removals."""
    async with daemon(app, NoCrash()) as here:
        generations = Generations(app, Files())
        clock, ids = SystemClock(), SystemIds()
        broker = CheckpointBroker(generations, store=here.store, coordinators=Coordinators(), clock=clock, ids=ids, crash=NoCrash())
        remover = PayloadRemover(generations, broker=broker, store=here.store, keeping=Nothing(), clock=clock, ids=ids, crash=crash)
        journal = StoreJournal(here.store)
        runner = Runner(journal, crash)
        actions = ActionRegistry()
        actions.register(remover.action)
        assert await actions.replay(journal, runner) == ()
        yield Life(here, remover, runner)


async def live(app: Path, mode: str, point: str) -> None:
    """Be the process that is killed."""
    async with life(app, SigkillAt(point)) as now:
        if mode == "prepare":
            base = now.here.log.with_name("base.jsonl")
            for number in range(5):
                if number == 1:
                    base.write_bytes(os.urandom(200_000))
                await now.here.exchange(number)
                await now.here.capture()
        elif mode == "remove":
            await now.remove()


async def proven(app: Path) -> None:
    """The removal is over, exactly what is needed is on the disk, and the session resumes from the newest."""
    async with life(app, NoCrash()) as now:
        done = await now.remove()
        rows = await now.here.store.read(lambda repos: repos.checkpoints.of_host(HOST))
        deletions = await now.here.store.read(lambda repos: repos.payload_deletions.of_removal(REMOVAL))
        assert [deletion.stage for deletion in deletions] == [DeletionStage.SUCCEEDED] * 2
        assert done.freed == sum(deletion.freed_bytes or 0 for deletion in deletions) > 0
        look = Look(Generations(app, files=Files()))
        for row in (rows[0], *rows[3:]):
            look.verify(HOST, row.id, row)
        packs = app / layout.packs(HOST)
        assert {path.stem for path in packs.glob("*.pack")} == {str(row.id) for row in (rows[0], *rows[3:])}
        assert not [path.name for path in packs.iterdir() if path.suffix not in (".pack", ".shared")]
        expected = now.here.log.read_bytes()
        now.here.log.write_bytes(b"lost\n")
        assert await now.here.resume() is ResumeSource.GENERATION
        assert now.here.log.read_bytes() == expected


@pytest.mark.parametrize("point", REMOVAL_POINTS)
def test_killed_at_every_boundary_of_a_removal(tmp_path: Path, point: str, lives: Lives) -> None:
    """SIGKILL at the boundary, SIGKILL again in what the next start does about it; the third life has it done, exactly once."""
    assert lives.run(live, tmp_path, "prepare", "never") == 0
    assert lives.run(live, tmp_path, "remove", point) == -signal.SIGKILL
    assert lives.run(live, tmp_path, "start", point) in (0, -signal.SIGKILL)
    anyio.run(proven, tmp_path)
