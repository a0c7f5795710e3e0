"""Unpacks one directory out of a wheel whose digest is pinned, and trusts nothing in it but the digest. Blocking; run in a thread."""

from __future__ import annotations

import hashlib
import os
import stat
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from jamcore.domain.limits import TOOLCHAIN_BYTES, TOOLCHAIN_FILES
from jamcore.domain.provider_rules import relative_path
from jamcore.domain.providers import ToolchainSpec
from jamcore.system.files import Files

FILE_MODE = 0o644
PROGRAM_MODE = 0o755
"""Readable by all: guests run as another user, and the directories above are private."""
_COPY_BYTES = 1 << 20


class BadWheelError(Exception):
    """The wheel is not what was pinned, or holds what no wheel should; the words say which."""


Told = Callable[[int, int], None]
"""Told how many bytes of how many are done; called in the thread that works."""


def sha256_of(path: Path, told: Told = lambda _done, _total: None) -> str:
    """Return the SHA-256 of a file in hex."""
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as stream:
        total = os.fstat(stream.fileno()).st_size
        while chunk := stream.read(_COPY_BYTES):
            digest.update(chunk)
            done += len(chunk)
            told(done, total)
    return digest.hexdigest()


def unpack(wheel: Path, spec: ToolchainSpec, target: Path, *, files: Files, told: Told = lambda _done, _total: None) -> int:
    """Unpack the members below ``spec.root`` into ``target`` at the same relative places, durably. Returns how many files.

    Raises:
        BadWheelError: A member would leave the target, is a link, is there twice, or the whole breaks a bound or lacks the program.
        OSError: The disk failed.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = _members(archive, spec)
            done, total = 0, sum(info.file_size for info in members)
            for info in members:
                for written in _extract(archive, info, target, spec, files):
                    done += written
                    told(done, total)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise BadWheelError(f"not a readable wheel: {error}") from error
    for name in {spec.program, *spec.executables}:
        if not os.access(target / spec.root / name, os.X_OK):
            raise BadWheelError(f"the wheel holds no program {name}")
    for directory, _, _ in os.walk(target):
        Path(directory).chmod(PROGRAM_MODE)
        files.sync_directory(Path(directory))
    return len(members)


def _members(archive: zipfile.ZipFile, spec: ToolchainSpec) -> list[zipfile.ZipInfo]:
    members = [info for info in archive.infolist() if info.filename.startswith(f"{spec.root}/") and not info.is_dir()]
    names = [info.filename for info in members]
    if len(members) > TOOLCHAIN_FILES or sum(info.file_size for info in members) > TOOLCHAIN_BYTES:
        raise BadWheelError("the wheel holds more than a program should")
    if len({name.casefold() for name in names}) != len(names):
        raise BadWheelError("the wheel holds a name twice")
    for info in members:
        kind = stat.S_IFMT(info.external_attr >> 16)
        if not relative_path(info.filename) or "\\" in info.filename or kind not in (0, stat.S_IFREG):
            raise BadWheelError(f"the wheel holds {info.filename[:80]!r}, which is no plain file")
    return members


def _extract(archive: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path, spec: ToolchainSpec, files: Files) -> Iterator[int]:
    """Write a member, and yield how many bytes were written each time."""
    place = target / info.filename
    place.parent.mkdir(parents=True, exist_ok=True)
    inside = str(PurePosixPath(info.filename).relative_to(spec.root))
    with archive.open(info) as source, place.open("xb") as stream:
        # zipfile reads no more than the size that was declared and bounded above, and checks the checksum at the end.
        while chunk := source.read(_COPY_BYTES):
            yield stream.write(chunk)
        stream.flush()
        os.fchmod(stream.fileno(), PROGRAM_MODE if inside in {spec.program, *spec.executables} else FILE_MODE)
        files.sync(stream.fileno())
