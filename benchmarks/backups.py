"""What else copies a directory, each as its manual says: ``cp -a``, ``rsync --link-dest``, restic, borg.

The bytes that a program wrote are its ``write_bytes`` less its ``cancelled_write_bytes`` in ``/proc/<pid>/io``, read when it has ended and
before it is reaped: by then its own children are counted with it. Cancelled is what was removed again before the kernel wrote it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run took."""

    ms: float
    bytes_written: int


class Backup(Protocol):
    """One program, with a place of its own for what it keeps."""

    name: str

    def save(self, home: Path) -> Cost:
        """Copy the home as it is now; what the copy before has may be reused."""

    def restore(self, target: Path) -> Cost:
        """Put the newest copy at ``target``, which does not exist."""


def emptied(tree: Path) -> None:
    """Give back the space of a tree that is not needed any more, and leave its files, empty.

    ext4 takes a long time to make files for minutes after many were removed nearby, because it passes over inodes that were in use a
    short time ago. Removing each copy after its comparison made everybody's next copy up to ten times as slow.
    """
    for directory, _, files in os.walk(tree):
        for name in files:
            os.truncate(Path(directory, name), 0)


class _Copies:
    """Numbered copies in one directory."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._count = 0
        root.mkdir()

    def _next(self) -> tuple[Path, Path | None]:
        before = self._root / str(self._count) if self._count else None
        self._count += 1
        return self._root / str(self._count), before

    @property
    def _newest(self) -> Path:
        return self._root / str(self._count)


class Cp(_Copies):
    """A full copy. Nothing is synced."""

    name = "cp -a"

    def save(self, home: Path) -> Cost:
        """See :meth:`Backup.save`."""
        copy, before = self._next()
        if before:
            emptied(before)
        return run(["cp", "-a", f"{home}/.", str(copy)])

    def restore(self, target: Path) -> Cost:
        """See :meth:`Backup.restore`."""
        return run(["cp", "-a", f"{self._newest}/.", str(target)])


class Rsync(_Copies):
    """A full copy the first time, then hard links to the copy before for what has its size and time. Nothing is synced."""

    name = "rsync --link-dest"

    def save(self, home: Path) -> Cost:
        """See :meth:`Backup.save`."""
        copy, before = self._next()
        links = [f"--link-dest={before}"] if before else []
        return run(["rsync", "-a", *links, f"{home}/", str(copy)])

    def restore(self, target: Path) -> Cost:
        """See :meth:`Backup.restore`."""
        return run(["rsync", "-a", f"{self._newest}/", str(target)])


class Restic:
    """A repository with its own cache, as restic sets it up."""

    name = "restic"

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self._environment = {
            "RESTIC_REPOSITORY": str(root / "repository"),
            "RESTIC_PASSWORD": "x",
            "RESTIC_CACHE_DIR": str(root / "cache"),
        }
        self._home = Path()
        run(["restic", "init", "-q"], self._environment)

    def save(self, home: Path) -> Cost:
        """See :meth:`Backup.save`."""
        self._home = home
        return run(["restic", "backup", "-q", str(home)], self._environment)

    def restore(self, target: Path) -> Cost:
        """See :meth:`Backup.restore`."""
        into = target.with_name(f"{target.name}.restic")
        cost = run(["restic", "restore", "-q", "latest", "--target", str(into)], self._environment)
        (into / self._home.relative_to("/")).rename(target)
        shutil.rmtree(into)
        return cost


class Borg:
    """A repository without encryption, which is borg's fastest."""

    name = "borg"

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self._repository = str(root / "repository")
        self._environment = {"BORG_BASE_DIR": str(root), "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes"}
        self._count = 0
        run(["borg", "init", "-e", "none", self._repository], self._environment)

    def save(self, home: Path) -> Cost:
        """See :meth:`Backup.save`."""
        self._count += 1
        return run(["borg", "create", f"{self._repository}::{self._count}", "."], self._environment, home)

    def restore(self, target: Path) -> Cost:
        """See :meth:`Backup.restore`."""
        target.mkdir()
        return run(["borg", "extract", f"{self._repository}::{self._count}"], self._environment, target)


PROGRAMS: tuple[tuple[str, type[Cp | Rsync | Restic | Borg]], ...] = (
    ("cp", Cp),
    ("rsync", Rsync),
    ("restic", Restic),
    ("borg", Borg),
)


def backups(root: Path) -> tuple[list[Backup], list[str]]:
    """Return the programs that are installed, each with its place below ``root``, and the names of those that are not."""
    there = [(command, made) for command, made in PROGRAMS if shutil.which(command)]
    missing = [made.name for command, made in PROGRAMS if not shutil.which(command)]
    return [made(root / command) for command, made in there], missing


def run(command: Sequence[str], environment: Mapping[str, str] | None = None, cwd: Path | None = None) -> Cost:
    """Run a program to its end and return what it took.

    Raises:
        RuntimeError: It failed.
    """
    os.sync()  # no one pays for what another left to be written
    began = time.perf_counter()
    with subprocess.Popen(
        command,
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as child:
        descriptor = os.pidfd_open(child.pid)
        try:
            ended = os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOWAIT)
        finally:
            os.close(descriptor)
        took = (time.perf_counter() - began) * 1000
        written = written_by(child.pid)
        assert ended is not None
        assert child.stderr is not None
        if ended.si_status:
            raise RuntimeError(f"{command[0]}: {child.stderr.read().decode(errors='replace').strip()}")
    return Cost(took, written)


def written_by(process: int | str = "self") -> int:
    """Return how many bytes a process, and the children that it reaped, caused to be written to a disk."""
    fields = dict(line.split(": ") for line in Path(f"/proc/{process}/io").read_text(encoding="ascii").splitlines())
    return int(fields["write_bytes"]) - int(fields["cancelled_write_bytes"])
