"""What is read of one git directory without git, by descriptor (SEC-2)."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from jamcore.domain.limits import INSPECTION_RULES_BYTES
from jamcore.workspace.git_files import (
    GitFiles,
    UnclearError,
    open_directory,
    read_open_git_directory,
    read_regular,
)

LOGGED = 10_000
"""Entries of a HEAD's log that are looked at, the newest ones."""
LOG_BYTES = 16 << 20
"""A log of HEAD: some 80,000 entries."""


@dataclass(slots=True)
class Contents:
    """References and checkouts, the repository's configuration and own rules as bytes, and commits that the logs of HEADs name."""

    files: GitFiles
    config: bytes = b""
    exclude: bytes = b""
    logged: list[bytes] = field(default_factory=list)


def read_store(root: Path, store: bytes) -> Contents:
    """Read a git directory below a root, each part of its path by descriptor. Blocking: run it in a thread.

    Raises:
        UnclearError: Something in it is not what git makes there; or it cannot be read.
    """
    try:
        with ExitStack() as opened:
            here = opened.enter_context(open_directory(root))
            for part in store.split(b"/"):
                here = opened.enter_context(open_directory(part, at=here))
            files = read_open_git_directory(here)
            found = Contents(files, config=read_regular(here, "config", INSPECTION_RULES_BYTES) or b"")
            found.exclude = _below(here, ("info",), b"exclude", INSPECTION_RULES_BYTES)
            for place in ((), *(("worktrees", c.linked) for c in files.checkouts if c.linked is not None)):
                log = _below(here, (*place, "logs"), b"HEAD", LOG_BYTES)
                found.logged += [
                    line.split(b" ", 2)[1] for line in log.rsplit(b"\n", LOGGED + 1)[-LOGGED - 1 :] if line.count(b" ") > 1
                ]
            return found
    except OSError as error:
        raise UnclearError(f"its git directory cannot be read: {error.strerror}") from error


def _below(here: int, parts: tuple[str | bytes, ...], name: bytes, limit: int) -> bytes:
    """Return a file in a directory below, empty when there is none."""
    with ExitStack() as opened, suppress(FileNotFoundError):
        for part in parts:
            here = opened.enter_context(open_directory(part, at=here))
        return read_regular(here, os.fsdecode(name), limit) or b""
    return b""
