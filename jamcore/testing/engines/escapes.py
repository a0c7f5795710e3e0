"""What a guest may try. Each attempt prints ``ESCAPED`` when it worked, and why not when it did not.

Run as ``python -c CODE arguments``. Unconfined it must work, so that a missing program or a typing error never reads as a refusal.
"""

from __future__ import annotations

from dataclasses import dataclass

_PRELUDE = """
import ctypes, errno, os, signal, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    if getattr(libc, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
def syscall(number, *arguments):
    call("syscall", ctypes.c_long(number), *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
def attempt():
"""
_FINISH = """
try:
    found = attempt()
    print("ESCAPED" if found in (None, True) else f"refused: {found!r}")
except Exception as error:
    print(f"refused: {error!r}")
"""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt: its code, and whether only root could do it unconfined."""

    name: str
    body: str
    root: bool = False

    @property
    def code(self) -> str:
        """The whole program."""
        lines = "\n".join("    " + line for line in self.body.strip().splitlines())
        return f"{_PRELUDE}{lines}\n{_FINISH}"


ATTEMPTS = (
    Attempt("write-outside", "open(os.path.join(sys.argv[1], 'written'), 'w').write('x')"),
    Attempt("read-a-secret", "return 'secret-words' in open(os.path.join(sys.argv[1], 'secret')).read()"),
    Attempt("list-the-host", "return 'secret' in os.listdir(sys.argv[1])"),
    Attempt(
        "read-environments",
        """
for name in os.listdir('/proc'):
    try:
        if name.isdigit() and b'MARK_OF_THE_HOST=1' in open(f'/proc/{name}/environ', 'rb').read(): return True
    except OSError: pass
return 'nobody has it'
""",
    ),
    Attempt(
        "signal-a-host-process",
        """
for name in os.listdir('/proc'):
    try:
        if name.isdigit() and sys.argv[3].encode() in open(f'/proc/{name}/cmdline', 'rb').read() and int(name) != os.getpid():
            os.kill(int(name), 0); return True
    except OSError: pass
return 'it is not there'
""",
    ),
    Attempt(
        "trace-a-host-process",
        """
for name in os.listdir('/proc'):
    try:
        if name.isdigit() and sys.argv[3].encode() in open(f'/proc/{name}/cmdline', 'rb').read() and int(name) != os.getpid():
            call('ptrace', 0x4206, int(name), 0, 0); return True
    except FileNotFoundError: pass
return 'it is not there'
""",
        root=True,
    ),
    Attempt("reach-a-tcp-port", "socket.create_connection(('127.0.0.1', int(sys.argv[2])), 5)"),
    Attempt("reach-an-abstract-socket", "socket.socket(socket.AF_UNIX).connect('\\0' + sys.argv[3])"),
    Attempt("reach-a-socket-file", "socket.socket(socket.AF_UNIX).connect(os.path.join(sys.argv[1], 's'))"),
    Attempt("make-a-user-namespace", "call('unshare', 0x10000000)"),
    Attempt(
        "clone-into-a-namespace",
        "pid = libc.syscall(56 if os.uname().machine == 'x86_64' else 220, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)\n"
        "if pid == 0: os._exit(0)\nreturn pid > 0 or os.strerror(ctypes.get_errno())",
    ),
    Attempt(
        "mount",
        """
try: call('unshare', 0x10000000 | 0x20000)
except OSError:
    if os.geteuid() == 0: raise  # never on the host itself
call('mount', b'x', b'/tmp', b'tmpfs', 0, None)
""",
    ),
    Attempt(
        "set-user-id",
        "open(sys.argv[4], 'w').close(); os.chmod(sys.argv[4], 0o4755); return bool(os.stat(sys.argv[4]).st_mode & 0o4000)",
    ),
    Attempt(
        "create-set-user-id",
        "os.close(os.open(sys.argv[4] + '2', os.O_CREAT | os.O_WRONLY, 0o4755))\n"
        "return bool(os.stat(sys.argv[4] + '2').st_mode & 0o4000)",
    ),
    Attempt("make-a-device", "os.mknod(sys.argv[4] + '3', 0o20600, os.makedev(1, 3))", root=True),
    Attempt(
        "add-a-key",
        "syscall(248 if os.uname().machine == 'x86_64' else 217, b'user', b'jam-test', b'x', ctypes.c_long(1), ctypes.c_long(-2))",
    ),
    Attempt("change-a-kernel-setting", "open('/proc/sys/kernel/core_pattern', 'r+').close()", root=True),
    Attempt("change-root", "call('chroot', b'/')", root=True),
    Attempt("become-root", "os.setuid(0)", root=True),
    Attempt("read-the-kernel-log", "if libc.klogctl(10, None, 0) < 0: return os.strerror(ctypes.get_errno())", root=True),
    Attempt("open-by-handle", "syscall(304 if os.uname().machine == 'x86_64' else 265, -1, b'\\0' * 64, 0)"),
)
"""``argv``: a host directory, a TCP port, an abstract name, a path in the guest's own mount."""

BLIND = frozenset({"open-by-handle"})
"""Without a control: unconfined they fail too, for want of an argument; the filter's own error is asked for instead."""
