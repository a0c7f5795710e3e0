"""Directories that get another name before they are removed, so that nothing half removed ever has its own (WS-4, WS-7)."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from jamcore.system.files import Files
from jamcore.system.removal import remove_tree
from jamcore.system.tree_calls import TreeCalls
from jamcore.system.trees import status_of
from jamcore.system.usage import mounts_below
from jamcore.workspace.exports.reading import opened_below


class SetAside:
    """Moves and removes directories of one app directory. Blocking: call it in a worker thread.

    Paths are relative to the app directory. Each directory on the way is opened by its name, and no link is followed: a guest may have put
    one in the place of its own, which then goes itself.
    """

    def __init__(self, app: Path, *, files: Files, calls: TreeCalls | None = None) -> None:
        self._app = app
        self._files = files
        self._calls = calls or TreeCalls()

    def is_there(self, path: str) -> bool:
        """Say whether something has this name.

        Raises:
            OSError: It cannot be said.
        """
        try:
            with self._parent(path) as (parent, name):
                return status_of(parent, name) is not None
        except FileNotFoundError:
            return False

    def move(self, path: str, aside: str) -> None:
        """Give a directory another name, durably; one that has it already is fine.

        Raises:
            FileNotFoundError: It has neither.
            OSError: The machine refused, or something is mounted there; it has its own name still.
        """
        self._require_unmounted(path)
        with self._parent(path) as (parent, name), self._parent(aside) as (other, new):
            if status_of(parent, name) is None and status_of(other, new) is not None:
                return
            self._calls.move(parent, name, other, new)
            self._files.sync(other)
            self._files.sync(parent)

    def remove(self, aside: str, alive: Callable[[], None] = lambda: None) -> None:
        """Remove what was set aside, durably; what is gone is fine.

        Raises:
            OSError: Something of it could not be removed, or something is mounted there; the rest can be removed again.
        """
        self._require_unmounted(aside)
        with self._parent(aside) as (parent, name):
            remove_tree(parent, name, sync=self._files.sync, alive=alive)

    def _require_unmounted(self, path: str) -> None:
        """What is bound there lies elsewhere, and a walk does not see that where it is of the same file system."""
        if mounted := mounts_below(self._app / path):
            raise OSError(errno.EBUSY, f"something is mounted at {mounted[0]}", mounted[0])

    @contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, bytes]]:
        where = PurePosixPath(path)
        with opened_below(self._app, str(where.parent), self._calls) as parent:
            yield parent, os.fsencode(where.name)
