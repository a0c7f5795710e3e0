"""Clone mode, with the real git: a clone in the sandbox, and a remote of it on the host."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from jamcore.testing.sbx.sandboxd.refusal import RefusedError

GIT_S = 120.0
GIT_PORT = 9418
SOURCE = "/run/sandbox/source"


async def git(*words: str, check: bool = True) -> str:
    """Run git on the host with nothing of a person's configuration; return what it printed.

    Raises:
        RefusedError: It failed.
    """
    env = {"PATH": os.defpath, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"}
    process = await asyncio.create_subprocess_exec(
        "git", "-c", "safe.directory=*", *words, env=env, cwd="/", stdin=-3, stdout=-1, stderr=-1
    )
    try:
        async with asyncio.timeout(GIT_S):
            out, err = await process.communicate()
    except TimeoutError as error:
        process.kill()
        raise RefusedError(f"git {words[0]}: timed out") from error
    if check and process.returncode:
        raise RefusedError(f"git {words[0]}: {err.decode(errors='replace').strip()}")
    return out.decode(errors="replace").strip()


async def root_of(path: str) -> str:
    """Return the repository that a path lies in.

    Raises:
        RefusedError: It lies in none, or in a worktree (``clone.git-needed``, ``clone.no-worktree``).
    """
    top = await git("-C", path, "rev-parse", "--show-toplevel", check=False)
    if not top:
        raise RefusedError(f"--clone requires a Git repository, but {path} is not in a Git repository")
    if (Path(top) / ".git").is_file():
        raise RefusedError(f"--clone is not supported when run from a Git worktree ({path}); run from the main repository instead")
    return top


async def make(repository: str, target: Path) -> None:
    """Clone what is committed to the sandbox's disk; its origin is what the guest sees of the repository."""
    await git("clone", "--quiet", "--no-hardlinks", repository, str(target))
    await git("-C", str(target), "remote", "set-url", "origin", SOURCE)


async def add_remote(repository: str, name: str, port: int) -> None:
    """Give the host a remote of the clone (``clone.remote``)."""
    remote = f"sandbox-{name}"
    await git("-C", repository, "remote", "remove", remote, check=False)
    url = f"git://127.0.0.1:{port}/{Path(repository).name}"
    await git("-C", repository, "remote", "add", remote, url)
    await git("-C", repository, "config", "--replace-all", f"remote.{remote}.fetch", f"+refs/heads/*:refs/remotes/{remote}/*")
    await git("-C", repository, "config", "--add", f"remote.{remote}.fetch", f"+refs/heads/*:refs/sandboxes/{name}/*")


async def mirror(repository: str, name: str, clone: Path) -> None:
    """Keep the clone's branches on the host (``clone.mirrored``)."""
    if clone.is_dir() and Path(repository).is_dir():
        await git("-C", repository, "fetch", "--quiet", str(clone), f"+refs/heads/*:refs/sandboxes/{name}/*", check=False)


async def remove_remote(repository: str, name: str) -> None:
    """Take the remote away; ``refs/sandboxes`` stays."""
    if Path(repository).is_dir():
        await git("-C", repository, "remote", "remove", f"sandbox-{name}", check=False)
