"""What /proc says about a sandbox's processes, and the signals of its supervisor to all of them. Standard library only.

Which processes are a sandbox's is said by a :class:`Realm`: everything in a namespace of its own, or everything below one process.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

STOPPED = "Tt"
DEAD = "ZX"
WAITING = "D"
FREEZE_LIMIT_S = 5.0
"""How long a process may take to stand still: a long write to a slow disk is finished first."""
LOOK_S = 0.0005
TREE_LOOKS = 200
"""Looks at a tree that grows while it is signalled; a still one takes two."""
END_LIMIT_S = 8.0
"""How long ending a tree may take: less than its owner waits for it."""
VFORK_LIMIT_S = 0.05
"""How long a child of ``vfork`` may take to start its program when it is let go on: a millisecond, more on a busy machine."""
VFORK_LOOKS = 10
"""So many looks in a row at nothing but processes that wait in the kernel make a stopped child of ``vfork`` likely."""


class Entry:
    """One process as /proc shows it."""

    __slots__ = ("parent", "pid", "state", "threads")

    def __init__(self, pid: int, parent: int, state: str, threads: int) -> None:
        self.pid = pid
        self.parent = parent
        self.state = state
        self.threads = threads


class Realm:
    """A namespace whose process 1 is the supervisor: all that it sees is its own, and the kernel's signal to all misses nobody."""

    root = 1
    """To which process orphans fall."""

    def scan(self) -> list[Entry]:
        """Return every process but the supervisor. What ends meanwhile is left out."""
        return scan_all(self.root)

    def everyone(self, number: int) -> None:
        """Signal every process but the supervisor, in one step of the kernel: nothing forks its way past it."""
        send(-1, number)

    def end(self) -> None:
        """Kill everyone. The kernel kills the rest when process 1 ends; the signal only makes it sooner."""
        self.everyone(signal.SIGKILL)


class Tree(Realm):
    """Everything below this process, on a system that it shares with others. It must adopt orphans (``PR_SET_CHILD_SUBREAPER``).

    There is no one step for a tree, so everybody is looked for and signalled until a look finds nobody new. What a program has others
    start for it (a service manager, ``cron``) is not below and not seen.
    """

    def __init__(self) -> None:
        self.root = os.getpid()

    def scan(self) -> list[Entry]:
        """Return everything below this process."""
        entries = scan_all()
        below_root = set(_family(self.root, entries))
        return [entry for entry in entries if entry.pid in below_root]

    def everyone(self, number: int) -> None:
        """Signal everything below until no look finds anybody who was not signalled; bounded, for a tree that grows faster."""
        told: set[int] = set()
        for _ in range(TREE_LOOKS):
            new = [entry.pid for entry in self.scan() if entry.pid not in told and entry.state not in DEAD]
            if not new:
                return
            for pid in new:
                send(pid, number)
            told.update(new)

    def end(self) -> None:
        """Kill everything below and reap until nothing is left. What belongs to another user (``sudo``) may be; that is bounded."""
        deadline = time.monotonic() + END_LIMIT_S
        while time.monotonic() < deadline:
            self.everyone(signal.SIGSTOP)
            for entry in self.scan():
                send(entry.pid, signal.SIGKILL)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            time.sleep(LOOK_S)


def scan_all(but: int = 0) -> list[Entry]:
    """Return every process that /proc shows, but one."""
    return [
        Entry(int(name), int(fields[1]), fields[0], int(fields[17]))
        for name in os.listdir("/proc")
        if name.isdigit() and int(name) != but and (fields := _stat(f"/proc/{name}/stat"))
    ]


def _stat(path: str) -> list[str]:
    """Return the fields of a stat file after the name, which may hold anything; nothing when the process is gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return os.read(descriptor, 4096).rpartition(b") ")[2].decode("ascii").split()
    except OSError:
        return []
    finally:
        os.close(descriptor)


def below(root: int, entries: list[Entry]) -> list[int]:
    """Return the living descendants of a process."""
    states = {entry.pid: entry.state for entry in entries}
    return [pid for pid in _family(root, entries) if states[pid] not in DEAD]


def _family(root: int, entries: list[Entry]) -> list[int]:
    """Return the descendants of a process, the dead included: a zombie whose children live is on the way to them."""
    children: dict[int, list[int]] = {}
    for entry in entries:
        children.setdefault(entry.parent, []).append(entry.pid)
    found, todo = [], [root]
    while todo:
        more = children.get(todo.pop(), [])
        todo += more
        found += more
    return found


def strangers(realm: Realm, own: set[int], entries: list[Entry]) -> list[int]:
    """Return the supervisor's living children that it did not start: only a killed adopter leaves any."""
    return [entry.pid for entry in entries if entry.parent == realm.root and entry.pid not in own and entry.state not in DEAD]


def send(pid: int, number: int) -> None:
    """Signal one process; one that is gone is no error."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def while_all_stand(realm: Realm, action: Callable[[], None]) -> None:
    """Do something while nobody can fork: everyone is stopped before it and goes on after it, but who had been stopped already."""
    before = {entry.pid for entry in realm.scan() if entry.state in STOPPED}
    realm.everyone(signal.SIGSTOP)
    action()
    thaw(realm, before)


def freeze(realm: Realm, own: set[int]) -> tuple[int, set[int]]:
    """Stop everyone. Return how many of the guest's own stand still, and who was stopped before; -1 when some would not in time.

    ``own`` are process 1's helpers, which stand still too and are not counted. A thread that is still inside a system call counts as
    moving, whatever its process says.
    """
    before = {entry.pid for entry in realm.scan() if entry.state in STOPPED}
    deadline = time.monotonic() + FREEZE_LIMIT_S
    calm = waiting = 0
    while True:
        realm.everyone(signal.SIGSTOP)
        entries = realm.scan()
        moving = [(entry, left) for entry in entries if (left := _moving(entry))]
        # Twice in a row: what was being forked during the first look is stopped by the second signal.
        calm = calm + 1 if not moving else 0
        if calm == 2:
            return sum(entry.state not in DEAD and entry.pid not in own for entry in entries), before
        if time.monotonic() > deadline:
            thaw(realm, before)
            return -1, before
        waiting = waiting + 1 if moving and all(left <= {WAITING} for _, left in moving) else 0
        if waiting >= VFORK_LOOKS:
            _let_vfork_finish([entry for entry, _ in moving], entries)
            waiting = 0
        time.sleep(LOOK_S)


def thaw(realm: Realm, before: set[int]) -> None:
    """Let everyone go on but those who had been stopped before."""
    for entry in realm.scan():
        if entry.pid not in before:
            send(entry.pid, signal.SIGCONT)


def _moving(entry: Entry) -> set[str]:
    """Return the states of those threads that do not stand still; none: the process does, or is gone.

    The first thread alone says little: the one that calls ``vfork`` is any, and waits while the others stand still.
    """
    if entry.threads <= 1 or entry.state in DEAD:
        states = [entry.state]
    else:
        try:
            threads = os.listdir(f"/proc/{entry.pid}/task")
        except OSError:
            return set()  # it ended
        states = [fields[0] for thread in threads if (fields := _stat(f"/proc/{entry.pid}/task/{thread}/stat"))]
    return {state for state in states if state not in STOPPED and state not in DEAD}


def _let_vfork_finish(waiting: list[Entry], entries: list[Entry]) -> None:
    """The caller of ``vfork`` cannot stop before its child has started another program; a child that was stopped just then goes on.

    It gets time until its caller has returned, so that it is not stopped again before it could do anything on a busy machine.
    """
    parents = {entry.pid for entry in waiting}
    for entry in entries:
        if entry.parent in parents and entry.state in STOPPED:
            send(entry.pid, signal.SIGCONT)
    deadline = time.monotonic() + VFORK_LIMIT_S
    while time.monotonic() < deadline and any(WAITING in _moving(entry) for entry in waiting):
        time.sleep(LOOK_S)
