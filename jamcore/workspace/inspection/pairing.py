"""Finds out which checkout belongs to which git directory, by names alone: nothing that an agent wrote is followed.

A ``.git`` file names its git directory by the path that the guest sees. Only one that the walk found, inside the tree, is taken for it.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field

from jamcore.domain.removal import RepositoryForm
from jamcore.workspace.inspection.survey import Survey, Tree

_POINTER = re.compile(rb"gitdir: ([^\x00\n]+)\n*")


@dataclass(slots=True)
class Repository:
    """A git directory with the checkouts that are in the tree: its own, and linked worktrees by the name of their administration."""

    store: bytes
    form: RepositoryForm
    own: Tree | None = None
    linked: dict[bytes, list[Tree]] = field(default_factory=dict)

    @property
    def path(self) -> bytes:
        """Where people look for it: its own checkout, or the git directory."""
        return self.store if self.own is None else self.own.path


def pair(found: Survey, roots: tuple[bytes, ...]) -> tuple[list[Repository], list[Tree]]:
    """Return the repositories, and the trees whose git directory is not one that can be looked at, which are told so.

    Args:
        found: What the walk found.
        roots: The paths of the tree, as a guest and as the host has it.
    """
    repositories = {store: Repository(store, _form(store)) for store in found.locks}
    strays = []
    for tree in found.trees.values():
        if not _joined(tree, repositories, roots):
            strays.append(tree)
            if not tree.broken:
                tree.problems.append("its git directory lies outside the tree, or is none")
    return list(repositories.values()), strays


def inside(place: bytes, roots: tuple[bytes, ...]) -> bytes | None:
    """Return a path below one of the roots relative to it, ``None`` when it lies elsewhere."""
    plain = posixpath.normpath(place)
    for root in roots:
        if plain == root:
            return b""
        if plain.startswith(root + b"/"):
            return plain[len(root) + 1 :]
    return None


def _joined(tree: Tree, repositories: dict[bytes, Repository], roots: tuple[bytes, ...]) -> bool:
    store = _store_of(tree, roots)
    if store is None:
        return False
    if (repository := repositories.get(store)) is not None and repository.own is None:
        repository.own = tree
        if repository.form is RepositoryForm.BARE:
            repository.form = RepositoryForm.CHECKOUT
        return True
    main, _, name = store.rpartition(b"/worktrees/")
    if name and b"/" not in name and (repository := repositories.get(main)) is not None:
        repository.linked.setdefault(name, []).append(tree)
        return True
    return False


def _store_of(tree: Tree, roots: tuple[bytes, ...]) -> bytes | None:
    """Return where a tree's git directory should lie; a ``.git`` file that is not understood names none."""
    if tree.pointer is None:  # also of a broken one, whose `.git` is no directory that the walk found
        return posixpath.join(tree.path, b".git")
    if not (matched := _POINTER.fullmatch(tree.pointer)):
        return None
    if matched[1].startswith(b"/"):
        return inside(matched[1], roots)
    plain = posixpath.normpath(posixpath.join(tree.path, matched[1]))
    return None if plain.startswith(b"..") else plain


def _form(store: bytes) -> RepositoryForm:
    return RepositoryForm.SUBMODULE if b"/modules/" in store else RepositoryForm.BARE
