"""What a simulator is told to be: a file of JSON at its root, read at every command, so that a test may change it at any time."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

FILE = "simulator.json"
COUNTS = "faults.json"
XDG = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")
"""What selects the state: other values, another daemon (``state.xdg``)."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault on demand.

    Args:
        command: What the command line begins with, as ``ls`` or ``policy allow``; empty: every command.
        kind: A key of :data:`jamcore.testing.sbx.bugs.FAULTS`.
        after: How many such commands are let pass first.
        times: How many are hit then.
        seconds: For ``slow``.
        code: For ``exit``.
        text: For ``exit``.
    """

    command: str
    kind: str
    after: int = 0
    times: int = 1
    seconds: float = 0.0
    code: int = 1
    text: str = ""


@dataclass(frozen=True, slots=True)
class Governance:
    """An organisation's rules; nothing but its allows counts (``policy.governance``)."""

    organization: str
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Image:
    """What an image has besides the system of the host: read-only directories or files of the host, by path in the guest."""

    reference: str
    binds: Mapping[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    """Directories before the others in ``PATH``."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """Everything that can be said about a simulator.

    Args:
        version: One of :data:`jamcore.testing.sbx.known.VERSIONS`.
        login: ``in``, ``out`` or ``expired``.
        user: Who is signed in.
        policy: What the policy was initialised with before the first command; empty: not at all.
        virtualisation: Whether the machine can run sandboxes.
        idle_s: The time of the auto-stop.
        rule_delay_s: How long a rule is listed before it is honoured.
        term_s: How long a caller of ``exec`` goes on after SIGTERM.
        daemon_limit_s: How long a daemon lives at most, so that none is left on a machine.
        bugs: The switches that are on.
        faults: The faults that wait.
        world: What the proxy finds outside, by host: an address of the loopback as ``127.0.0.1:8080``. Others are looked up.
        images: What images hold, by their beginnings.
        governance: An organisation's rules.
    """

    version: str = "0.47"
    login: str = "in"
    user: str = "somebody"
    policy: str = "balanced"
    virtualisation: bool = True
    idle_s: float = 30.0
    rule_delay_s: float = 0.12
    term_s: float = 29.0
    daemon_limit_s: float = 1800.0
    bugs: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    world: Mapping[str, str] = field(default_factory=dict)
    images: tuple[Image, ...] = ()
    governance: Governance | None = None

    def bug(self, name: str) -> bool:
        """Whether a switch is on."""
        return name in self.bugs

    def image(self, reference: str) -> Image:
        """Return what an image holds."""
        return next((image for image in self.images if reference.startswith(image.reference)), Image(reference))


def read(root: Path) -> Configuration:
    """Read what a simulator is told to be."""
    said: dict[str, Any] = json.loads((root / FILE).read_text(encoding="utf-8"))
    governance = said.pop("governance")
    return Configuration(
        **{
            **said,
            "bugs": tuple(said["bugs"]),
            "faults": tuple(Fault(**each) for each in said["faults"]),
            "images": tuple(Image(each["reference"], each["binds"], tuple(each["path"])) for each in said["images"]),
            "governance": governance
            and Governance(governance["organization"], tuple(governance["allow"]), tuple(governance["deny"])),
        }
    )


def write(root: Path, configuration: Configuration) -> None:
    """Replace the file in one step."""
    new = root / f"{FILE}.new"
    new.write_text(json.dumps(asdict(configuration), indent=1), encoding="utf-8")
    new.replace(root / FILE)


def change(root: Path, **changes: Any) -> Configuration:
    """Change some fields and return what it is now."""
    configuration = replace(read(root), **changes)
    write(root, configuration)
    return configuration


@dataclass(frozen=True, slots=True)
class Instance:
    """One set of state: where everything of it lies."""

    root: Path
    key: str

    @property
    def directory(self) -> Path:
        """Where all of it lies."""
        return self.root / "instances" / self.key

    @property
    def sandboxd(self) -> Path:
        """The daemon's own directory."""
        return self.directory / "sandboxes" / "sandboxes" / "sandboxd"

    @property
    def socket(self) -> Path:
        """Where the daemon listens."""
        return self.sandboxd / "sandboxd.sock"

    @property
    def log(self) -> Path:
        """What it writes."""
        return self.sandboxd / "daemon.log"

    @property
    def fresh(self) -> bool:
        """Whether it is another than the one that the configuration speaks of: empty, and signed out."""
        return self.key != DEFAULT

    def make(self) -> Instance:
        """Make its directories."""
        self.sandboxd.mkdir(parents=True, exist_ok=True, mode=0o700)
        return self


DEFAULT = "default"


def instance(root: Path, environment: Mapping[str, str]) -> Instance:
    """Return which state an environment selects."""
    said = "\0".join(f"{name}={environment[name]}" for name in XDG if environment.get(name))
    return Instance(root, hashlib.sha256(said.encode()).hexdigest()[:12] if said else DEFAULT)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file's lock among processes."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def take_fault(root: Path, command: str, faults: tuple[Fault, ...]) -> Fault | None:
    """Count one command and return the fault that hits it."""
    hit = None
    with locked(root / f"{COUNTS}.lock"):
        path = root / COUNTS
        counts: dict[str, int] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        for fault in faults:
            if fault.command and not f"{command} ".startswith(f"{fault.command} "):
                continue
            key = f"{fault.command}|{fault.kind}|{fault.after}|{fault.text}"
            counts[key] = counts.get(key, 0) + 1
            if hit is None and fault.after < counts[key] <= fault.after + fault.times:
                hit = fault
        path.write_text(json.dumps(counts), encoding="utf-8")
    return hit
