"""Small made-up archives of programs, and a disk that fails while they are installed."""

from __future__ import annotations

import base64
import hashlib
import io
import stat
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from jamcore.system.files import Files


def make_wheel(
    directory: Path, members: Mapping[str, bytes], *, version: str = "1.0", modes: Mapping[str, int] | None = None
) -> Path:
    """Write a wheel of the distribution ``good-bin`` that pip accepts."""
    directory.mkdir(exist_ok=True)
    path = directory / f"good_bin-{version}-py3-none-any.whl"
    info = f"good_bin-{version}.dist-info"
    rest = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: good-bin\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    everything = {**members, **rest}
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
        for name, data in everything.items()
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in (everything | {f"{info}/RECORD": f"{record}{info}/RECORD,,\n".encode()}).items():
            member = zipfile.ZipInfo(name)
            member.external_attr = (modes or {}).get(name, stat.S_IFREG | 0o644) << 16
            archive.writestr(member, data)
    return path


def entry(name: str, data: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    """Return a member of a tarball; ``fields`` are set on its header."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def make_tarball(path: Path, members: Iterable[tuple[tarfile.TarInfo, bytes]]) -> Path:
    """Write a tarball as a registry of npm packages has it."""
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return path


class Killed(BaseException):
    """Stands for a SIGKILL: nothing cleans up after it."""


class Failing(Files):
    """Fails or is killed at the n-th durable effect."""

    def __init__(self, at: int, error: BaseException | None = None) -> None:
        self._left = at
        self._error = error or Killed()

    def sync(self, descriptor: int) -> None:
        """Count down."""
        self._left -= 1
        if self._left == 0:
            raise self._error
        super().sync(descriptor)
