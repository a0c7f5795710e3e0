"""Work that lies in a private clone alone: what would be lost with it (OWN-9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jamcore.domain.errors import RefusalError
from jamcore.domain.records import Record

SHOWN = 5
"""How many paths and commits a report names; the counts have the rest."""


class CloneWork(Record):
    """What a private clone holds that the commit it was made from does not, as seen at one moment.

    Attributes:
        commit: What the clone was made from.
        uncommitted: Paths that are changed, staged or untracked; ignored ones are not counted.
        paths: The first of them, as text that can be shown.
        commits: Commits of any reference, the stash, a detached HEAD or a linked worktree that ``commit`` does not hold.
        first_commits: The newest of them.
        operations: What was begun and not finished, such as a rebase.
        unknown: What could not be looked at. It counts as work: what cannot be said is not nothing.
        more: A count stopped at its bound and is a lower one.
        state: Digest of everything that was seen, sizes and times included, so that a change that alters no count shows too.
    """

    commit: str
    uncommitted: int = 0
    paths: tuple[str, ...] = ()
    commits: int = 0
    first_commits: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    more: bool = False
    state: str = ""

    def blockers(self) -> tuple[str, ...]:
        """Say what would be lost, a line each; empty when the clone holds nothing of its own."""
        bound = "at least " if self.more else ""
        lines = []
        if self.uncommitted:
            lines.append(f"{bound}{self.uncommitted} uncommitted: {_named(self.paths, self.uncommitted)}")
        if self.commits:
            lines.append(f"{bound}{self.commits} commits: {_named(self.first_commits, self.commits)}")
        lines += [f"unfinished: {name}" for name in self.operations]
        lines += [f"unknown: {problem}" for problem in self.unknown]
        return tuple(lines)


@dataclass(eq=False)
class WorkWouldBeLostError(RefusalError):
    """The sandbox's private clone goes with it and holds work of its own, or what it holds cannot be said; nothing was removed (OWN-9)."""

    code: ClassVar[str] = "workspace.work_would_be_lost"
    hint: ClassVar[str] = (
        "Commit and push the work, or take it out with `jam change`; `jam host override NAME --discard-work` removes it all the same."
    )

    sandbox: str
    lost: tuple[str, ...]


def _named(names: tuple[str, ...], count: int) -> str:
    rest = count - len(names)
    return ", ".join(names) + (f" and {rest} more" if rest > 0 else "")
