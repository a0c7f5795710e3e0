"""Private clones: made on the host from the user's primary checkout onto the sandbox's own disk (CAP-7)."""

from __future__ import annotations

from pathlib import Path

import anyio
from anyio import to_thread
from pydantic import ValidationError

from jamcore.domain.sandboxes import CloneSource, EngineFailedError
from jamcore.system.files import Files
from jamcore.system.git import run_git
from jamcore.system.process import Finished

BRANCH = "jam"
CLONE_TIMEOUT_S = 540.0
"""Less than a create's own limit, so that the reason is git's and not a time-out's."""
_TRUST = b"[safe]\n\tdirectory = *\n"
"""The source may belong to another user than Jam. The git that serves a clone takes this from a user's settings file alone."""

_ATTRIBUTES = b"* !filter !ident !working-tree-encoding !text !eol !crlf\n"
"""The files have the bytes that the commit has. A review compares bytes, and a patch between converted ones would fit no branch."""


async def ensure_clone(source: CloneSource, destination: Path, *, engine: str, files: Files) -> None:
    """Make the clone, or go on with the one that is there: of a creation that failed, or of a sandbox that was removed and kept its disk.

    Which commit a clone began with is recorded beside it, where no guest sees it. A clone of another commit, or of none that is known, may
    hold somebody's work: it is neither used for this sandbox nor removed.

    Raises:
        EngineFailedError: Git failed, and nothing is left; or a clone of something else is there, and it stays.
    """
    if not destination.exists():
        await make_clone(source, destination, engine=engine, files=files)
        return
    began = _recorded(destination)
    if began is None or began.commit != source.commit:
        known = f"of commit {began.commit}" if began else "of a commit that is not recorded"
        detail = f"{destination} is a clone {known}, and {source.commit} is wanted; move it away to have it made anew"
        raise EngineFailedError(engine=engine, operation="clone", detail=detail)


async def make_clone(source: CloneSource, destination: Path, *, engine: str, files: Files) -> None:
    """Clone ``source`` at its commit into ``destination``, which must not exist, on a branch of its own and with no remote.

    Nothing of the source is executed: no hook, no filter; objects are copied, never linked. Made under a temporary name and renamed, so
    that a half clone is never taken for a whole one; its source is recorded before it has its name.

    Raises:
        EngineFailedError: Git failed; nothing is left.
    """
    partial = destination.with_name(f".{destination.name}.partial")
    trust = destination.with_name(f".{destination.name}.gitconfig")
    await to_thread.run_sync(files.remove_tree, partial)
    await to_thread.run_sync(files.write_atomic, trust, _TRUST)
    try:
        steps = (
            (
                "clone",
                "--quiet",
                "--no-hardlinks",
                "--no-checkout",
                "--no-tags",
                "--template=",
                "--",
                source.host_path,
                str(partial),
            ),
            ("-C", str(partial), "checkout", "--quiet", "-B", BRANCH, source.commit, "--"),
            ("-C", str(partial), "remote", "remove", "origin"),
        )
        for argv in steps:
            if "checkout" in argv:
                await to_thread.run_sync(_overrule_attributes, partial, files)
            done = await run_git(
                *argv,
                cwd=destination.parent,
                settings=("protocol.file.allow=always",),
                environment={"GIT_CONFIG_GLOBAL": str(trust)},
                timeout_s=CLONE_TIMEOUT_S,
            )
            _require(done, engine)
        await to_thread.run_sync(_publish, source, partial, destination, files)
    except BaseException:
        with anyio.CancelScope(shield=True):  # a large clone takes seconds to remove, and nothing else may wait for that
            await to_thread.run_sync(files.remove_tree, partial)
        raise
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(files.unlink, trust)


def _overrule_attributes(clone: Path, files: Files) -> None:
    files.make_private(clone / ".git" / "info")
    files.write_atomic(clone / ".git" / "info" / "attributes", _ATTRIBUTES)


def _publish(source: CloneSource, partial: Path, destination: Path, files: Files) -> None:
    files.remove_tree(partial / ".git" / "logs")  # they name the path that was cloned from
    files.write_atomic(_record(destination), source.canonical_json())
    files.rename(partial, destination)


def _record(destination: Path) -> Path:
    return destination.with_name(f"{destination.name}.json")


def _recorded(destination: Path) -> CloneSource | None:
    try:
        return CloneSource.model_validate_json(_record(destination).read_bytes())
    except (OSError, ValidationError):
        return None


def _require(done: Finished, engine: str) -> None:
    if not done.ok:
        detail = done.stderr.decode(errors="replace").strip()[-300:]
        raise EngineFailedError(engine=engine, operation="clone", detail=detail or "it took too long")
