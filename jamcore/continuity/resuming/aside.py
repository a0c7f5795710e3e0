"""Moves what a restore replaces out of the guest's reach, under its own path: nothing of a person's is lost."""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from jamcore.system.files import PRIVATE_DIRECTORY, Files
from jamcore.system.trees import DIRECTORY_FLAGS, Seen, look, open_root, owned, shown


class Aside:
    """One directory for what one restore replaces; made when the first thing comes."""

    def __init__(self, root: Path, files: Files) -> None:
        self._root = root
        self._files = files
        self._stack = ExitStack()
        self._descriptor: int | None = None

    @property
    def used(self) -> bool:
        """Whether anything was put here."""
        return self._descriptor is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def take(self, seen: Seen) -> None:
        """Move what was seen here by one rename: it is neither opened nor followed.

        Raises:
            OSError: It is gone, or lies on another file system.
        """
        if self._descriptor is None:
            self._descriptor = self._stack.enter_context(owned(open_root(self._files.make_private(self._root))))
        with ExitStack() as stack:
            directory = self._descriptor
            for name in seen.path[:-1]:
                with suppress(FileExistsError):
                    os.mkdir(name, PRIVATE_DIRECTORY, dir_fd=directory)
                directory = stack.enter_context(owned(os.open(name, DIRECTORY_FLAGS, dir_fd=directory)))
            if look(directory, seen.path[-1], seen.path) is not None:
                raise FileExistsError(errno.EEXIST, "set aside already, and nothing there is overwritten", shown(seen.path))
            os.rename(seen.name, seen.path[-1], src_dir_fd=seen.parent, dst_dir_fd=directory)
            self._files.sync(directory)
