"""What the model of continuity is driven with: ids in order, kills that leave the disk as it is then, and generations read back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from jamcore.continuity.generations.content import read_blocks
from jamcore.continuity.generations.looking import Look
from jamcore.continuity.generations.objects import Kind
from jamcore.continuity.generations.packs import BlockDamagedError
from jamcore.continuity.generations.publish import Generations
from jamcore.domain.continuity import CheckpointCorruptError
from jamcore.system.files import Files

if TYPE_CHECKING:
    from jamcore.domain.continuity import Checkpoint
    from tests.unit.continuity.conftest import World

Tree = dict[str, bytes]


class Killed(BaseException):
    """Ends an action at a boundary, as a kill would: nothing under test handles it."""


class KilledError(Exception):
    """What the test is told of it."""


class Ids:
    """Ids in the order of their making, the same in every run."""

    def __init__(self, host: int) -> None:
        self._next = 0x0189_0000_0000_7000_8000_0000_0000_0000 + (host << 40)

    def uuid(self) -> UUID:
        """See :class:`~jamcore.system.ids.IdSource`."""
        self._next += 1 << 80
        return UUID(int=self._next)

    def nonce(self) -> str:
        """See :class:`~jamcore.system.ids.IdSource`."""
        return "0" * 64


class CrashWith:
    """Kills at one boundary. What is on disk then is what a start finds, whatever an ending program would have tidied up."""

    def __init__(self, point: str, directory: Path) -> None:
        self._point = point
        self._directory = directory
        self._kept = directory.with_name("at-the-crash")
        self.passed = False

    def reach(self, point: str) -> None:
        """Keep what is on disk, and raise at the boundary."""
        if point == self._point and not self.passed:
            self.passed = True
            if self._directory.exists():
                shutil.copytree(self._directory, self._kept, symlinks=True)
            raise Killed(point)

    def apply(self) -> None:
        """Put what was kept in place."""
        if self.passed and self._kept.exists():
            shutil.rmtree(self._directory)
            self._kept.rename(self._directory)


def read_back(world: World, row: Checkpoint) -> Tree:
    """Return all files of a generation as a new process reads them.

    Raises:
        CheckpointCorruptError: Anything of it is missing or damaged.
    """
    generations = Generations(world.app, Files())
    look = Look(generations)
    look.verify(world.host.id, row.id, row)
    found: Tree = {}
    with generations.blocks(world.host.id).reader() as source:
        for path, entry in look.entries(world.host.id, row.id).items():
            if entry.kind is Kind.FILE:
                try:
                    found[path.decode().removeprefix("home/")] = b"".join(read_blocks(source, entry.content))
                except BlockDamagedError as error:
                    raise AssertionError("verified and not readable") from error
    return found


def is_readable(world: World, row: Checkpoint) -> bool:
    """Say whether a generation can be read back."""
    try:
        read_back(world, row)
    except CheckpointCorruptError:
        return False
    return True
