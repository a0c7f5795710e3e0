"""Lives on a disk that becomes full or read-only in the middle of an action, or in which no file can be opened any more: all of it real."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path

from jamcore.daemon.logs import logging_to
from jamcore.testing.crash import At
from jamcore.testing.matrix.faulty_lives import ANSWERED, answered, note_known, require_answers
from jamcore.testing.matrix.lives import plugged
from jamcore.testing.matrix.scenarios import SCENARIOS
from jamcore.testing.parked_world import World, living
from jamcore.testing.small_disk import ImageDisk

LOG = "daemon.log"


class Trouble(StrEnum):
    """What happens to the machine."""

    FULL = "full"
    READ_ONLY = "read-only"
    """Until the disk is mounted anew, so until the next life."""
    DESCRIPTORS = "descriptors"
    """No further file can be opened."""


async def troubled(root: Path, kind: str, trouble: Trouble, point: str, left: int) -> None:
    """Ask for an action that the trouble meets at a boundary, live on, and ask again once it is over.

    Args:
        root: The world's, which a small disk is mounted at.
        kind: The action.
        trouble: Which.
        point: The boundary.
        left: How many bytes are still free, or how many files can still be opened.
    """
    world, scenario = World(root), SCENARIOS[kind]
    note_known(world)
    begin, end = _means(ImageDisk(root, root / "unused"), trouble, left)
    begun: list[str] = []

    def begin_once() -> None:
        begun.append(point)
        begin()

    with plugged(root), logging_to(root.with_name(LOG), "info"):
        async with living(world, crash=At(point, begin_once)) as services:
            said = await answered(lambda: scenario.ask(services, world))
            assert begun, "the boundary was not passed"
            if trouble is not Trouble.DESCRIPTORS:  # which are this test's too
                await require_answers(services)
                scenario.holds(world)
            if end is not None:
                end()
                await require_answers(services)
                await answered(lambda: scenario.ask(services, world))
                scenario.holds(world)
    root.with_name(ANSWERED).write_text(said)


def _means(disk: ImageDisk, trouble: Trouble, left: int) -> tuple[Callable[[], None], Callable[[], None] | None]:
    """Return what begins a trouble, and what ends it in the same life."""
    if trouble is Trouble.FULL:
        return partial(disk.fill, left), disk.free
    if trouble is Trouble.READ_ONLY:
        return disk.fail, None
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    return partial(_limit, left, usual[1]), partial(resource.setrlimit, resource.RLIMIT_NOFILE, usual)


def _limit(more: int, hard: int) -> None:
    """Let so many more files be opened, whatever gaps there are among the open ones."""
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + more, hard))


@contextmanager
def mounted(disk: ImageDisk) -> Iterator[ImageDisk]:
    """Have a disk for as long as the block takes."""
    disk.make()
    try:
        yield disk
    finally:
        disk.unmount()
