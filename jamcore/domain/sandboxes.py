"""What an engine and the core say to each other about sandboxes: isolation, presence, specifications and exits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import ClassVar

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from jamcore.domain.errors import FaultError, RefusalError
from jamcore.domain.records import Record

LEAST_CPUS, MOST_CPUS = 0.01, 4096.0
"""The kernel shares processors out in slices of at least 1 ms of 100 ms."""
LEAST_MEMORY_BYTES = 64 << 20
"""Process 1 and one small program need 30 MiB; below this a sandbox only fails in ways that are hard to read."""
LEAST_PROCESSES, MOST_PROCESSES = 16, 1 << 22
"""Process 1 and its helpers are five; the kernel has no more than four million numbers."""
LEAST_DISK_BYTES = 16 << 20
MOST_BYTES = 1 << 50
"""A petabyte: more is a typing error."""


class Isolation(IntEnum):
    """How much stands between a guest and the host, weakest first."""

    NONE = 0
    PROCESS = 1
    NAMESPACE = 2
    KERNEL = 3
    MICROVM = 4


class Presence(StrEnum):
    """Whether a sandbox exists. "Unknown" is an error, never a value: unknown is not absent."""

    RUNNING = "running"
    STOPPED = "stopped"
    ABSENT = "absent"


class Access(StrEnum):
    """How a mount may be used."""

    READ_WRITE = "rw"
    READ_ONLY = "ro"


class HostMount(Record):
    """A host directory (absolute, resolved by the core) shown to the guest at a fixed guest path.

    ``owned``: the directory is Jam's own, so an engine may give it to the user that its guests run as. A person's is never changed.
    """

    host_path: str
    guest_path: str
    access: Access
    owned: bool = True


class CloneSource(Record):
    """An engine-made private clone: the primary checkout on the host and the commit that the clone starts from (CAP-7)."""

    host_path: str
    commit: str
    guest_path: str


class Resources(Record):
    """Upper bounds of a sandbox; ``None`` means the engine's default.

    All are of the whole sandbox but ``memory_per_process_bytes``, which bounds the address space of each process: many engines can hold
    that where they cannot hold a sandbox's memory, and it is never taken for it.
    """

    memory_bytes: int | None = Field(None, ge=LEAST_MEMORY_BYTES, le=MOST_BYTES)
    cpus: float | None = Field(None, ge=LEAST_CPUS, le=MOST_CPUS, allow_inf_nan=False)
    processes: int | None = Field(None, ge=LEAST_PROCESSES, le=MOST_PROCESSES)
    disk_bytes: int | None = Field(None, ge=LEAST_DISK_BYTES, le=MOST_BYTES)
    memory_per_process_bytes: int | None = Field(None, ge=LEAST_MEMORY_BYTES, le=MOST_BYTES)

    @model_serializer(mode="wrap")
    def _as_it_was_stored(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Leave out what came after the first plans were stored, where it is not used: their canonical form never changes."""
        data: dict[str, object] = handler(self)
        if self.memory_per_process_bytes is None:
            del data["memory_per_process_bytes"]
        return data


class SandboxSpec(Record):
    """Everything an engine needs to make one sandbox. The core derives it from a plan; engines never see the plan.

    ``guest_disk`` is a private host directory, made by the core, that becomes the sandbox's own lasting disk: the guest's home,
    and the clone when there is one. ``reach_ports`` are guest loopback TCP ports whose connections arrive on the host.
    ``environment`` is the base environment of every exec and holds no secret. ``proof`` is the owner's nonce, for engines that keep it
    where no guest can write (OWN-8); it is not the guest's copy, which is written once the sandbox runs (OWN-1).
    """

    name: str
    guest_disk: str
    mounts: tuple[HostMount, ...] = ()
    clone: CloneSource | None = None
    environment: tuple[tuple[str, str], ...] = ()
    resources: Resources = Resources()
    reach_ports: tuple[int, ...] = ()
    proof: str = ""


class TerminalSize(Record):
    """Rows and columns of a PTY."""

    rows: int
    columns: int


class ExecSpec(Record):
    """One process in a running sandbox. ``argv[0]`` is looked up in the guest's PATH; no shell is involved.

    ``environment`` is added to the sandbox's base environment. With ``terminal`` the process gets a PTY as its controlling
    terminal, stderr is merged into stdout. ``timeout_s`` ends the whole process tree; ``None`` leaves bounding to the owner.
    ``while_frozen`` is for a program of Jam's own that is wanted while the guest stands still: it starts and runs all the same.
    """

    argv: tuple[str, ...]
    cwd: str
    environment: tuple[tuple[str, str], ...] = ()
    terminal: TerminalSize | None = None
    timeout_s: float | None = None
    while_frozen: bool = False


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a guest process ended. Exactly one of ``code`` and ``signal`` is set; ``timed_out`` says that Jam ended it."""

    code: int | None
    signal: int | None
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        """Whether the process ended with code 0."""
        return self.code == 0


@dataclass(frozen=True, slots=True)
class InventoryItem:
    """One sandbox that the engine knows under its own root."""

    name: str
    presence: Presence


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a health report: what was looked at, whether it holds, and what to do when it does not."""

    subject: str
    ok: bool
    detail: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class EngineHealth:
    """What an engine found when it was probed. Never raised: a missing engine is a result (CAP-1)."""

    engine: str
    usable: bool
    findings: tuple[Finding, ...]


@dataclass(eq=False)
class EngineUnknownError(FaultError):
    """The engine could not say whether something is there. Nothing may be cleaned up on it."""

    code: ClassVar[str] = "engine.unknown"
    hint: ClassVar[str] = "Run `jam doctor`; when the engine answers again, repeat the command."

    engine: str
    operation: str
    detail: str


@dataclass(eq=False)
class EngineUnavailableError(RefusalError):
    """The engine cannot run on this machine as it is set up."""

    code: ClassVar[str] = "engine.unavailable"
    hint: ClassVar[str] = "Run `jam doctor`: it names the setting or package that is missing."

    engine: str
    reason: str
    setting: str = ""


@dataclass(eq=False)
class EngineFailedError(FaultError):
    """The engine did answer, and the answer is a failure."""

    code: ClassVar[str] = "engine.failed"
    hint: ClassVar[str] = "The daemon's log has the engine's own words. Nothing of the workspace was removed."

    engine: str
    operation: str
    detail: str


@dataclass(eq=False)
class SandboxGoneError(FaultError):
    """The sandbox is not running (any more), so the request could not be carried out."""

    code: ClassVar[str] = "engine.sandbox_gone"
    hint: ClassVar[str] = "Resume the room: Jam starts the sandbox again with its disk."

    sandbox: str


@dataclass(eq=False)
class ExecRefusedError(RefusalError):
    """The guest could not start the program: not found, not executable, a bad directory, or a bound was reached."""

    code: ClassVar[str] = "engine.exec_refused"
    hint: ClassVar[str] = (
        "Is the program where the sandbox sees it: below /usr, or in the engine's image? "
        "One that Jam brought is made whole by `jam provider install PROVIDER`."
    )

    sandbox: str
    program: str
    reason: str
    provider: str = ""
    """Whose sandbox it is; an engine does not know that, and who asked it does."""
