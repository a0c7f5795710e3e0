"""What a test may leave behind: nothing.

A :class:`Watch` looks at the test process before and after, and names what is new: processes that descend from it (found by descent,
never by name), mounts, open descriptors, files and sockets below watched directories, environment variables, the working directory.

Descent survives ``setsid`` and double forks, because the watching process is made the reaper of its orphaned descendants
(``PR_SET_CHILD_SUBREAPER``) while it watches. One consequence for tests: a descendant that died may stay visible as a zombie until
its parent waits for it, so ask :func:`is_alive`, not ``os.kill(pid, 0)``.
"""

from __future__ import annotations

import ctypes
import os
import re
import select
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
PR_GET_CHILD_SUBREAPER = 37
WALL = 0x40000000
"""Children of every kind (wait(2)); Python has no name for it."""
SETTLE_S = 3.0
"""How long a process that was told to end may take to be gone before it counts as leaked."""

_DEAD = "ZX"
_VOLATILE_VARIABLES = frozenset({"PYTEST_CURRENT_TEST", "COLUMNS", "LINES"})


@dataclass(frozen=True, slots=True, order=True)
class Process:
    """A process, told from a later one with the same number by its start time (clock ticks since boot)."""

    pid: int
    started: int
    session: int = field(compare=False)
    command: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was there at one moment, besides processes."""

    mounts: frozenset[str]
    descriptors: dict[int, str]
    files: frozenset[str]
    environment: dict[str, str]
    directory: str


def descendants(pid: int | None = None) -> frozenset[Process]:
    """Return every living descendant of ``pid`` (default: this process). Zombies are dead."""
    if pid is None and _child() is _Child.NONE:
        return frozenset()
    children: dict[int, list[tuple[str, Process]]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and (parsed := _read_stat(int(entry.name))):
            state, parent, process = parsed
            children.setdefault(parent, []).append((state, process))
    found: set[Process] = set()
    pending = list(children.get(os.getpid() if pid is None else pid, ()))
    while pending:
        state, process = pending.pop()
        pending.extend(children.get(process.pid, ()))
        if state not in _DEAD:
            found.add(process)
    return frozenset(replace(process, command=_command(process)) for process in found)


def is_alive(process: Process) -> bool:
    """Whether exactly this process still runs; a zombie does not, and neither does a successor with its number."""
    parsed = _read_stat(process.pid)
    return parsed is not None and parsed[0] not in _DEAD and parsed[2] == process


def settle(processes: Iterable[Process], timeout_s: float = SETTLE_S) -> tuple[Process, ...]:
    """Wait until the processes are gone, all together at most ``timeout_s``, and return those that are not."""
    poll = select.poll()
    watched: dict[int, Process] = {}
    for process in processes:
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            continue
        if is_alive(process):
            watched[descriptor] = process
            poll.register(descriptor, select.POLLIN)
        else:
            os.close(descriptor)
    try:
        return _wait_all(poll, dict(watched), timeout_s)
    finally:
        for descriptor in watched:
            os.close(descriptor)


def kill(processes: Iterable[Process]) -> None:
    """End leaked processes by SIGKILL, each proven to be the one meant."""
    targets = tuple(processes)
    for process in targets:
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            continue
        try:
            if is_alive(process):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it ended in between
        finally:
            os.close(descriptor)
    settle(targets)


def mounts_below(roots: Iterable[Path]) -> frozenset[str]:
    """Return the mount points of this mount namespace below ``roots``. Octal escapes are undone."""
    prefixes = tuple(os.fsencode(root.resolve()) for root in roots)
    points = [_unescape(line.split(b" ")[4]) for line in Path("/proc/self/mountinfo").read_bytes().splitlines()]
    return frozenset(os.fsdecode(p) for p in points if any(p == prefix or p.startswith(prefix + b"/") for prefix in prefixes))


def open_descriptors() -> dict[int, str]:
    """Return this process's open descriptors and what each names."""
    found: dict[int, str] = {}
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found[int(entry.name)] = str(entry.readlink())
        except FileNotFoundError:
            continue  # the descriptor of the listing itself
    return found


def files_below(roots: Iterable[Path]) -> frozenset[str]:
    """Return every path below ``roots``, sockets included, without following symbolic links."""
    return frozenset(
        os.path.join(directory, name)  # noqa: PTH118 - names may be any bytes; no Path is needed
        for root in roots
        for directory, directories, names in os.walk(root)
        for name in (*directories, *names)
    )


@contextmanager
def adopting_orphans() -> Iterator[None]:
    """Make this process the reaper of its orphaned descendants for the duration of the block."""
    libc = ctypes.CDLL(None, use_errno=True)
    previous = ctypes.c_int()
    libc.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(previous), 0, 0, 0)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, previous.value, 0, 0, 0)


class Watch:
    """Compares the test process before and after.

    Args:
        directories: Where new files, sockets and mounts count as leaked. Watch a directory of the test's own: others' files in a
            shared one would be blamed on the test.
        descriptors: Also compare open descriptors. Off by default: caches of libraries open some lazily, for good reason.
    """

    def __init__(self, *, directories: Iterable[Path] = (), mount_roots: Iterable[Path] = (), descriptors: bool = False) -> None:
        self._directories = tuple(directories)
        self._mount_roots = (*self._directories, *mount_roots)
        self._descriptors = descriptors
        self._before = self.snapshot()
        self._processes_before = descendants()
        self._dead_before = _zombie_children()

    def snapshot(self) -> Snapshot:
        """Look now."""
        return Snapshot(
            mounts=mounts_below(self._mount_roots),
            descriptors=open_descriptors() if self._descriptors else {},
            files=files_below(self._directories),
            environment={k: v for k, v in os.environ.items() if k not in _VOLATILE_VARIABLES},
            directory=os.getcwd(),  # noqa: PTH109 - compared as text
        )

    def leaks(self, timeout_s: float = SETTLE_S) -> tuple[str, ...]:
        """Name what is new since the watch began. Processes get ``timeout_s`` to end; those that do not are killed."""
        left = settle(descendants() - self._processes_before, timeout_s)
        kill(left)
        after, before = self.snapshot(), self._before
        opened = {n: target for n, target in after.descriptors.items() if before.descriptors.get(n) != target}
        return (
            *(f"process {p.pid} (session {p.session}): {p.command}" for p in sorted(left)),
            *(f"mount {point}" for point in sorted(after.mounts - before.mounts)),
            *(f"descriptor {n}: {target}" for n, target in sorted(opened.items())),
            *(f"file {path!r}" for path in sorted(after.files - before.files)),
            *_environment_changes(before.environment, after.environment),
            *([f"working directory {after.directory!r}, was {before.directory!r}"] if after.directory != before.directory else ()),
        )

    def reap(self) -> None:
        """Wait for dead children that nobody waited for, adopted orphans mostly, so that they do not pile up over a run."""
        for process in _zombie_children() - self._dead_before:
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG)


def _unescape(point: bytes) -> bytes:
    """Undo the octal escapes of mountinfo: space, tab, newline and backslash."""
    return re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), point)


class _Child(Enum):
    """What there is of children of this process."""

    NONE = auto()
    ALIVE = auto()
    DEAD = auto()
    """At least one has ended, and nobody has waited for it."""


def _child() -> _Child:
    """Ask the kernel, which spares most tests a look at every process of the machine.

    Where this process adopts its orphans, no child means no descendant.
    """
    try:
        dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT | WALL)
    except ChildProcessError:
        return _Child.NONE
    return _Child.ALIVE if dead is None else _Child.DEAD


def _zombie_children() -> frozenset[Process]:
    if _child() is not _Child.DEAD:
        return frozenset()
    stats = (_read_stat(int(entry.name)) for entry in os.scandir("/proc") if entry.name.isdigit())
    return frozenset(stat[2] for stat in stats if stat and stat[1] == os.getpid() and stat[0] in _DEAD)


def _environment_changes(before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
    """Name changed variables without their values, which may be secrets."""
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            how = "removed" if name not in after else "added" if name not in before else "changed"
            yield f"environment variable {name} {how}"


def _wait_all(poll: select.poll, waiting: dict[int, Process], timeout_s: float) -> tuple[Process, ...]:
    """Wait for the descriptors of processes to become readable, which is their end."""
    deadline = time.monotonic() + timeout_s
    while waiting and (left_s := deadline - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(left_s * 1000):
            poll.unregister(descriptor)
            del waiting[descriptor]
    return tuple(waiting.values())


def _read_stat(pid: int) -> tuple[str, int, Process] | None:
    """Return state, parent and identity from ``/proc``, or ``None`` when the process is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    name, _, rest = stat.partition(" (")[2].rpartition(") ")
    fields = rest.split()  # from field 3 (state) of proc(5)
    return fields[0], int(fields[1]), Process(pid, int(fields[19]), int(fields[3]), f"[{name}]")


def _command(process: Process) -> str:
    """Return its arguments, or the name of its program when it has none or is gone."""
    try:
        arguments = Path(f"/proc/{process.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return process.command
    return arguments[:200] or process.command
