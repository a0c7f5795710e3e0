"""Puts a patch on a branch of a person's repository, with its object store and that one reference as the only things it writes (SEC-2).

No work tree and no index of the person's is touched: the commit is made in an index of Jam's own, and the branch moves by one
compare-and-swap. Nothing that the repository's configuration names is executed.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from jamcore.domain.errors import RefusalError
from jamcore.system.git import run_git
from jamcore.system.process import Finished
from jamcore.workspace.repository import UnreadableRepositoryError

ABSENT = ""
"""How git is told that a reference must not exist yet, whatever its hashes are."""
NOBODY = "Jam <jam@localhost>"
"""Who is named as the author when neither the request nor the repository names anybody."""
_AUTHOR = re.compile(r"(?P<name>[^<>\x00-\x1f\x7f]{1,150}) <(?P<mail>[^<>\s\x00-\x1f\x7f]{1,150})>")
_MISLEADING = re.compile(r"-|HEAD\Z|refs/")
"""Possible as the name of a reference, and then git takes it for an option, for the checkout's own HEAD or for another reference."""
_SHOWN = 300


@dataclass(eq=False)
class BranchNameError(RefusalError):
    """Git does not take this as the name of a branch."""

    code: ClassVar[str] = "branch.bad_name"
    hint: ClassVar[str] = "Use a plain name such as `fix/parser`."

    branch: str


@dataclass(eq=False)
class BranchCheckedOutError(RefusalError):
    """The branch is checked out somewhere: moving it would leave those files behind it."""

    code: ClassVar[str] = "branch.checked_out"
    hint: ClassVar[str] = "Accept without `--branch`, then run `git merge` with the new branch's name in that checkout."

    branch: str
    checkout: str


@dataclass(eq=False)
class BranchMovedError(RefusalError):
    """The branch has gone on since the session began, so the reviewed change would land on other files than it was made for."""

    code: ClassVar[str] = "branch.moved"
    hint: ClassVar[str] = "Look at what is new there; `--allow-moved` puts the change on top of it if the patch fits as it is."

    branch: str
    reviewed: str
    now: str
    new_commits: str


@dataclass(eq=False)
class BranchBlockedError(RefusalError):
    """Git does not make or move this branch; its words are in the context, and nothing was changed."""

    code: ClassVar[str] = "branch.blocked"
    hint: ClassVar[str] = (
        "Choose another name with `--branch` (git keeps no branch `a` beside `a/b`), or wait for the git command that git names."
    )

    branch: str
    detail: str


@dataclass(eq=False)
class BaseMissingError(RefusalError):
    """The repository does not hold the commit that the session began with."""

    code: ClassVar[str] = "branch.base_missing"
    hint: ClassVar[str] = "Name the repository that the session was started from with `--repo`."

    repository: str
    commit: str


@dataclass(eq=False)
class PatchDoesNotApplyError(RefusalError):
    """The reviewed patch does not fit these files; nothing was changed."""

    code: ClassVar[str] = "change.does_not_apply"
    hint: ClassVar[str] = "Accept it onto a new branch (leave `--branch` out) and merge that by hand."

    branch: str
    detail: str


@dataclass(eq=False)
class AuthorInvalidError(RefusalError):
    """The author is not of the form that git takes."""

    code: ClassVar[str] = "input.author"
    hint: ClassVar[str] = "Write it as `Name <address>`."

    author: str


@dataclass(frozen=True, slots=True)
class Target:
    """Where a change goes: the branch's value now (``ABSENT``: new), the commit it lands on, and whether that is not the reviewed one."""

    old: str
    parent: str
    moved: bool


class Branches:
    """The branches of one repository; ``scratch`` is a private directory for an index that lives as long as one call."""

    def __init__(self, repository: Path, *, scratch: Path) -> None:
        self._root = repository
        self._scratch = scratch

    async def target(self, branch: str, base: str | None, *, allow_moved: bool) -> Target:
        """Look at a branch: read-only.

        Args:
            branch: Its name without ``refs/heads/``.
            base: The commit that the change was made on; ``None`` when it was made on no commit.
            allow_moved: Whether another commit than ``base`` is fine.

        Raises:
            BranchNameError, BranchCheckedOutError, BranchMovedError, BaseMissingError: It cannot be used.
        """
        if _MISLEADING.match(branch) or not branch.isprintable():  # invisible characters, too: a name must be what it looks like
            raise BranchNameError(branch=branch)
        if not (await self._git("check-ref-format", f"refs/heads/{branch}")).ok:
            raise BranchNameError(branch=branch)
        if base is not None and not (await self._git("cat-file", "-e", f"{base}^{{commit}}")).ok:
            raise BaseMissingError(repository=str(self._root), commit=base)
        if checkout := await self._checkout(branch):
            raise BranchCheckedOutError(branch=branch, checkout=checkout)
        tip = await self.tip(branch)
        if tip is None:
            return Target(ABSENT, base or await self._head(), moved=False)
        moved = base is not None and tip != base
        if moved and not allow_moved:
            raise BranchMovedError(branch=branch, reviewed=base or "", now=tip, new_commits=await self._between(base or "", tip))
        return Target(tip, tip, moved=moved)

    async def tip(self, branch: str) -> str | None:
        """Return the commit that a branch names, or ``None``."""
        done = await self._git("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}")
        return done.stdout.decode().strip() if done.ok else None

    async def author(self) -> str:
        """Return whom the repository's own configuration names, or :data:`NOBODY`."""
        name, mail = [
            (await self._git("config", "--get", f"user.{key}")).stdout.decode("utf-8", "replace").strip()
            for key in ("name", "email")
        ]
        text = f"{name} <{mail}>"
        return text if _AUTHOR.fullmatch(text) else NOBODY

    async def commit(
        self, target: Target, patch: bytes, *, branch: str, message: str, author: str, at: datetime
    ) -> tuple[str, str]:
        """Make the commit and return (commit, tree). It has no name yet; the same arguments make the same commit.

        Raises:
            PatchDoesNotApplyError: The patch does not fit the parent.
            UnreadableRepositoryError: The repository cannot be written: a full disk, or rights.
        """
        who = person(author)
        moment = f"{int(at.timestamp())} +0000"
        environment = {
            **{f"GIT_{role}_NAME": who[0] for role in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{role}_EMAIL": who[1] for role in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{role}_DATE": moment for role in ("AUTHOR", "COMMITTER")},
        }
        with tempfile.TemporaryDirectory(dir=self._scratch, prefix="index-") as directory:
            index = {"GIT_INDEX_FILE": f"{directory}/index"}
            await self._need("read", "read-tree", target.parent, environment=index)
            apply = ("apply", "--cached", "--binary", "--whitespace=nowarn")
            done = await self._git(*apply, "-", environment=index, stdin=patch)
            if not done.ok:
                # Git's code does not say whether the patch is the trouble or the disk: only a check, which writes nothing, does.
                if (await self._git(*apply, "--check", "-", environment=index, stdin=patch)).ok:
                    raise self._unreadable("apply", done)
                raise PatchDoesNotApplyError(branch=branch, detail=_words(done))
            tree = await self._need("write", "write-tree", environment=index)
            words = message.encode("utf-8", "replace")
            return await self._need("commit", "commit-tree", tree, "-p", target.parent, environment=environment, stdin=words), tree

    async def tree_of(self, commit: str) -> str:
        """Return a commit's tree."""
        return await self._need("tree", "rev-parse", "--verify", f"{commit}^{{tree}}")

    async def point(self, branch: str, commit: str, *, old: str, author: str, why: str) -> None:
        """Move or make the branch, if it still is as it was.

        Raises:
            BranchMovedError: Somebody was faster.
            BranchBlockedError: Git refused.
            UnreadableRepositoryError: Git took too long, so that nobody knows.
        """
        name, mail = person(author)
        environment = {"GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": mail}
        done = await self._git(
            "update-ref", "--create-reflog", "-m", why, f"refs/heads/{branch}", commit, old, environment=environment
        )
        if done.ok:
            return
        now = await self.tip(branch)
        if (now or ABSENT) != old:
            raise BranchMovedError(branch=branch, reviewed=old, now=now or "gone", new_commits="")
        if done.timed_out:
            raise self._unreadable("branch", done)
        raise BranchBlockedError(branch=branch, detail=_words(done))

    async def _checkout(self, branch: str) -> str | None:
        """Return where a branch is checked out: in the primary checkout or in a linked worktree."""
        listed = await self._need("worktrees", "worktree", "list", "--porcelain", "-z")
        place = ""
        for line in listed.split("\0"):
            if line.startswith("worktree "):
                place = line.removeprefix("worktree ")
            elif line == f"branch refs/heads/{branch}":
                return place
        return None

    async def _head(self) -> str:
        return await self._need("head", "rev-parse", "--verify", "HEAD^{commit}")

    async def _between(self, base: str, tip: str) -> str:
        done = await self._git("rev-list", "--count", f"{base}..{tip}")
        return done.stdout.decode().strip() if done.ok else "unknown"

    async def _need(self, question: str, *argv: str, environment: dict[str, str] | None = None, stdin: bytes = b"") -> str:
        done = await self._git(*argv, environment=environment, stdin=stdin)
        if not done.ok:
            raise self._unreadable(question, done)
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    async def _git(self, *argv: str, environment: dict[str, str] | None = None, stdin: bytes = b"") -> Finished:
        return await run_git(
            *argv,
            cwd=self._root,
            # Whoever runs Jam named it; nothing in it is executed, so that its owner does not matter.
            settings=("safe.directory=*",),
            environment={"GIT_NO_LAZY_FETCH": "1"} | (environment or {}),
            stdin=stdin,
        )

    def _unreadable(self, question: str, done: Finished) -> UnreadableRepositoryError:
        return UnreadableRepositoryError(path=str(self._root), question=question, detail=_words(done))


def person(author: str) -> tuple[str, str]:
    """Split ``Name <address>``.

    Raises:
        AuthorInvalidError: It has another form.
    """
    found = _AUTHOR.fullmatch(author.strip())
    if found is None:
        raise AuthorInvalidError(author=author)
    return found["name"], found["mail"]


def _words(done: Finished) -> str:
    return "took too long" if done.timed_out else done.stderr.decode(errors="replace").strip()[-_SHOWN:]
