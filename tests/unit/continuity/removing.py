"""Removals of payload in a world of continuity, composed as a daemon composes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from jamcore.continuity.generations.blocks import PackName, shared_packs
from jamcore.continuity.generations.publish import Generations
from jamcore.continuity.generations.verify import verify
from jamcore.continuity.retention.deletion import PayloadRemover, RemovalIntent
from jamcore.continuity.retention.survey import read_pack
from jamcore.domain.continuity import Checkpoint
from jamcore.domain.errors import JamError
from jamcore.domain.retention import Blocker, PayloadDeletion, RemovalEvidence
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner
from jamcore.store import StoreJournal
from jamcore.system.files import Files

if TYPE_CHECKING:
    from tests.unit.continuity.conftest import World


@dataclass
class Kept:
    """What a test says something refers to."""

    found: dict[UUID, tuple[Blocker, str]] = field(default_factory=dict)

    async def kept(self, host: UUID) -> Mapping[UUID, tuple[Blocker, str]]:
        """See :class:`~jamcore.continuity.retention.deletion.Keeping`."""
        return self.found


class Removals:
    """Removals over a world as it is composed now; made anew after a restart of the world."""

    def __init__(self, world: World, kept: Kept | None = None) -> None:
        self.world = world
        self.kept = kept or Kept()
        self.remover = PayloadRemover(
            world.generations,
            broker=world.broker,
            store=world.store,
            keeping=self.kept,
            clock=world.clock,
            ids=world.ids,
            crash=world.crash,
        )
        self.journal = StoreJournal(world.store)  # type: ignore[arg-type]
        self.runner = Runner(self.journal, world.crash)

    async def plan(self, *checkpoints: Checkpoint) -> RemovalEvidence:
        """Look at what a removal would do."""
        return await self.remover.evidence(self.world.host.id, [row.id for row in checkpoints])

    def intent(self, evidence: RemovalEvidence) -> RemovalIntent:
        """Return a new removal that confirms what was looked at."""
        return RemovalIntent(
            id=self.world.ids.uuid(),
            host_id=self.world.host.id,
            checkpoints=tuple(sorted(item.checkpoint_id for item in evidence.items)),
            confirmed=evidence.content_digest(),
        )

    async def run(self, intent: RemovalIntent) -> RemovalIntent:
        """Run, or finish, a removal."""
        return await self.runner.run(self.remover.action, intent.id, intent)

    async def remove(self, *checkpoints: Checkpoint) -> RemovalIntent:
        """Look, confirm, remove."""
        return await self.run(self.intent(await self.plan(*checkpoints)))

    async def replay(self) -> tuple[tuple[UUID, JamError], ...]:
        """Do what a start does."""
        actions = ActionRegistry()
        actions.register(self.remover.action)
        return await actions.replay(self.journal, self.runner)

    @property
    def rows(self) -> dict[UUID, PayloadDeletion]:
        """The rows of the host."""
        found = self.world.store.now(lambda repos: repos.payload_deletions.of_host(self.world.host.id))
        return {row.checkpoint_id: row for row in found}


def bytes_on_disk(world: World) -> int:
    """Return the size of everything in the directory of packs."""
    return sum(path.stat().st_size for path in (world.recovery / "packs").iterdir())


def stored_units(world: World) -> list[bytes]:
    """Return the digest of every unit in every pack, as often as it is stored."""
    directory = world.recovery / "packs"
    names = {PackName(UUID(path.stem)) for path in directory.glob("*.pack")} | shared_packs(directory)
    packs = [pack for name in sorted(names) if (pack := read_pack(directory, name)) is not None]
    assert sum(pack.size for pack in packs) == bytes_on_disk(world), "nothing else lies beside the packs"
    return [entry.digest for pack in packs for entry in pack.entries]


def require_sound(world: World, checkpoints: Iterable[Checkpoint]) -> None:
    """Read generations whole, as a new process does."""
    generations = Generations(world.app, Files())
    for row in checkpoints:
        generation = generations.read(world.host.id, row.id)
        assert generation is not None
        with generations.blocks(world.host.id).reader() as source:
            verify(source, generation)


def names(directory: Path) -> set[str]:
    """Return the names in a directory."""
    return {path.name for path in directory.iterdir()}
