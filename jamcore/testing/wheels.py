"""Wheels of made-up distributions, for tests of what is installed beside Jam: built by hand, installed as anybody's are."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

INSTALL_S = 120
"""How long the installer may take for a few kilobytes on a busy machine."""


def build_wheel(
    directory: Path,
    name: str,
    version: str,
    *,
    modules: Mapping[str, str],
    entries: Mapping[str, Mapping[str, str]],
    requires: tuple[str, ...] = (),
) -> Path:
    """Write a wheel of pure Python and return its path.

    Args:
        directory: Where it goes.
        name: The distribution.
        version: Its version.
        modules: Top-level modules by name, as text.
        entries: Entry points by group: what each name stands for.
        requires: Its requirements, as in ``Requires-Dist``.
    """
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    headers = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {each}" for each in requires)]
    groups = [
        f"[{group}]\n" + "".join(f"{entry} = {value}\n" for entry, value in named.items()) for group, named in entries.items()
    ]
    files = {f"{module}.py": text for module, text in modules.items()} | {
        f"{info}/METADATA": "\n".join(("Metadata-Version: 2.1", *headers, "")),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: jam\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "\n".join(groups),
    }
    record = [f"{path},sha256={_digest(text)},{len(text.encode())}" for path, text in files.items()]
    wheel = directory / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", "\n".join((*record, f"{info}/RECORD,,", "")))
    return wheel


def install_wheels(site: Path, *wheels: Path) -> None:
    """Install wheels into a directory of their own, with pip, without an index and without what they require."""
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile", "--target", str(site)]
    options = ["--disable-pip-version-check", "--no-cache-dir", "--root-user-action=ignore"]
    subprocess.run([*argv, *options, *map(str, wheels)], check=True, timeout=INSTALL_S)


def entry_points(site: Path) -> list[metadata.EntryPoint]:
    """Return all entry points of what is installed in a directory."""
    return [entry for each in metadata.distributions(path=[str(site)]) for entry in each.entry_points]


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
