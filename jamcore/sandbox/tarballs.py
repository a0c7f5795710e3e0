"""Reads a program out of an npm package's tarball. Blocking; run in a thread."""

from __future__ import annotations

import gzip
import os
import tarfile
import zlib
from pathlib import Path
from typing import IO, cast

from jamcore.domain.limits import TOOLCHAIN_BYTES
from jamcore.domain.providers import ToolchainSpec
from jamcore.sandbox.archives import COPY_BYTES, BadArchiveError, Contents, Member, Told, quiet, write
from jamcore.system.files import Files

_SLACK_BYTES = 64 << 20
"""Of headers and of padding, beside the members themselves."""
_BROKEN = (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError, OverflowError, IndexError)
"""What the standard library says of a tarball that it cannot read."""


class _Bounded:
    """The tarball's text as :mod:`tarfile` reads it: no header, which it takes in one piece, is large, and there is an end to all."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= COPY_BYTES or self._stream.tell() > TOOLCHAIN_BYTES + _SLACK_BYTES:
            raise BadArchiveError("the tarball holds more than a program should")
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()


def unpack_tarball(tarball: Path, spec: ToolchainSpec, target: Path, *, files: Files, told: Told = quiet) -> int:
    """Unpack the members below ``spec.root`` into ``target`` at the same relative places, durably. Returns how many files.

    A tarball tells what it holds only as it is read, so that a bad member may come after good ones: whoever calls throws all of them away.

    Raises:
        BadArchiveError: A member would leave the target, is a link, is there twice, or the whole breaks a bound.
        OSError: The disk failed.
    """
    count, seen = 0, Contents("tarball")
    try:
        with tarball.open("rb") as raw, gzip.GzipFile(fileobj=raw) as text:
            total = os.fstat(raw.fileno()).st_size

            def wrote(_bytes: int) -> None:
                told(min(raw.tell(), total), total)

            bounded = cast("IO[bytes]", _Bounded(text))
            with tarfile.open(fileobj=bounded, mode="r:", errorlevel=2) as archive:
                for info in archive:
                    if info.isdir() or not info.name.startswith(f"{spec.root}/"):
                        seen.count(info.size)  # it is kept in memory, and has to be read to come to the next
                        continue
                    seen.admit(
                        (Member(info.name, info.size, info.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not info.issparse()),)
                    )
                    source = archive.extractfile(info)
                    assert source is not None  # of a regular file it never is
                    with source:
                        write(source, info.name, target, spec, files, wrote)
                    count += 1
            told(total, total)
    except _BROKEN as error:
        raise BadArchiveError(f"not a readable tarball: {error}") from error
    return count
