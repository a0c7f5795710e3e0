"""Says what the removal of a work tree would lose, and what stands against it (WS-16).

Read-only, bounded in time, and nothing of the tree is executed. What cannot be looked at is a blocker, never nothing.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import anyio
from anyio import from_thread, to_thread

from jamcore.domain.errors import JamError
from jamcore.domain.limits import INSPECTION_SHOWN, READ_TIMEOUT_S
from jamcore.domain.removal import RemovalBlocker, RemovalInspection, RemovalReason, RepositoryForm, RepositoryState
from jamcore.system.clock import Clock
from jamcore.system.files import storage_error
from jamcore.system.usage import mounts_below
from jamcore.workspace.inspection.findings import Findings, conclude
from jamcore.workspace.inspection.pairing import pair
from jamcore.workspace.inspection.repository import RepositoryLook, Surroundings
from jamcore.workspace.inspection.shown import shown_place
from jamcore.workspace.inspection.survey import OF_THE_MACHINE, InspectionBounds, Survey, survey

AT_ONCE = 2
"""Repositories that git is asked about at the same time: the disk is the bound, and the machine has other work."""


@dataclass(frozen=True, slots=True)
class TreeUser:
    """A process of the sandbox; ``path`` is what it has open in the tree, or its working directory, relative to the tree."""

    pid: int
    program: bytes
    path: bytes


class TreeUsers(Protocol):
    """Knows which processes of a sandbox work in its tree.

    What the host sees counts, never what the guest says about itself: that nobody works there is a reason to remove the tree.
    """

    async def users(self, tree: Path) -> tuple[TreeUser, ...]:
        """Return the processes whose working directory or an open file lies in the tree; none when the sandbox is stopped.

        Raises:
            JamError: It cannot be said; an empty answer would mean that there are none.
        """


class Inspector:
    """Looks at work trees.

    Args:
        users: Knows who works in them.
        clock: For the age of lock files.
        scratch: A private directory, which exists; nothing is left in it.
        bounds: How far a look goes.
    """

    def __init__(self, *, users: TreeUsers, clock: Clock, scratch: Path, bounds: InspectionBounds | None = None) -> None:
        self._users = users
        self._clock = clock
        self._scratch = scratch
        self._bounds = bounds or InspectionBounds()

    async def inspect(self, tree: Path, *, guest_path: str, kept: tuple[str, ...] = ()) -> RemovalInspection:
        """Look at a tree. What stops it in the tree is a blocker.

        Args:
            tree: Its directory on the host.
            guest_path: Where its guest sees it: linked worktrees and submodules are recorded by that path.
            kept: Commits that are known to lie elsewhere, such as the one that a private clone was made from.

        Raises:
            StorageFullError, StorageFailedError: The machine has no room or no descriptor for the look, which says nothing of the tree.
        """
        found = Findings(now=self._clock.now())
        stopped, failed = "", None
        try:
            with anyio.move_on_after(self._bounds.seconds) as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._ask_users, tree, found)
                    await self._look(tree, guest_path, kept, found)
            if scope.cancelled_caught:
                stopped = f"it could not be looked at within {self._bounds.seconds:g} seconds"
        except* OSError as errors:
            first = _first(errors)
            stopped, failed = f"it could not be looked at: {first.strerror or 'the machine failed'}", first
        if failed is not None and failed.errno in OF_THE_MACHINE:
            raise storage_error(failed) from failed
        # How far a stopped one got differs each time: said, that would be evidence that nobody can confirm.
        return conclude(found.only_users(stopped) if stopped else found)

    async def _ask_users(self, tree: Path, found: Findings) -> None:
        try:
            with anyio.fail_after(READ_TIMEOUT_S):
                found.users = await self._users.users(tree)
            found.users_unknown = ""
        except TimeoutError:
            found.users_unknown = f"no answer within {READ_TIMEOUT_S:g} seconds"
        except (JamError, OSError) as error:
            found.users_unknown = error.code if isinstance(error, JamError) else "it cannot be read"

    async def _look(self, tree: Path, guest_path: str, kept: tuple[str, ...], found: Findings) -> None:
        try:
            root = await to_thread.run_sync(_resolved, tree)
            found.blockers += await to_thread.run_sync(_mounted, root)
            seen = await to_thread.run_sync(self._survey, root, abandon_on_cancel=True)
        except OSError as error:
            if error.errno in OF_THE_MACHINE:
                raise
            found.blockers.append(
                RemovalBlocker(reason=RemovalReason.NO_TREE, path=".", detail=error.strerror or "not a directory")
            )
            return
        found.survey = seen
        roots = tuple(dict.fromkeys((os.fsencode(guest_path), os.fsencode(tree), os.fsencode(root))))
        with tempfile.TemporaryDirectory(dir=self._scratch, prefix="removal-") as scratch:
            await self._repositories(root, roots, kept, found, Path(scratch))

    def _survey(self, root: Path) -> Survey:
        return survey(root, bounds=self._bounds, alive=from_thread.check_cancelled)

    async def _repositories(
        self, root: Path, roots: tuple[bytes, ...], kept: tuple[str, ...], found: Findings, scratch: Path
    ) -> None:
        repositories, strays = pair(found.survey, roots)
        found.repositories += [_stray(tree.path, tuple(tree.problems)) for tree in strays]
        looks = []
        heads: dict[bytes, bytes | None] = {}
        for number, repository in enumerate(repositories):
            (scratch / str(number)).mkdir()
            looks.append(RepositoryLook(repository, found.survey.locks[repository.store], scratch / str(number)))
            heads |= await looks[-1].heads(root)
        around = Surroundings(root=root, roots=roots, kept=kept, now=found.now, heads=heads)
        limiter = anyio.CapacityLimiter(AT_ONCE)

        async def one(look: RepositoryLook) -> None:
            async with limiter:
                found.repositories += await look.look(around)

        async with anyio.create_task_group() as tasks:
            for look in looks:
                tasks.start_soon(one, look)
        found.state = hashlib.sha256(b"".join(look.state for look in looks)).hexdigest()


def _stray(path: bytes, problems: tuple[str, ...]) -> RepositoryState:
    return RepositoryState(path=shown_place(path), form=RepositoryForm.WORKTREE, problems=problems)


def _first(errors: BaseExceptionGroup[OSError]) -> OSError:
    """Return the first of them."""
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def _mounted(root: Path) -> list[RemovalBlocker]:
    """Return what is mounted in the tree: a walk does not see a directory that is bound there from the same file system."""
    places = [shown_place(os.path.relpath(os.fsencode(place), os.fsencode(root))) for place in mounts_below(root)]
    more = len(places) - INSPECTION_SHOWN
    words = f"something is mounted there, and at {more} more places" if more > 0 else "something is mounted there"
    return [RemovalBlocker(reason=RemovalReason.MOUNTED, path=place, detail=words) for place in places[:INSPECTION_SHOWN]]


def _resolved(tree: Path) -> Path:
    return tree.resolve(strict=True)
