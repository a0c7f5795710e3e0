"""The system call filter, made by hand as classic BPF: what no coding agent needs and what escapes are made of is refused.

The default is to allow. Refused calls fail with EPERM; three fail with ENOSYS, so that libraries fall back to the older call that the
filter can look into. Another architecture's calls kill the process. Sources: the kernel's system call tables (``unistd_64.h``,
``asm-generic/unistd.h``), ``linux/seccomp.h``, ``linux/bpf_common.h``.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from jamcore.domain.sandboxes import EngineUnavailableError

ALLOW = 0x7FFF0000
KILL = 0x80000000
ERRNO = 0x00050000

_LD_W_ABS, _JEQ_K, _JGE_K, _JSET_K, _RET_K = 0x20, 0x15, 0x35, 0x45, 0x06
_NR, _ARCH = 0, 4

SET_ID = 0o6000
CREATES = 0o100 | 0o20000000
"""O_CREAT and the bit of O_TMPFILE: only with one of them does ``open`` look at its mode, which is else whatever lay in the register."""
FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK, which the network namespace holds. AF_VSOCK, for one, reaches past it."""
NAMESPACES = 0x7E020080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME."""
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
"""Terminal requests that type into the terminal of whoever started the sandbox."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One architecture: its audit number, and the numbers of the calls that differ."""

    audit: int
    calls: Mapping[str, int]
    x32_bit: int | None


_X86_64 = Machine(
    audit=0xC000003E,
    x32_bit=0x40000000,
    calls=MappingProxyType(
        {
            "open": 2, "ioctl": 16, "socket": 41, "socketpair": 53, "lookup_dcookie": 212, "fanotify_init": 300,
            "clone": 56, "mkdir": 83, "creat": 85, "chmod": 90, "fchmod": 91, "syslog": 103, "mknod": 133,
            "pivot_root": 155, "adjtimex": 159, "chroot": 161, "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166,
            "swapon": 167, "swapoff": 168, "reboot": 169, "iopl": 172, "ioperm": 173, "init_module": 175, "delete_module": 176,
            "quotactl": 179, "clock_settime": 227, "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250,
            "openat": 257, "mkdirat": 258, "mknodat": 259, "fchmodat": 268, "unshare": 272, "perf_event_open": 298,
            "open_by_handle_at": 304, "clock_adjtime": 305, "setns": 308, "finit_module": 313, "kexec_file_load": 320, "bpf": 321,
            "userfaultfd": 323,
        }
    ),
)  # fmt: skip
_AARCH64 = Machine(
    audit=0xC00000B7,
    x32_bit=None,
    calls=MappingProxyType(
        {
            "lookup_dcookie": 18, "socket": 198, "socketpair": 199, "fanotify_init": 262,
            "ioctl": 29, "mknodat": 33, "mkdirat": 34, "umount2": 39, "mount": 40, "pivot_root": 41, "chroot": 51, "fchmod": 52,
            "fchmodat": 53, "openat": 56, "quotactl": 60, "acct": 89, "unshare": 97, "kexec_load": 104, "init_module": 105,
            "delete_module": 106, "clock_settime": 112, "syslog": 116, "reboot": 142, "settimeofday": 170, "adjtimex": 171,
            "add_key": 217, "request_key": 218, "keyctl": 219, "clone": 220, "swapon": 224, "swapoff": 225, "perf_event_open": 241,
            "open_by_handle_at": 265, "clock_adjtime": 266, "setns": 268, "finit_module": 273, "bpf": 280, "userfaultfd": 282,
            "kexec_file_load": 294,
        }
    ),
)  # fmt: skip
_COMMON = MappingProxyType(
    {
        "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429, "fsopen": 430,
        "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435, "openat2": 437, "mount_setattr": 442, "quotactl_fd": 443,
        "fchmodat2": 452,
    }
)  # fmt: skip
"""Calls newer than the common numbering: the same everywhere."""

MACHINES: Mapping[str, Machine] = MappingProxyType({"x86_64": _X86_64, "aarch64": _AARCH64})

REFUSED = (
    "mount", "umount2", "pivot_root", "chroot", "unshare", "setns", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick",
    "mount_setattr", "add_key", "request_key", "keyctl", "bpf", "perf_event_open", "userfaultfd", "kexec_load", "kexec_file_load",
    "init_module", "finit_module", "delete_module", "open_by_handle_at", "quotactl", "quotactl_fd", "swapon", "swapoff", "reboot",
    "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "iopl", "ioperm", "acct", "io_uring_setup", "io_uring_enter",
    "io_uring_register", "syslog", "lookup_dcookie", "fanotify_init",
)  # fmt: skip
MISSING = ("clone3", "openat2")
"""They pass their flags in memory, where a filter cannot look; libraries fall back to ``clone`` and ``openat``."""

MODE_ARGUMENT: Mapping[str, int] = MappingProxyType(
    {
        "chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mkdir": 1, "mkdirat": 2, "mknod": 1, "mknodat": 2, "creat": 1,
    }
)  # fmt: skip
"""Which argument holds the mode: no guest ever makes a set-id file (SEC-1)."""
OPEN_ARGUMENTS: Mapping[str, tuple[int, int]] = MappingProxyType({"open": (1, 2), "openat": (2, 3)})
"""Which arguments hold flags and mode."""


def machine(name: str | None = None) -> Machine:
    """Return this machine's table.

    Raises:
        EngineUnavailableError: There is none for its architecture: a sandbox without the filter is not offered.
    """
    found = name or platform.machine()
    if found not in MACHINES:
        raise EngineUnavailableError(engine="bubblewrap", reason=f"no system call filter for the architecture {found}")
    return MACHINES[found]


def program(target: Machine) -> bytes:
    """Return the filter as an array of ``struct sock_filter``."""
    calls = {**target.calls, **_COMMON}
    code: list[tuple[int, int, int, int]] = [
        (_LD_W_ABS, 0, 0, _ARCH),
        (_JEQ_K, 1, 0, target.audit),
        (_RET_K, 0, 0, KILL),
        (_LD_W_ABS, 0, 0, _NR),
    ]
    if target.x32_bit is not None:
        code += [(_JGE_K, 0, 1, target.x32_bit), (_RET_K, 0, 0, KILL)]
    for names, error in ((REFUSED, errno.EPERM), (MISSING, errno.ENOSYS)):
        for name in names:
            if name in calls:
                code += [(_JEQ_K, 0, 1, calls[name]), (_RET_K, 0, 0, ERRNO | error)]
    for name, argument in MODE_ARGUMENT.items():
        if name in calls:
            code += _when(calls[name], argument, (_JSET_K, SET_ID))
    for name, (flags, mode) in OPEN_ARGUMENTS.items():
        if name in calls:
            code += _when_creating(calls[name], flags, mode)
    for name in ("socket", "socketpair"):
        code += _unless(calls[name], 0, FAMILIES, errno.EAFNOSUPPORT)
    code += _when(calls["clone"], 0, (_JSET_K, NAMESPACES))
    code += _when(calls["ioctl"], 1, (_JEQ_K, TIOCSTI), (_JEQ_K, TIOCLINUX))
    code.append((_RET_K, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _unless(call: int, argument: int, allowed: tuple[int, ...], error: int) -> list[tuple[int, int, int, int]]:
    """Refuse ``call`` when the low half of an argument is none of these."""
    count = len(allowed)
    body: list[tuple[int, int, int, int]] = [(_LD_W_ABS, 0, 0, 16 + 8 * argument)]
    body += [(_JEQ_K, count - position, 0, value) for position, value in enumerate(allowed)]
    body += [(_RET_K, 0, 0, ERRNO | error), (_LD_W_ABS, 0, 0, _NR)]
    return [(_JEQ_K, 0, len(body), call), *body]


def _when_creating(call: int, flags: int, mode: int) -> list[tuple[int, int, int, int]]:
    """Refuse an ``open`` that would make a file with set-id bits."""
    body: list[tuple[int, int, int, int]] = [
        (_LD_W_ABS, 0, 0, 16 + 8 * flags),
        (_JSET_K, 0, 3, CREATES),
        (_LD_W_ABS, 0, 0, 16 + 8 * mode),
        (_JSET_K, 0, 1, SET_ID),
        (_RET_K, 0, 0, ERRNO | errno.EPERM),
        (_LD_W_ABS, 0, 0, _NR),
    ]
    return [(_JEQ_K, 0, len(body), call), *body]


def _when(call: int, argument: int, *tests: tuple[int, int]) -> list[tuple[int, int, int, int]]:
    """Refuse ``call`` when one of the tests holds for the low half of an argument: of an ``int`` the kernel does not look at the rest."""
    body: list[tuple[int, int, int, int]] = [(_LD_W_ABS, 0, 0, 16 + 8 * argument)]
    for kind, value in tests:
        body += [(kind, 0, 1, value), (_RET_K, 0, 0, ERRNO | errno.EPERM)]
    body.append((_LD_W_ABS, 0, 0, _NR))
    return [(_JEQ_K, 0, len(body), call), *body]
