"""What /proc says about the sandbox's processes, and the signals of process 1 to all of them. Standard library only."""

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


def scan() -> list[Entry]:
    """Return every process but process 1. What ends meanwhile is left out."""
    return [
        Entry(int(name), int(fields[1]), fields[0], int(fields[17]))
        for name in os.listdir("/proc")
        if name.isdigit() and name != "1" and (fields := _stat(f"/proc/{name}/stat"))
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
    children: dict[int, list[Entry]] = {}
    for entry in entries:
        children.setdefault(entry.parent, []).append(entry)
    found, todo = [], [root]
    while todo:
        for entry in children.get(todo.pop(), ()):
            todo.append(entry.pid)
            if entry.state not in DEAD:
                found.append(entry.pid)
    return found


def strangers(own: set[int], entries: list[Entry]) -> list[int]:
    """Return process 1's living children that it did not start: only a killed adopter leaves any."""
    return [entry.pid for entry in entries if entry.parent == 1 and entry.pid not in own and entry.state not in DEAD]


def send(pid: int, number: int) -> None:
    """Signal one process; one that is gone is no error."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def everyone(number: int) -> None:
    """Signal every process but process 1, in one step of the kernel: nothing forks its way past it."""
    send(-1, number)


def while_all_stand(action: Callable[[], None]) -> None:
    """Do something while nobody can fork: everyone is stopped before it and goes on after it, but who had been stopped already."""
    before = {entry.pid for entry in scan() if entry.state in STOPPED}
    everyone(signal.SIGSTOP)
    action()
    thaw(before)


def freeze(own: set[int]) -> tuple[int, set[int]]:
    """Stop everyone. Return how many of the guest's own stand still, and who was stopped before; -1 when some would not in time.

    ``own`` are process 1's helpers, which stand still too and are not counted. A thread that is still inside a system call counts as
    moving, whatever its process says.
    """
    before = {entry.pid for entry in scan() if entry.state in STOPPED}
    deadline = time.monotonic() + FREEZE_LIMIT_S
    calm = waiting = 0
    while True:
        everyone(signal.SIGSTOP)
        entries = scan()
        moving = [(entry, left) for entry in entries if (left := _moving(entry))]
        # Twice in a row: what was being forked during the first look is stopped by the second signal.
        calm = calm + 1 if not moving else 0
        if calm == 2:
            return sum(entry.state not in DEAD and entry.pid not in own for entry in entries), before
        if time.monotonic() > deadline:
            thaw(before)
            return -1, before
        waiting = waiting + 1 if moving and all(left <= {WAITING} for _, left in moving) else 0
        if waiting >= VFORK_LOOKS:
            _let_vfork_finish([entry for entry, _ in moving], entries)
            waiting = 0
        time.sleep(LOOK_S)


def thaw(before: set[int]) -> None:
    """Let everyone go on but those who had been stopped before."""
    for entry in scan():
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
