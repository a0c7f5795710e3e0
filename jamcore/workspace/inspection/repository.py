"""Looks at one repository of the tree and at its checkouts."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from anyio import to_thread

from jamcore.domain.limits import INSPECTION_COMMITS, INSPECTION_LOCK_BYTES, INSPECTION_LOCK_S
from jamcore.domain.removal import Listing, RepositoryForm, RepositoryState
from jamcore.workspace.git_files import Checkout, UnclearError
from jamcore.workspace.inspection.checkout import Changes, CheckoutLook
from jamcore.workspace.inspection.contents import Contents, read_store
from jamcore.workspace.inspection.history import HEADS, History, without_upstream
from jamcore.workspace.inspection.own_git import OwnGit, UnansweredError, make_own_git, parse_config
from jamcore.workspace.inspection.pairing import Repository, inside
from jamcore.workspace.inspection.shown import listing, shown, shown_place
from jamcore.workspace.inspection.survey import SeenFile, Tree

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the look at each repository needs to know.

    Attributes:
        root: The tree, resolved.
        roots: Its paths, as a guest and as the host has it.
        kept: Commits that are known to lie elsewhere.
        now: The time of the look.
        heads: Commits of all checkouts, by path relative to the tree.
    """

    root: Path
    roots: tuple[bytes, ...]
    kept: tuple[str, ...]
    now: datetime
    heads: Mapping[bytes, bytes | None]


class RepositoryLook:
    """One look. ``state`` is a digest of the references and indexes that it looked at."""

    def __init__(self, repository: Repository, locks: list[bytes], scratch: Path) -> None:
        self._repository = repository
        self._locks = sorted(locks)
        self._scratch = scratch
        self._problems: list[str] = []
        self.state = b""

    async def heads(self, root: Path) -> dict[bytes, bytes | None]:
        """Return the commits of its checkouts, by path; none of a repository that is not understood.

        What else was read is not kept: all repositories' together would take too much memory.
        """
        try:
            contents = await _read(root, self._repository.store)
        except UnclearError:
            return {}  # said by the look itself
        return {tree.path: checkout.head for checkout, tree in self._checkouts(contents) if tree is not None}

    async def look(self, around: Surroundings) -> list[RepositoryState]:
        """Read it and ask git about it; return its own state first, then those of linked worktrees."""
        try:
            contents = await _read(around.root, self._repository.store)
            self.state = _digest(contents)
            config = await self._answered(parse_config(contents.config, cwd=self._scratch), {})
            git = await self._own_git(around.root, contents, config)
        except UnclearError as error:
            self._problems.append(str(error))
            return self._unclear()
        history = await self._history(git, contents, config, around)
        states = []
        for number, (checkout, tree) in enumerate(self._checkouts(contents)):
            scratch = self._scratch / f"checkout-{number}"
            scratch.mkdir()
            look = CheckoutLook(git, checkout, scratch)
            problems = await self._look_at(look, checkout, tree, around)
            if number == 0:
                states.append(self._state(checkout, tree, look.changes, [*self._problems, *problems], around, history))
            elif tree is not None or problems or look.changes.staged or checkout.operations:
                states.append(self._state(checkout, tree, look.changes, problems, around, {}))
        return states

    def _checkouts(self, contents: Contents) -> Iterable[tuple[Checkout, Tree | None]]:
        """Yield each checkout that the git directory knows, with its tree: its own first, then linked ones."""
        own, *linked = contents.files.checkouts
        yield own, self._repository.own
        for checkout in linked:
            trees: list[Tree] = self._repository.linked.get(checkout.linked or b"", [])
            yield from ((checkout, tree) for tree in trees or (None,))

    def _unclear(self) -> list[RepositoryState]:
        """Return states that say only what is wrong: nothing of a checkout is known without its git directory."""
        linked = [tree for trees in self._repository.linked.values() for tree in trees]
        own = RepositoryState(
            path=shown_place(self._repository.path),
            form=self._repository.form,
            locks=listing(self._locks),
            problems=tuple(self._problems),
        )
        words = ("its repository could not be looked at",)
        return [own, *(RepositoryState(path=shown_place(t.path), form=RepositoryForm.WORKTREE, problems=words) for t in linked)]

    async def _own_git(self, root: Path, contents: Contents, config: Mapping[str, str]) -> OwnGit:
        objects = root / os.fsdecode(self._repository.store) / "objects"
        if not await to_thread.run_sync(_is_plain, objects):
            raise UnclearError("its objects are reached through a link")
        files = contents.files
        sha256 = config.get("extensions.objectformat") == "sha256" or any(len(tip) == 64 for tip in files.tips.values())
        return make_own_git(self._scratch / "git", objects, config, files.shallow, sha256=sha256, exclude=contents.exclude)

    async def _history(self, git: OwnGit, contents: Contents, config: Mapping[str, str], around: Surroundings) -> dict[str, object]:
        """Return the fields of the state that speak of commits; a question without an answer stops none of the others."""
        history = History(git, contents, around.kept)
        unpushed = await self._answered(history.unpushed(), Listing())
        stashes = await self._answered(history.stashes(), Listing())
        counts = (unpushed.count, await self._answered(history.tagged(), 0), await self._answered(history.forgotten(), 0))
        names = [checkout.linked for checkout in contents.files.checkouts if checkout.linked is not None]
        return {
            "unpushed": Listing(count=min(counts[0], INSPECTION_COMMITS), first=unpushed.first),
            "stashes": stashes,
            "tagged": min(counts[1], INSPECTION_COMMITS),
            "forgotten": min(counts[2], INSPECTION_COMMITS),
            "more": max(counts) > INSPECTION_COMMITS,
            "without_upstream": without_upstream(contents.files, config),
            "worktrees": listing(names),
        }

    async def _look_at(self, look: CheckoutLook, checkout: Checkout, tree: Tree | None, around: Surroundings) -> list[str]:
        """Look at one checkout and return what could not be looked at."""
        problems = [] if tree is None else list(tree.problems)
        if tree is None and checkout.linked is not None and inside(checkout.place or b"", around.roots) is None:
            problems.append("a linked worktree that lies outside the tree")
        try:
            await look.staged()
            if tree is not None and not tree.problems:
                path = around.root / os.fsdecode(tree.path)
                if await to_thread.run_sync(_is_plain, path):
                    await look.files(tree, path, _nested(tree.path, around.heads))
                else:
                    problems.append("it is reached through a link")
        except UnansweredError as error:
            problems.append(str(error))
        return problems

    def _state(
        self,
        checkout: Checkout,
        tree: Tree | None,
        changes: Changes,
        problems: list[str],
        around: Surroundings,
        history: dict[str, object],
    ) -> RepositoryState:
        linked = checkout.linked
        place = self._repository.path if linked is None else self._repository.store + b"/worktrees/" + linked
        locks = [*(self._locks if linked is None else []), *lock_names([*changes.untracked, *changes.ignored], around.now)]
        fields = {
            "path": shown_place(place if tree is None else tree.path),
            "form": self._repository.form if linked is None else RepositoryForm.WORKTREE,
            "branch": None if checkout.branch is None else shown(checkout.branch.removeprefix(HEADS)),
            "head": None if checkout.head is None else checkout.head.decode(),
            "staged": listing(changes.staged),
            "unstaged": listing(changes.unstaged),
            "untracked": listing(file.path for file in changes.untracked),
            "ignored": len(changes.ignored),
            "unfinished": tuple(checkout.operations),
            "locks": listing(locks),
            "problems": tuple(dict.fromkeys(problems)),
        }
        return RepositoryState.model_validate(fields | history)

    async def _answered(self, asking: Awaitable[T], without: T) -> T:
        try:
            return await asking
        except UnansweredError as error:
            self._problems.append(str(error))
            return without


def lock_names(files: Iterable[SeenFile], now: datetime) -> list[bytes]:
    """Return those that look like a lock which somebody holds: by name, small, and not old."""
    oldest = (now - timedelta(seconds=INSPECTION_LOCK_S)).timestamp() * 1e9
    return [
        file.path
        for file in files
        if file.path.endswith(b".lock") and file.size <= INSPECTION_LOCK_BYTES and file.changed_ns > oldest
    ]


async def _read(root: Path, store: bytes) -> Contents:
    return await to_thread.run_sync(read_store, root, store, abandon_on_cancel=True)


def _nested(path: bytes, heads: Mapping[bytes, bytes | None]) -> dict[bytes, bytes | None]:
    """Return the commits of checkouts below a path, relative to it."""
    start = path + b"/" if path else b""
    return {other[len(start) :]: head for other, head in heads.items() if other.startswith(start) and other != path}


def _is_plain(path: Path) -> bool:
    """Whether a path leads where it says, and through no link."""
    try:
        return path.resolve(strict=True) == path and path.is_dir()
    except OSError:
        return False


def _digest(contents: Contents) -> bytes:
    digest = hashlib.sha256()
    for name, value in sorted(contents.files.tips.items()):
        digest.update(b"%s\0%s\0" % (name, value))
    for checkout in contents.files.checkouts:
        head = checkout.branch or checkout.head or b""
        digest.update(head + b"\0" + hashlib.sha256(checkout.index or b"").digest())
    return digest.digest()
