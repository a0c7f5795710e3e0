"""What can go wrong between a client and the daemon, and with the private socket that joins them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from jamcore.domain.errors import FaultError, RefusalError

if TYPE_CHECKING:
    from jamcore.control.schemas import ErrorBody  # the records cost 60 ms, and who only asks the daemon something needs none


@dataclass(eq=False)
class RemoteRefusalError(RefusalError):
    """The daemon refused: its code, context and hint, rebuilt at the client."""

    code: ClassVar[str] = "refused.by_daemon"
    hint: ClassVar[str] = "Read the reason that the daemon gave."

    answer: ErrorBody

    def __post_init__(self) -> None:
        """Carry the daemon's code and hint instead of this class's own."""
        vars(self).update(code=self.answer.code, hint=self.answer.hint)

    def context(self) -> dict[str, str]:
        """Return the context that the daemon sent."""
        return dict(self.answer.context)


@dataclass(eq=False)
class RemoteFaultError(FaultError):
    """Something broke in the daemon: its code, context and hint, rebuilt at the client."""

    code: ClassVar[str] = "fault.in_daemon"
    hint: ClassVar[str] = "Look at `jam daemon logs`."

    answer: ErrorBody

    def __post_init__(self) -> None:
        """Carry the daemon's code and hint instead of this class's own."""
        vars(self).update(code=self.answer.code, hint=self.answer.hint)

    def context(self) -> dict[str, str]:
        """Return the context that the daemon sent."""
        return dict(self.answer.context)


@dataclass(eq=False)
class DaemonNotRunningError(RefusalError):
    """No daemon runs for this app directory."""

    code: ClassVar[str] = "daemon.not_running"
    hint: ClassVar[str] = "Start it with `jam daemon start`; most commands do so themselves."

    app_directory: str


@dataclass(eq=False)
class DaemonStoppedError(RefusalError):
    """The daemon was stopped while this command was watching."""

    code: ClassVar[str] = "daemon.stopped"
    hint: ClassVar[str] = "Nothing is lost. `jam attach` goes on where this ended, and starts the daemon again."

    last_seq: int


@dataclass(eq=False)
class DaemonStartFailedError(FaultError):
    """The daemon was started and ended at once."""

    code: ClassVar[str] = "daemon.start_failed"
    hint: ClassVar[str] = (
        "The reason is the daemon's own. `jam doctor` says what can be seen without it; `jam daemon logs` may say more."
    )

    app_directory: str
    reason: str


@dataclass(eq=False)
class DaemonStartTimeoutError(FaultError):
    """The daemon was started and did not begin to listen in time; it may say what it is about."""

    code: ClassVar[str] = "daemon.start_timeout"
    hint: ClassVar[str] = (
        "It goes on without this command. If it is busy with recovery, repeat the command later; `jam daemon logs` shows how far it is."
    )

    app_directory: str
    waited_s: float
    doing: str = ""


@dataclass(eq=False)
class DaemonOtherVersionError(RefusalError):
    """The running daemon is of another release than this command."""

    code: ClassVar[str] = "daemon.other_version"
    hint: ClassVar[str] = "Run `jam daemon stop` (work is kept and comes back), then repeat the command."

    daemon: str
    client: str


@dataclass(eq=False)
class DaemonOlderBusyError(RefusalError):
    """The running daemon is of an older release than this command, and it is working, so it was not replaced."""

    code: ClassVar[str] = "daemon.older_busy"
    hint: ClassVar[str] = (
        "`jam daemon restart` waits for what runs and then starts this release; with --now it interrupts turns first. Conversations are"
        " kept."
    )

    daemon: str
    client: str
    working: str


@dataclass(eq=False)
class DaemonNewerError(RefusalError):
    """The running daemon is of a newer release than this command, and a newer daemon is never replaced by an older one."""

    code: ClassVar[str] = "daemon.newer"
    hint: ClassVar[str] = "Upgrade this command to the daemon's release, or run the `jam` that is installed beside that daemon."

    daemon: str
    client: str


@dataclass(eq=False)
class ConnectionDroppedError(FaultError):
    """The daemon's answer did not arrive whole: it ended, or it dropped the connection."""

    code: ClassVar[str] = "daemon.connection_dropped"
    hint: ClassVar[str] = "Nothing is lost: repeat the command, or look with `jam ls`. `jam daemon status` says whether it runs."

    request: str
    reason: str
    operation: str = ""


@dataclass(eq=False)
class NoAnswerError(FaultError):
    """The daemon did not answer a question in time."""

    code: ClassVar[str] = "daemon.no_answer"
    hint: ClassVar[str] = (
        "It may be overloaded or stuck: look at `jam daemon logs`. `jam daemon stop --force` ends it; work is kept."
    )

    request: str
    waited_s: float
    pid: str = "unknown"


@dataclass(eq=False)
class ForeignDaemonError(RefusalError):
    """Another user listens on the socket that the app directory names, so nothing was sent."""

    code: ClassVar[str] = "daemon.foreign"
    hint: ClassVar[str] = "Use an app directory of your own: --app-directory or JAM_HOME."

    socket: str
    owner_uid: int


@dataclass(eq=False)
class AddressUnreadableError(RefusalError):
    """The app directory, or the daemon's address in it, cannot be read."""

    code: ClassVar[str] = "daemon.address_unreadable"
    hint: ClassVar[str] = "Check the owner and mode of the app directory, or name another with --app-directory."

    path: str
    reason: str


@dataclass(eq=False)
class UnsafeRuntimeDirectoryError(RefusalError):
    """The directory for the socket is not a private directory of this user (SEC-6)."""

    code: ClassVar[str] = "control.unsafe_directory"
    hint: ClassVar[str] = "Remove it if it is yours, or name another one with JAM_RUNTIME_DIRECTORY."

    path: str
    reason: str


@dataclass(eq=False)
class SocketOccupiedError(RefusalError):
    """Something lies where the socket belongs, and it may not be replaced."""

    code: ClassVar[str] = "control.socket_occupied"
    hint: ClassVar[str] = "Find out what it is; remove it if it is left over."

    path: str
    reason: str


@dataclass(eq=False)
class SocketPathTooLongError(RefusalError):
    """No path for the socket is short enough for the system (SEC-6)."""

    code: ClassVar[str] = "control.socket_path_too_long"
    hint: ClassVar[str] = "Set JAM_RUNTIME_DIRECTORY to a short directory of your own."

    path: str
    limit: int


@dataclass(eq=False)
class PeerRefusedError(RefusalError):
    """Only the user who runs the daemon may talk to it (SEC-6)."""

    code: ClassVar[str] = "control.peer_refused"
    hint: ClassVar[str] = "Run the command as the user who runs the daemon."

    peer_uid: str


@dataclass(eq=False)
class HostRefusedError(RefusalError):
    """A request over TCP was sent to a name that is not the daemon's own (CTRL-2)."""

    code: ClassVar[str] = "control.host_refused"
    hint: ClassVar[str] = "Use the address of `listen_tcp` as it is written there, or localhost with its port."

    host: str


@dataclass(eq=False)
class OriginRefusedError(RefusalError):
    """A request over TCP comes from a page of another origin (CTRL-2)."""

    code: ClassVar[str] = "control.origin_refused"
    hint: ClassVar[str] = "Only pages that the daemon itself served, and programs, may use it."

    origin: str


@dataclass(eq=False)
class TokenRefusedError(RefusalError):
    """A request over TCP does not show the daemon's token (CTRL-2)."""

    code: ClassVar[str] = "control.token_refused"
    hint: ClassVar[str] = "Send `Authorization: Bearer TOKEN`; the token is the content of cfg/control-token in the app directory."

    shown: str


@dataclass(eq=False)
class TokenUnusableError(RefusalError):
    """The token for TCP is not a private file of this user, so nothing listens (CTRL-2)."""

    code: ClassVar[str] = "control.token_unusable"
    hint: ClassVar[str] = "Remove the file, and the next start makes a new token; or switch `listen_tcp` off."

    path: str
    problem: str


@dataclass(eq=False)
class TcpUnusableError(RefusalError):
    """The daemon cannot listen on the address of ``listen_tcp``."""

    code: ClassVar[str] = "control.tcp_unusable"
    hint: ClassVar[str] = "Choose another port with `listen_tcp`, or end what listens there."

    address: str
    problem: str


@dataclass(eq=False)
class StreamCutError(FaultError):
    """An event stream ended without its end mark; events after ``last_seq`` may exist."""

    code: ClassVar[str] = "control.stream_cut"
    hint: ClassVar[str] = "Attach again: the stream goes on after the last event that was shown."

    last_seq: int


@dataclass(eq=False)
class SettingsInvalidError(RefusalError):
    """A setting has a value that Jam cannot use (CONF-1, START-4)."""

    code: ClassVar[str] = "settings.invalid"
    hint: ClassVar[str] = "Correct it where it comes from; `jam config show` lists every setting and its origin."

    option: str
    origin: str
    problem: str
