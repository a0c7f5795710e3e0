"""Process 1's adopters: which wait, which have a program below them, and how a program's whole tree is ended. Standard library only."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import time
from collections.abc import Callable

from jamcore.engines.supervised.guest import adopter, frames, processes

PROGRAMS = 64
"""Programs at once."""
SPARE = 2
"""Adopters that are kept waiting for the next program."""
KILL_LIMIT_S = 5.0
"""After that the adopter is killed as well, and what it had falls to process 1."""
GENTLE_ROUNDS = 3
"""Rounds of killing one tree before everybody is stopped for a moment, so that nothing can outrun the signals by forking."""
FORK_PAUSE_S = 0.1
"""After a fork that failed for want of processes, until the next try to have an adopter waiting."""
PR_SET_CHILD_SUBREAPER = 36


class Adopter:
    """An adopting process: waiting (``ident`` 0), or with a program below it. ``pid`` is 0 once it was reaped."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self.channel = channel
        self.take(0)

    def take(self, ident: int) -> None:
        """Begin a program."""
        self.ident = ident
        self.leader = 0
        self.begun = self.ended = False
        self.deadline = 0.0
        self.rounds = 0


class Adopters:
    """All of them, and the descriptors that the loop watches."""

    def __init__(self, realm: processes.Realm) -> None:
        self.realm = realm
        self.all: dict[int, Adopter] = {}
        self.idle: list[Adopter] = []
        self.poll = select.epoll()
        self.handlers: dict[int, Callable[[], None]] = {}
        self.on_report: Callable[[Adopter], None] = lambda _: None
        self.next_fork = 0.0

    def watch(self, descriptor: int, handler: Callable[[], None]) -> None:
        """Call ``handler`` whenever a descriptor can be read."""
        self.handlers[descriptor] = handler
        self.poll.register(descriptor, select.EPOLLIN)

    def find(self, ident: int) -> Adopter | None:
        """Return the one that has this program."""
        return next((one for one in self.all.values() if one.ident == ident), None) if ident else None

    def killing(self) -> list[Adopter]:
        """Return those whose program is being ended."""
        return [one for one in self.all.values() if one.deadline]

    def pids(self) -> set[int]:
        """Return the pids of those that are alive, or not yet reaped."""
        return {one.pid for one in self.all.values() if one.pid}

    @property
    def lack(self) -> bool:
        """Whether one should be made to wait for the next program."""
        return not self.idle and len(self.all) < PROGRAMS and time.monotonic() >= self.next_fork

    def prepare(self) -> None:
        """Have one waiting before it is needed."""
        if spare := self.fork():
            self.idle.append(spare)
        else:
            self.next_fork = time.monotonic() + FORK_PAUSE_S

    def begin(self, ident: int, descriptors: list[int]) -> bool:
        """Hand a request to an adopter; no when there are too many. One that the guest killed is replaced, a stopped one goes on."""
        for _ in range(SPARE + 1):
            one = self.idle.pop() if self.idle else self.fork()
            if one is None:
                return False
            if one.pid:
                processes.send(one.pid, signal.SIGCONT)
            try:
                frames.send_descriptors(one.channel, b"x", descriptors)
            except OSError:
                self.drop(one)
                continue
            one.take(ident)
            return True
        return False

    def fork(self) -> Adopter | None:
        """Return a new one, or nothing when there are too many processes."""
        if len(self.all) >= PROGRAMS:
            return None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            return None
        if pid == 0:
            try:
                ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
                become_helper(theirs.fileno())
                adopter.serve(theirs)
            finally:
                os._exit(127)
        theirs.close()
        one = Adopter(pid, ours)
        self.all[ours.fileno()] = one
        self.watch(ours.fileno(), lambda: self.on_report(one))
        return one

    def rest(self, one: Adopter) -> None:
        """Keep one for the next program, or let it go."""
        one.take(0)
        if len(self.idle) < SPARE:
            self.idle.append(one)
        else:
            self.drop(one)

    def drop(self, one: Adopter) -> None:
        """Forget one; it ends when its channel does."""
        descriptor = one.channel.fileno()
        self.poll.unregister(descriptor)
        del self.handlers[descriptor]
        one.channel.close()
        if one in self.idle:
            self.idle.remove(one)
        del self.all[descriptor]

    def reaped(self, pid: int) -> None:
        """Forget a number that may be somebody else's from now on; the channel's end says the rest."""
        for one in self.all.values():
            if one.pid == pid:
                one.pid = 0

    def kill(self, one: Adopter) -> None:
        """Begin to end a program's tree; :meth:`kill_round` goes on with it."""
        if not one.deadline:
            one.deadline = time.monotonic() + KILL_LIMIT_S
            self.kill_round(one)

    def kill_round(self, one: Adopter) -> None:
        """Kill everything below one; it reports by itself when it has no children left."""
        if not one.pid:
            return
        one.rounds += 1
        if one.rounds > GENTLE_ROUNDS:
            processes.while_all_stand(self.realm, lambda: self._kill_below(one))
        else:
            self._kill_below(one)
        processes.send(one.pid, signal.SIGCONT)  # the guest may have stopped it, and so may a freeze
        if time.monotonic() > one.deadline:
            processes.send(one.pid, signal.SIGKILL)

    def _kill_below(self, one: Adopter) -> None:
        for pid in processes.below(one.pid, self.realm.scan()):
            processes.send(pid, signal.SIGKILL)


def become_helper(kept: int) -> None:
    """In a child that stays this interpreter: keep one descriptor beside the standard ones, and none of process 1's handlers."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.closerange(3, kept)
    os.closerange(kept + 1, 1 << 20)
