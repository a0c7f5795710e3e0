"""A session's work tree, and somebody who looks at what its removal would lose."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import anyio

from jamcore.domain.errors import JamError
from jamcore.domain.removal import RemovalInspection, RemovalReason, RepositoryState
from jamcore.system.clock import SystemClock
from jamcore.workspace.inspection.inspect import Inspector, TreeUser
from jamcore.workspace.inspection.survey import InspectionBounds

Git = Callable[..., bytes]
GUEST = "/jam/work/session"
LATER = datetime(2999, 1, 1, tzinfo=UTC)


@dataclass
class Users:
    """Answers what it is told to."""

    answer: tuple[TreeUser, ...] = ()
    silent: bool = False
    error: JamError | OSError | None = None

    async def users(self, tree: Path) -> tuple[TreeUser, ...]:
        """See :class:`~jamcore.workspace.inspection.inspect.TreeUsers`."""
        if self.silent:
            await anyio.sleep_forever()
        if self.error is not None:
            raise self.error
        return self.answer


@dataclass
class Clock(SystemClock):
    """The machine's, unless told otherwise."""

    time: datetime | None = None

    def now(self) -> datetime:
        """See :class:`~jamcore.system.clock.Clock`."""
        return self.time or super().now()


@dataclass
class Workspace:
    """A work tree as its guest and the host see it. Nothing may be left in ``scratch``."""

    path: Path
    scratch: Path
    users: Users = field(default_factory=Users)
    clock: Clock = field(default_factory=Clock)

    async def look(self, bounds: InspectionBounds | None = None, *, kept: tuple[str, ...] = ()) -> RemovalInspection:
        """Look at it."""
        inspector = Inspector(users=self.users, clock=self.clock, scratch=self.scratch, bounds=bounds)
        found = await inspector.inspect(self.path, guest_path=GUEST, kept=kept)
        assert list(self.scratch.iterdir()) == []
        assert RemovalInspection.model_validate_json(found.model_dump_json()) == found
        return found

    def age(self) -> None:
        """Make every file old enough that nothing passes for a lock."""
        self.clock.time = LATER


def blocked(found: RemovalInspection) -> set[tuple[RemovalReason, str]]:
    """Return the blockers' reasons and paths."""
    return {(blocker.reason, blocker.path) for blocker in found.blockers}


def at(found: RemovalInspection, path: str) -> RepositoryState:
    """Return the state of the one repository at a path."""
    (state,) = (state for state in found.repositories if state.path == path)
    return state


def commit_on(git: Git, path: Path, name: str) -> str:
    """Commit a new file and return the commit."""
    (path / name).write_text(name)
    git(path, "add", name)
    git(path, "commit", "-q", "-m", f"made {name}")
    return git(path, "rev-parse", "HEAD").decode().strip()


def times(path: Path) -> dict[Path, tuple[int, int]]:
    """Return the times and sizes of everything below, to see that a look changes nothing."""
    return {found: (found.lstat().st_mtime_ns, found.lstat().st_size) for found in path.rglob("*") if not os.path.ismount(found)}
