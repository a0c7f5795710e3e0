"""What the removal of a work tree would lose, and what stands against it (WS-16, OWN-9).

The records hold text that can be shown: what an agent named is escaped, and no two names become the same text (SEC-3).
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from jamcore.domain.errors import RefusalError
from jamcore.domain.records import Record


class RemovalReason(StrEnum):
    """Why a work tree is not removed without a person's word.

    UNCOMMITTED, UNTRACKED, STASHED, UNPUSHED and OUTSIDE are work that lies nowhere else, the last one in files of no repository.
    UNFINISHED: a merge or the like was begun. LOCKED: a lock file says that a program works there.
    UNREADABLE: something could not be looked at or understood. NOT_WHOLE: a bound was reached, so that there may be more.
    NO_TREE: nothing could be looked at. MOUNTED: something is mounted there, which lies elsewhere. IN_USE: a process works in the tree.
    USE_UNKNOWN: nobody could say whether one does.
    """

    UNCOMMITTED = "uncommitted"
    UNTRACKED = "untracked"
    STASHED = "stashed"
    UNPUSHED = "unpushed"
    UNFINISHED = "unfinished"
    LOCKED = "locked"
    OUTSIDE = "outside"
    UNREADABLE = "unreadable"
    NOT_WHOLE = "not-whole"
    NO_TREE = "no-tree"
    MOUNTED = "mounted"
    IN_USE = "in-use"
    USE_UNKNOWN = "use-unknown"


NEVER_FORCED = frozenset({RemovalReason.NO_TREE, RemovalReason.MOUNTED, RemovalReason.IN_USE, RemovalReason.USE_UNKNOWN})
"""Reasons that no word overrides: a person can end them, and what would be lost cannot be said while they last.

UNREADABLE and NOT_WHOLE can be overridden: an agent can make a tree that nobody reads whole, and must not make one that stays for ever. The
export before a removal keeps the bytes, whatever was understood of them.
"""


class RemovalBlocker(Record):
    """One thing that stands against a removal. ``path`` is the repository, file or directory, relative to the tree; ``.`` is the tree."""

    reason: RemovalReason
    path: str
    detail: str

    @property
    def may_be_forced(self) -> bool:
        """Whether a person's word overrides it."""
        return self.reason not in NEVER_FORCED


class RemovalOverride(Record):
    """A person's word on the blockers of one reason and one path."""

    reason: RemovalReason
    path: str


class Listing(Record):
    """How many there are, and the first of them by name or age."""

    count: int = 0
    first: tuple[str, ...] = ()


class RepositoryForm(StrEnum):
    """What a repository is to its tree; a BARE one has no files beside its history."""

    CHECKOUT = "checkout"
    WORKTREE = "worktree"
    SUBMODULE = "submodule"
    BARE = "bare"


class RepositoryState(Record):
    """One repository, or one linked worktree, which shares the history of the repository that it belongs to.

    Attributes:
        path: Its directory, relative to the tree.
        form: What it is.
        branch: The branch that HEAD names, without ``refs/heads/``; ``None`` when detached.
        head: The commit of HEAD; ``None``: none yet.
        staged: Paths whose index differs from HEAD.
        unstaged: Paths whose file differs from the index; a submodule at another commit is one.
        untracked: Files that git does not know and no rule ignores.
        ignored: Files that a rule ignores, such as what a build made. They are counted and stand against nothing.
        stashes: Subjects of the stash, newest first.
        unpushed: Commits of branches and detached heads that no remote-tracking reference has, newest first.
        tagged: Commits that only a tag holds. They are often a remote's own, so they stand against nothing.
        forgotten: Commits that only the log of HEAD still names, such as those that were amended. They stand against nothing.
        without_upstream: Branches that follow none.
        unfinished: Operations that were begun, such as ``merge``.
        locks: Lock files, of git or of a program that works in the tree.
        worktrees: Names of linked worktrees.
        problems: What could not be looked at or understood; the counts are then lower bounds.
        more: A count stopped at its bound.
    """

    path: str
    form: RepositoryForm
    branch: str | None = None
    head: str | None = None
    staged: Listing = Listing()
    unstaged: Listing = Listing()
    untracked: Listing = Listing()
    ignored: int = 0
    stashes: Listing = Listing()
    unpushed: Listing = Listing()
    tagged: int = 0
    forgotten: int = 0
    without_upstream: Listing = Listing()
    unfinished: tuple[str, ...] = ()
    locks: Listing = Listing()
    worktrees: Listing = Listing()
    problems: tuple[str, ...] = ()
    more: bool = False


class OutsideFiles(Record):
    """Files that belong to no repository; ``newest`` is when one of them was last written. ``locks`` are counted among them."""

    files: Listing = Listing()
    bytes: int = 0
    newest: datetime | None = None
    locks: Listing = Listing()


class TreeProcess(Record):
    """A process of the sandbox whose working directory or an open file lies in the tree; ``path`` says which, relative to it."""

    pid: int
    program: str
    path: str


class RemovalLosses(Record):
    """Sums over the whole tree. All of it would be gone, whether or not it stands against the removal.

    ``files`` counts names, without git's own; ``bytes`` are theirs, those of a file with several names once.
    """

    uncommitted: int
    untracked: int
    ignored: int
    stashes: int
    unpushed: int
    tagged: int
    forgotten: int
    outside: int
    files: int
    bytes: int


class RemovalInspection(Record):
    """What one look at a work tree found. Equal trees give equal inspections, so that a digest confirms fresh evidence.

    Attributes:
        repositories: Every repository and linked worktree, by path.
        outside: Files of no repository.
        processes: Who works in the tree.
        losses: Sums.
        blockers: What stands against a removal; empty when nothing would be lost that lies nowhere else.
        bounds: Which bounds were reached, each of them a blocker too.
        state: Digest of everything that was seen, sizes and times included, so that a change that alters no count shows too.
    """

    repositories: tuple[RepositoryState, ...] = ()
    outside: OutsideFiles = OutsideFiles()
    processes: tuple[TreeProcess, ...] = ()
    losses: RemovalLosses
    blockers: tuple[RemovalBlocker, ...] = ()
    bounds: tuple[str, ...] = ()
    state: str = ""

    @property
    def digest(self) -> str:
        """What a person's confirmation is bound to."""
        return self.content_digest()

    def require_meant(self, force: tuple[RemovalOverride, ...]) -> None:
        """Require that each override names something that was found.

        Raises:
            NothingToOverrideError: One names nothing.
        """
        found = tuple(dict.fromkeys(f"{each.reason}:{each.path}" for each in self.blockers))
        if useless := tuple(word for each in force if (word := f"{each.reason}:{each.path}") not in found):
            raise NothingToOverrideError(named=useless, found=found)

    def standing(self, force: tuple[RemovalOverride, ...] = ()) -> tuple[RemovalBlocker, ...]:
        """Return the blockers that stay when ``force`` is given; it reaches no other reason and no other path than it names."""
        named = {(word.reason, word.path) for word in force}
        return tuple(b for b in self.blockers if not b.may_be_forced or (b.reason, b.path) not in named)


@dataclass(eq=False)
class RemovalBlockedError(RefusalError):
    """Work would be lost, or what would be lost cannot be said; nothing was removed (WS-16)."""

    code: ClassVar[str] = "workspace.removal_blocked"
    hint: ClassVar[str] = "Commit and push the work or end what works there; or override each blocker by its reason and path."

    blockers: tuple[str, ...]


@dataclass(eq=False)
class NothingToOverrideError(RefusalError):
    """An override names what was not found, so that nobody's word is on anything; nothing was removed (WS-16)."""

    code: ClassVar[str] = "workspace.nothing_to_override"
    hint: ClassVar[str] = "Name what was found, as REASON:PATH, or leave the override out."

    named: tuple[str, ...]
    found: tuple[str, ...]


@dataclass(eq=False)
class RemovalEvidenceChangedError(RefusalError):
    """The work tree is not what was confirmed; nothing was removed (WS-10)."""

    code: ClassVar[str] = "workspace.removal_evidence_changed"
    hint: ClassVar[str] = "Look again at what would be lost, and confirm that."

    confirmed: str
    found: str


def require_removable(found: RemovalInspection, *, confirmed: str, force: tuple[RemovalOverride, ...] = ()) -> None:
    """Refuse a removal that was confirmed for another state, or that something stands against.

    Args:
        found: A look at the tree that was made for this removal.
        confirmed: The digest of the inspection that a person saw.
        force: What the person overrides.

    Raises:
        RemovalEvidenceChangedError: The tree changed since.
        RemovalBlockedError: Blockers stay.
    """
    if not hmac.compare_digest(found.digest.encode(), confirmed.encode()):
        raise RemovalEvidenceChangedError(confirmed=confirmed, found=found.digest)
    if standing := found.standing(force):
        raise RemovalBlockedError(blockers=tuple(f"{b.reason} {b.path}: {b.detail}" for b in standing))
