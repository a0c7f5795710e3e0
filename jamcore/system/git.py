"""Git on the host, hardened: the one way in which Jam runs it (SEC-2).

It reads repositories that an agent may have written, so nothing in them may be executed: no hooks, no file-system monitor, no
external diff, no transport but the ones a call names, no system or user configuration, an environment of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from jamcore.system.process import Finished, run_bounded

_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.autocrlf=false",
    "core.pager=cat",
    "submodule.recurse=false",
    "protocol.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
)

GIT_PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where git is looked for: no directory that a person's PATH names, and that others may write."""
GIT_TIMEOUT_S = 300.0
"""A bound for one command over a work tree: hashing 100,000 files takes tens of seconds on a slow disk."""
GIT_OUTPUT_BYTES = 1 << 20


async def run_git(
    *argv: str,
    cwd: Path,
    git_directory: Path | None = None,
    work_tree: Path | None = None,
    settings: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
    limit_bytes: int = GIT_OUTPUT_BYTES,
    timeout_s: float = GIT_TIMEOUT_S,
    stdin: bytes = b"",
) -> Finished:
    """Run one git command and return how it ended; the caller judges the code.

    Args:
        argv: The command and its arguments, without ``git``.
        cwd: Where it runs; also its ``HOME``, so that nothing of a person's is read.
        git_directory: A git directory to use instead of the one found from ``cwd``.
        work_tree: The work tree that belongs to it.
        settings: Further ``key=value`` settings, which win over the fixed ones.
        environment: Further variables.
        limit_bytes: How much output is kept.
        timeout_s: After this the whole process group is ended.
        stdin: What it reads.
    """
    env = {
        "PATH": GIT_PATH,
        "HOME": str(cwd),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        **({"GIT_DIR": str(git_directory)} if git_directory else {}),
        **({"GIT_WORK_TREE": str(work_tree)} if work_tree else {}),
        **(environment or {}),
    }
    options = tuple(part for setting in (*_SETTINGS, *settings) for part in ("-c", setting))
    return await run_bounded(
        ("git", *options, *argv), cwd=str(cwd), env=env, limit_bytes=limit_bytes, timeout_s=timeout_s, stdin=stdin
    )
