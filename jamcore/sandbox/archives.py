"""Unpacks one directory out of an archive whose digest is pinned, and trusts nothing in it but the digest. Blocking; run in a thread.

What kind of archive it is, its reader knows (:mod:`jamcore.sandbox.wheels`, :mod:`jamcore.sandbox.tarballs`); what may be in it, where
it goes and how it is made durable is here, once for all of them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from jamcore.domain.limits import TOOLCHAIN_BYTES, TOOLCHAIN_FILES
from jamcore.domain.provider_rules import relative_path
from jamcore.domain.providers import ToolchainSpec
from jamcore.system.files import Files

FILE_MODE = 0o644
PROGRAM_MODE = 0o755
"""Readable by all: guests run as another user, and the directories above are private."""
COPY_BYTES = 1 << 20

Told = Callable[[int, int], None]
"""Told how many bytes of how many are done; called in the thread that works."""


def quiet(_done: int, _total: int) -> None:
    """Tell nobody."""


class BadArchiveError(Exception):
    """The archive is not what was pinned, or holds what no program's should; the words say which."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file of an archive as its header describes it. ``plain``: it is a regular file, no link, device or file with holes."""

    name: str
    size: int
    plain: bool


class Contents:
    """What was seen of an archive so far, against the bounds."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._names: set[str] = set()
        self._members = 0
        self._bytes = 0

    def count(self, size: int) -> None:
        """Count one member, whatever it is.

        Raises:
            BadArchiveError: There are too many now, or too much.
        """
        self._members += 1
        self._bytes += size
        if size < 0 or self._members > TOOLCHAIN_FILES or self._bytes > TOOLCHAIN_BYTES:
            raise BadArchiveError(f"the {self.what} holds more than a program should")

    def admit(self, members: Iterable[Member]) -> None:
        """Count members that are to be unpacked, and refuse what must not be.

        Raises:
            BadArchiveError: They are too many or too much, or one would leave the target, is a link or a device, or is there twice.
        """
        for member in members:
            self.count(member.size)
            folded = member.name.casefold()
            if not relative_path(member.name) or "\\" in member.name or not member.plain:
                raise BadArchiveError(f"the {self.what} holds {member.name[:80]!r}, which is no plain file")
            if folded in self._names:
                raise BadArchiveError(f"the {self.what} holds a name twice")
            self._names.add(folded)


def digest_of(path: Path, algorithm: str = "sha256", told: Told = quiet) -> str:
    """Return the digest of a file in hex."""
    digest, done = hashlib.new(algorithm), 0
    with path.open("rb") as stream:
        total = os.fstat(stream.fileno()).st_size
        while chunk := stream.read(COPY_BYTES):
            digest.update(chunk)
            done += len(chunk)
            told(done, total)
    return digest.hexdigest()


def programs(spec: ToolchainSpec) -> frozenset[str]:
    """Return what must be executable in the end, relative to the root."""
    return frozenset({spec.program, *spec.executables, *(spec.unpack.command[:1] if spec.unpack else ())})


def write(source: IO[bytes], name: str, target: Path, spec: ToolchainSpec, files: Files, wrote: Callable[[int], None]) -> None:
    """Write an admitted member to its place, durably; its mode is what the plugin declared, whatever the archive says."""
    place = target / name
    place.parent.mkdir(parents=True, exist_ok=True)
    inside = str(PurePosixPath(name).relative_to(spec.root))
    with place.open("xb") as stream:
        while chunk := source.read(COPY_BYTES):
            wrote(stream.write(chunk))
        stream.flush()
        os.fchmod(stream.fileno(), PROGRAM_MODE if inside in programs(spec) else FILE_MODE)
        files.sync(stream.fileno())


def settle(target: Path, spec: ToolchainSpec, *, what: str, files: Files, whole: bool = True) -> None:
    """Make the directories readable and durable, and see that the programs are there: all, or what unpacks the others.

    Raises:
        BadArchiveError: A program is missing.
    """
    wanted = programs(spec) if whole or spec.unpack is None else frozenset(spec.unpack.command[:1])
    for name in sorted(wanted):
        if not os.access(target / spec.root / name, os.X_OK):
            raise BadArchiveError(f"the {what} holds no program {name}")
    for directory, _, _ in os.walk(target):
        Path(directory).chmod(PROGRAM_MODE)
        files.sync_directory(Path(directory))
