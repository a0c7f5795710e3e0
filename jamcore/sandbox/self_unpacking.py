"""A program unpacks the rest of itself, once, when it is installed (see :class:`jamcore.domain.providers.UnpackStep`).

What runs is the pinned program, and it is still given no more than it needs: see :mod:`jamcore.system.confined`. What it leaves is then
treated as an archive is: plain files, within the bounds, modes of ours.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio

from jamcore.domain.limits import TOOLCHAIN_BYTES, TOOLCHAIN_FILES, TOOLCHAIN_UNPACK_S
from jamcore.domain.providers import ToolchainSpec, UnpackStep
from jamcore.domain.records import Record
from jamcore.sandbox.archives import FILE_MODE, PROGRAM_MODE, BadArchiveError, Told, programs, settle
from jamcore.sandbox.download_progress import bytes_below
from jamcore.system.confined import Confinement, confined
from jamcore.system.files import Files
from jamcore.system.process import Finished, run_bounded

ROOT = "{root}"
_PATH = "/usr/local/bin:/usr/bin:/bin"
_LOOK_S = 0.25
"""How often the growing tree is measured."""
_OUTPUT_BYTES = 64 << 10
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class SelfUnpackingError(Exception):
    """The program did not unpack itself, or left what no program should; the words say which."""


class Unpacked(Record):
    """What a program's own unpacking added. ``confined``: the machine could keep it from the network and from all other files."""

    files: int
    bytes: int
    confined: bool


async def unpack_itself(spec: ToolchainSpec, step: UnpackStep, staging: Path, *, files: Files, told: Told) -> Unpacked:
    """Run the step in ``staging/tree``, look through what it left and make that durable.

    Raises:
        SelfUnpackingError: It failed, hung, grew too large, or left a link, a device or no program.
        OSError: The disk failed.
    """
    tree = staging / "tree"
    had, before = await anyio.to_thread.run_sync(_measured, tree)
    confinement = Confinement(root=staging / "guest", writable=(tree / spec.root, staging / "home"), noted=staging / "confined")
    for directory in (confinement.root, confinement.writable[1]):
        directory.mkdir()
    done = await _run(step, confinement, told)
    if done.timed_out or done.returncode != 0:
        raise SelfUnpackingError(_why(done))
    await anyio.to_thread.run_sync(partial(_settle, tree, spec, files))
    has, after = await anyio.to_thread.run_sync(_measured, tree)
    return Unpacked(files=has - had, bytes=after - before, confined=confinement.noted.exists())


async def _run(step: UnpackStep, confinement: Confinement, told: Told) -> Finished:
    root, home = confinement.writable
    program, *words = (word.replace(ROOT, str(root)) for word in step.command)
    env = {"PATH": _PATH, "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8"}
    env |= {name: value.replace(ROOT, str(root)) for name, value in step.environment}
    grown = False

    async def measure() -> None:
        nonlocal grown
        while not grown:
            await anyio.sleep(_LOOK_S)
            size = sum([await anyio.to_thread.run_sync(bytes_below, place) for place in confinement.writable])
            told(size, 0)
            grown = size > TOOLCHAIN_BYTES
        tasks.cancel_scope.cancel()

    done: Finished | OSError | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(measure)
        try:
            done = await run_bounded(
                confined((str(root / program), *words), confinement, limit_bytes=TOOLCHAIN_BYTES),
                cwd=str(root),
                env=env,
                limit_bytes=_OUTPUT_BYTES,
                timeout_s=TOOLCHAIN_UNPACK_S,
            )
        except OSError as error:  # not through the group, which would wrap it
            done = error
        tasks.cancel_scope.cancel()
    if isinstance(done, OSError):
        raise done
    if done is None:
        raise SelfUnpackingError("it unpacked more than a program should have")
    return done


def _why(done: Finished) -> str:
    if done.timed_out:
        return f"it did not end within {TOOLCHAIN_UNPACK_S:g} s"
    lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
    return f"it ended with code {done.returncode}" + (f": {lines[-1][:200]}" if lines else "")


def _measured(tree: Path) -> tuple[int, int]:
    return sum(len(names) for _, _, names in os.walk(tree)), bytes_below(tree)


def _settle(tree: Path, spec: ToolchainSpec, files: Files) -> None:
    """Look at everything that is there now, give it its mode, and make it durable."""
    wanted, count, size = {str(tree / spec.root / name) for name in programs(spec)}, 0, 0
    for path in _plain_files(tree):
        descriptor = os.open(path, _OPEN)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
                raise SelfUnpackingError(f"it left {path.name[:80]!r}, which is no plain file")
            os.fchmod(descriptor, PROGRAM_MODE if str(path) in wanted or status.st_mode & 0o111 else FILE_MODE)
            files.sync(descriptor)
        finally:
            os.close(descriptor)
        count, size = count + 1, size + status.st_size
        if count > TOOLCHAIN_FILES or size > TOOLCHAIN_BYTES:
            raise SelfUnpackingError("it unpacked more than a program should have")
    try:
        settle(tree, spec, what="program that unpacked itself", files=files)
    except BadArchiveError as error:
        raise SelfUnpackingError(str(error)) from error


def _plain_files(tree: Path) -> Iterator[Path]:
    """Yield every file. No directory is entered through a link, and one that hides what it holds is opened."""
    Path(tree).chmod(PROGRAM_MODE)
    for at, directories, names in os.walk(tree):
        for name in directories:
            below = Path(at) / name
            if below.is_symlink():
                raise SelfUnpackingError(f"it left {name[:80]!r}, which is a link")
            below.chmod(PROGRAM_MODE)
        for name in names:
            if (path := Path(at) / name).is_symlink():
                raise SelfUnpackingError(f"it left {name[:80]!r}, which is a link")
            yield path
