"""Process 1 of a bubblewrap sandbox (SEC-5). Standard library only; runs with ``-I -S``.

It is reached over one socket pair that was connected before it started; nothing listens. The host sends frames and descriptors, it
answers with frames and never with descriptors. A frame is four bytes of length, big-endian, and that many bytes of JSON. When the socket
ends, the daemon is gone: everything is killed and the sandbox with it.

Each program runs below a small process of its own that adopts whatever the program orphans, so that a program's tree can be ended as a
whole, whatever left its session.
"""

import ctypes
import errno
import fcntl
import json
import os
import resource
import selectors
import signal
import socket
import sys
import termios
import time

VERSION = 1
FRAME_BYTES = 1 << 20
DESCRIPTORS = 4
EXECS = 64
KILL_LIMIT_S = 5.0
FREEZE_LIMIT_S = 5.0
TICK_S = 0.003
FORWARDER_STARTS = 50

PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36

libc = ctypes.CDLL(None, use_errno=True)


class Tree:
    """One program: its adopting process, and the pipe over which that one reports."""

    def __init__(self, ident, adopter, report):
        self.ident = ident
        self.adopter = adopter
        self.report = report
        self.pending = b""
        self.leader = 0
        self.killing = 0.0
        self.waiting = []


class Init:
    """The loop. One thread; nothing in it blocks for long."""

    def __init__(self, control, relay, ports):
        self.control = control
        self.relay = relay
        self.ports = ports
        self.received = b""
        self.descriptors = []
        self.trees = {}
        self.forwarder = 0
        self.starts = 0
        self.selector = selectors.DefaultSelector()
        self.wake_read, self.wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self):
        signal.set_wakeup_fd(self.wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.selector.register(self.control, selectors.EVENT_READ, self.on_control)
        self.selector.register(self.wake_read, selectors.EVENT_READ, self.on_wake)
        self.start_forwarder()
        self.send({"hello": VERSION})
        while True:
            busy = any(tree.killing for tree in self.trees.values())
            for key, _ in self.selector.select(TICK_S if busy else None):
                key.data()
            for tree in [t for t in self.trees.values() if t.killing]:
                self.kill_round(tree)

    # ------------------------------------------------------------------ frames

    def send(self, message):
        data = json.dumps(message).encode()
        self.control.sendall(len(data).to_bytes(4, "big") + data)

    def on_control(self):
        data, descriptors, _, _ = socket.recv_fds(self.control, 1 << 16, DESCRIPTORS * 16)
        if not data:
            end_everything()
        self.descriptors.extend(descriptors)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        self.received += data
        while len(self.received) >= 4:
            size = int.from_bytes(self.received[:4], "big")
            if size > FRAME_BYTES:
                end_everything()
            if len(self.received) < 4 + size:
                return
            message = json.loads(self.received[4 : 4 + size])
            self.received = self.received[4 + size :]
            count = message.get("fds", 0)
            taken, self.descriptors = self.descriptors[:count], self.descriptors[count:]
            try:
                self.handle(message, taken)
            finally:
                for descriptor in taken:
                    os.close(descriptor)

    def handle(self, message, descriptors):
        op, ident = message["op"], message.get("id")
        if op == "exec":
            self.start(ident, message, descriptors)
        elif op == "signal":
            tree = self.trees.get(ident)
            if tree is not None and tree.leader:
                try:
                    os.killpg(tree.leader, message["number"])
                except (ProcessLookupError, PermissionError):
                    pass
        elif op == "kill":
            tree = self.trees.get(ident)
            if tree is None:
                self.send({"id": ident, "killed": True})
            else:
                tree.waiting.append(ident)
                tree.killing = tree.killing or time.monotonic() + KILL_LIMIT_S
                self.kill_round(tree)
        elif op == "freeze":
            self.send({"id": ident, "frozen": freeze()})
        elif op == "thaw":
            everyone(signal.SIGCONT)
            self.send({"id": ident, "thawed": True})
        elif op == "ping":
            self.send({"id": ident, "pong": VERSION})
        else:
            self.send({"id": ident, "error": "unknown operation", "errno": errno.ENOSYS})

    # ------------------------------------------------------------------ programs

    def start(self, ident, message, descriptors):
        if len(self.trees) >= EXECS:
            self.send({"id": ident, "error": "too many programs", "errno": errno.EAGAIN})
            return
        report_read, report_write = os.pipe2(os.O_CLOEXEC)
        try:
            adopter = os.fork()
        except OSError as error:
            os.close(report_read)
            os.close(report_write)
            self.send({"id": ident, "error": "fork", "errno": error.errno})
            return
        if adopter == 0:
            try:
                self.close_for_child(report_read)
                adopt(message, descriptors, report_write)
            finally:
                os._exit(127)
        os.close(report_write)
        tree = Tree(ident, adopter, report_read)
        self.trees[ident] = tree
        self.selector.register(report_read, selectors.EVENT_READ, lambda: self.on_report(tree))

    def close_for_child(self, *more):
        signal.set_wakeup_fd(-1)
        self.selector.close()
        self.control.close()
        if self.relay is not None:
            self.relay.close()
        for descriptor in (self.wake_read, self.wake_write, *(t.report for t in self.trees.values()), *more):
            os.close(descriptor)

    def on_report(self, tree):
        data = os.read(tree.report, 4096)
        if not data:
            self.gone(tree)
            return
        *lines, tree.pending = (tree.pending + data).split(b"\n")
        for line in lines:
            word, number = line[:1], int(line[1:])
            if word == b"P":
                tree.leader = number
                self.send({"id": tree.ident, "started": number})
            elif word == b"E":
                self.send({"id": tree.ident, "error": "exec", "errno": number})
            elif word == b"X":
                tree.leader = 0
                self.send({"id": tree.ident, "exited": number})

    def gone(self, tree):
        """The adopter has ended: nothing of the tree is left, or it was killed and its orphans are ours."""
        self.selector.unregister(tree.report)
        os.close(tree.report)
        del self.trees[tree.ident]
        self.send({"id": tree.ident, "gone": True})
        for _ in tree.waiting:
            self.send({"id": tree.ident, "killed": True})

    def kill_round(self, tree):
        """Kill every descendant of the adopter; it ends by itself when it has no children left."""
        below = descendants(tree.adopter)
        for pid in below:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if time.monotonic() > tree.killing:
            tree.killing = 0.0
            for _ in tree.waiting:
                self.send({"id": tree.ident, "killed": False})
            tree.waiting.clear()

    # ------------------------------------------------------------------ orphans and the forwarder

    def on_wake(self):
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
            if pid == self.forwarder:
                self.start_forwarder()

    def start_forwarder(self):
        if self.relay is None or self.starts >= FORWARDER_STARTS:
            return
        self.starts += 1
        self.forwarder = os.fork()
        if self.forwarder == 0:
            try:
                relay, self.relay = self.relay, None
                self.close_for_child()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                sys.path.insert(0, os.path.dirname(__file__))
                import forward

                forward.run(relay, self.ports)
            finally:
                os._exit(1)


def adopt(message, descriptors, report):
    """In the adopting process: start the program, report, reap, and end when nothing is left below."""
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    failed_read, failed_write = os.pipe2(os.O_CLOEXEC)
    leader = os.fork()
    if leader == 0:
        try:
            become(message, descriptors, report, failed_read)
        except OSError as error:
            os.write(failed_write, str(error.errno or errno.EINVAL).encode())
        finally:
            os._exit(127)
    os.close(failed_write)
    for descriptor in descriptors:
        os.close(descriptor)
    failure = os.read(failed_read, 16)
    os.close(failed_read)
    if failure:
        os.waitpid(leader, 0)
        os.write(report, b"E%d\n" % int(failure))
        os._exit(0)
    os.write(report, b"P%d\n" % leader)
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            os._exit(0)
        if pid == leader:
            os.write(report, b"X%d\n" % status)


def become(message, descriptors, report, failed_read):
    """In the program's own process: descriptors, session, directory, then exec."""
    os.close(failed_read)
    os.setsid()
    if message["tty"]:
        fcntl.ioctl(descriptors[0], termios.TIOCSCTTY, 0)
        standard = (descriptors[0],) * 3
    else:
        standard = descriptors
    for target, descriptor in enumerate(standard):
        os.dup2(descriptor, target)
    for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGXFSZ, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.umask(0o022)
    os.chdir(message["cwd"])
    environment = message["env"]
    os.execvpe(message["argv"][0], message["argv"], environment)


def descendants(root):
    """Return the pids below a process, from what /proc says now. Zombies count: their parent must still reap them."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stream:
                    fields = stream.read().rpartition(b") ")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append((int(name), fields[0]))
    found, todo = [], [root]
    while todo:
        for pid, state in children.get(todo.pop(), ()):
            todo.append(pid)
            if state not in (b"Z", b"X"):
                found.append(pid)
    return found


def everyone(number):
    """Signal every process of the sandbox but this one."""
    try:
        os.kill(-1, number)
    except ProcessLookupError:
        pass


def freeze():
    """Stop everyone and return how many stand still, -1 when some would not within the bound."""
    deadline = time.monotonic() + FREEZE_LIMIT_S
    calm = 0
    while True:
        everyone(signal.SIGSTOP)
        moving, still = 0, 0
        for name in os.listdir("/proc"):
            if name.isdigit() and name != "1":
                try:
                    with open(f"/proc/{name}/stat", "rb") as stream:
                        state = stream.read().rpartition(b") ")[2][:1]
                except OSError:
                    continue
                if state in (b"T", b"t"):
                    still += 1
                elif state not in (b"Z", b"X"):
                    moving += 1
        # Twice in a row: a process that was being forked during the first look is stopped by the second signal.
        calm = calm + 1 if moving == 0 else 0
        if calm == 2:
            return still
        if time.monotonic() > deadline:
            everyone(signal.SIGCONT)
            return -1
        if moving:
            time.sleep(0.0005)


def end_everything():
    """The daemon is gone or speaks nonsense. The kernel kills the rest when process 1 ends; the signal only makes it sooner."""
    everyone(signal.SIGKILL)
    os._exit(0)


def main():
    control_number, relay_number, processes, ports = (int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    for number in range(1, signal.NSIG):
        # A handler, or the default action that a guest could provoke, must never run in process 1.
        if number not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
    control = socket.socket(fileno=control_number)
    control.set_inheritable(False)
    relay = None
    if relay_number >= 0:
        relay = socket.socket(fileno=relay_number)
        relay.set_inheritable(False)
    Init(control, relay, [int(port) for port in ports.split(",") if port]).run()


if __name__ == "__main__":
    main()
