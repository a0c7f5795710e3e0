"""The supervisor of a sandbox's programs (SEC-5): process 1 of its namespace, or the root of its tree. Standard library only.

It is reached over one socket pair that was connected before it started; nothing listens. Descriptors come from the host and never go
there. When the socket ends, or says nonsense, the daemon is gone: everything is killed and the sandbox with it.

Each program runs below an adopter, so that its tree can be ended as a whole, whatever left its session. The guest runs as the same user
and can kill or stop an adopter; what that one had adopted then becomes process 1's child and is killed.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import resource
import signal
import socket
import sys
from typing import NoReturn

from jamcore.engines.supervised.guest import adopter, frames, processes
from jamcore.engines.supervised.guest.adopters import PR_SET_CHILD_SUBREAPER, Adopter, Adopters, become_helper

TICK_S = 0.003
FORWARDER_STARTS = 50
PR_SET_DUMPABLE = 4


class Init:
    """The loop. One thread; nothing in it blocks for long."""

    def __init__(self, realm: processes.Realm, control: socket.socket, relay: socket.socket | None, ports: list[int]) -> None:
        self.realm = realm
        self.control = control
        self.relay = relay
        self.ports = ports
        self.received = b""
        self.descriptors: list[int] = []
        self.adopters = Adopters(realm)
        self.adopters.on_report = self.on_report
        self.stopped_before: set[int] = set()
        self.lost: list[Adopter] = []
        self.clean_looks = 0
        self.forwarder = 0
        self.starts = 0
        self.wake_read, self.wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> NoReturn:
        """Serve until the daemon is gone."""
        adopters = self.adopters
        signal.set_wakeup_fd(self.wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        adopters.watch(self.control.fileno(), self.on_control)
        adopters.watch(self.wake_read, self.on_wake)
        self.start_forwarder()
        gc.collect()
        gc.freeze()
        self.tell(frames.HELLO, 0, frames.VERSION)
        while True:
            killing, lack = adopters.killing(), adopters.lack
            events = adopters.poll.poll(0 if lack else TICK_S if killing or self.lost else None)
            for descriptor, _ in events:
                if descriptor in adopters.handlers:
                    adopters.handlers[descriptor]()
            for one in killing:
                if one.deadline:
                    adopters.kill_round(one)
            if self.lost:
                self.sweep()
            if lack and not events:
                adopters.prepare()

    def end_everything(self) -> NoReturn:
        """End everyone, then this process."""
        self.realm.end()
        os._exit(0)

    # ------------------------------------------------------------------ the host

    def tell(self, verb: str, ident: int, number: int = 0) -> None:
        """Send a frame. A host that does not read is a host that is gone."""
        try:
            self.control.sendall(frames.pack(verb, ident, number))
        except OSError:
            self.end_everything()

    def on_control(self) -> None:
        """Take what the host sent."""
        try:
            data, descriptors = frames.receive(self.control, 1 << 12)
            found, self.received = frames.unpack(self.received + data)
        except (OSError, ValueError):
            self.end_everything()
        if not data:
            self.end_everything()
        self.descriptors.extend(descriptors)
        for verb, ident, number, count in found:
            taken, self.descriptors = self.descriptors[:count], self.descriptors[count:]
            if len(taken) != count:
                self.end_everything()
            try:
                self.handle(verb, ident, number, taken)
            finally:
                for descriptor in taken:
                    os.close(descriptor)

    def handle(self, verb: str, ident: int, number: int, descriptors: list[int]) -> None:
        """Do what one frame asks."""
        one = self.adopters.find(ident)
        if verb == frames.EXEC:
            if not self.adopters.begin(ident, descriptors):
                self.tell(frames.FAILED, ident, errno.EAGAIN)
        elif verb == frames.SIGNAL:
            if one is not None and one.leader > 1:
                processes.send(-one.leader, number)
        elif verb == frames.KILL:
            if one is not None:
                self.adopters.kill(one)
        elif verb == frames.FREEZE:
            count, self.stopped_before = processes.freeze(self.realm, self.own())
            self.tell(frames.FROZEN, ident, count)
        elif verb == frames.THAW:
            processes.thaw(self.realm, self.stopped_before)
            self.tell(frames.THAWED, ident)
        elif verb == frames.PING:
            self.tell(frames.PONG, ident, frames.VERSION)
        else:
            self.end_everything()

    # ------------------------------------------------------------------ programs

    def on_report(self, one: Adopter) -> None:
        """Take one report of an adopter, or its end."""
        try:
            data = one.channel.recv(32, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        word, number = data[:1], int(data[1:] or 0)
        if word == adopter.STARTED:
            one.begun, one.leader = True, number
            self.tell(frames.STARTED, one.ident, number)
        elif word == adopter.FAILED:
            self.tell(frames.FAILED, one.ident, number)
            self.adopters.rest(one)
        elif word in (adopter.EXITED, adopter.FINISHED, adopter.GONE):
            if word != adopter.GONE:
                one.leader, one.ended = 0, True
                self.tell(frames.EXITED, one.ident, number)
            if word != adopter.EXITED:  # the adopter has no children left
                self.tell(frames.GONE, one.ident)
                self.adopters.rest(one)
        else:
            self.adopters.drop(one)
            if one.ident:
                self.lost.append(one)
                self.clean_looks = 0

    def sweep(self) -> None:
        """Kill the orphans of adopters that the guest killed; when two looks find none, their programs are over."""
        found: list[int] = []

        def look() -> None:
            found.extend(processes.strangers(self.realm, self.own(), self.realm.scan()))
            for pid in found:
                processes.send(pid, signal.SIGKILL)

        processes.while_all_stand(self.realm, look)
        self.clean_looks = 0 if found else self.clean_looks + 1
        if self.clean_looks < 2:
            return
        for one in self.lost:
            if not one.begun:
                self.tell(frames.FAILED, one.ident, errno.EIO)
            elif not one.ended:
                self.tell(frames.EXITED, one.ident, signal.SIGKILL)
            self.tell(frames.GONE, one.ident)
        self.lost.clear()

    def own(self) -> set[int]:
        """Return the pids that process 1 started."""
        return self.adopters.pids() | {self.forwarder}

    # ------------------------------------------------------------------ children of process 1

    def on_wake(self) -> None:
        """Reap."""
        try:
            while os.read(self.wake_read, 512):
                pass
        except BlockingIOError:
            pass
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.adopters.reaped(pid)
            if pid == self.forwarder:
                self.start_forwarder()

    def start_forwarder(self) -> None:
        """Start what carries connections to the host; one that the guest killed comes back a bounded number of times."""
        self.forwarder = 0
        if self.relay is None or self.starts >= FORWARDER_STARTS:
            return
        self.starts += 1
        try:
            self.forwarder = os.fork()
        except OSError:
            return
        if self.forwarder == 0:
            try:
                become_helper(self.relay.fileno())
                from jamcore.engines.supervised.guest import forward  # late: most sandboxes need no threads

                forward.run(self.relay, self.ports)
            finally:
                os._exit(1)


def bound(what: int, wanted: int) -> None:
    """Set a limit, or the hard one that is there already where it is lower."""
    _, hard = resource.getrlimit(what)
    value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(what, (value, value))


def main() -> None:
    """Run from the command line: two descriptors, the limit of processes, and the ports to carry."""
    control_number, relay_number, limit, ports = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    if os.getpid() == 1:
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        realm = processes.Realm()
    else:  # beside its programs on one system, as the same user: nothing is hidden from them anyway
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        realm = processes.Tree()
    # No default action that a guest could provoke may ever run in process 1.
    for number in adopter.SIGNALS:
        if number != signal.SIGCHLD:
            signal.signal(number, signal.SIG_IGN)
    bound(resource.RLIMIT_CORE, 0)
    if limit > 0:  # the limit counts a user's processes, so a shared user has none
        bound(resource.RLIMIT_NPROC, limit)
    control = socket.socket(fileno=control_number)
    control.set_inheritable(False)
    relay = None
    if relay_number >= 0:
        relay = socket.socket(fileno=relay_number)
        relay.set_inheritable(False)
    gc.disable()
    Init(realm, control, relay, [int(port) for port in ports.split(",") if port]).run()
