"""Runs a program that needs nothing of the machine but a place to write to, with as little else as the machine can take away from it.

Where an ordinary user may make namespaces, the program has no network, sees of the file system what any program needs to run (read-only)
and the directories that it may write to, has no rights over anything else, and everything that it started ends with it. Where not, it runs
as the daemon's other children do, with its own environment and bounds only. This file is also the small program in between, run by
Jam's own interpreter; it needs the standard library alone.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

USER = 1000
"""Its number inside, whoever runs Jam: not root's, so that no right over the namespaces outlives the start."""
_NAMESPACES = 0x10000000 | 0x00020000 | 0x40000000 | 0x08000000 | 0x04000000 | 0x20000000
"""CLONE_NEWUSER, NEWNS, NEWNET, NEWIPC, NEWUTS and NEWPID."""
_NOSUID, _NODEV, _BIND, _MOVE, _REC, _PRIVATE = 2, 4, 4096, 8192, 16384, 1 << 18
_MOUNT_SETATTR, _HERE, _RECURSIVE, _ATTRIBUTE_RDONLY = 442, -100, 0x8000, 1
"""The call has the same number on every architecture. Kernels before 5.12 lack it."""
_PDEATHSIG, _NO_NEW_PRIVS = 1, 38
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_FILES = ("/etc/ld.so.cache", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/localtime")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_ROOM = "size=16m,mode=0755"
"""Of its own root, which is in memory; what it needs to write goes into the directories that it was given."""
_UNUSABLE = 126


@dataclass(frozen=True, slots=True)
class Confinement:
    """``root`` is an empty directory to build its view in; ``noted`` appears when all could be taken away. Paths are absolute."""

    root: Path
    writable: tuple[Path, Path]
    noted: Path


def confined(argv: Sequence[str], confinement: Confinement, *, limit_bytes: int) -> tuple[str, ...]:
    """Return the command that runs ``argv`` so. No file that it writes grows beyond ``limit_bytes``."""
    places = (confinement.root, confinement.noted, *confinement.writable)
    return (sys.executable, "-I", "-S", __file__, str(limit_bytes), *map(str, places), *argv)


def main() -> None:
    """Take away what can be taken away, and become the program."""
    limit, root, noted, *rest = sys.argv[1:]
    writable, argv = rest[:2], rest[2:]
    os.umask(0o022)
    for what, bound in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, int(limit))):
        _, hard = resource.getrlimit(what)
        value = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(what, (value, value))
    libc, parent = ctypes.CDLL(None, use_errno=True), os.getppid()
    user, group = os.geteuid(), os.getegid()
    libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    if _possible(libc, user, group):
        _separate(libc, user, group)
        _end_with(libc, parent)  # new rights may forget what was asked for before
        sys.exit(_inside(libc, Path(root), Path(noted), writable, argv))
    _become(argv)


def _become(argv: list[str]) -> NoReturn:
    try:
        os.execve(argv[0], argv, os.environ)  # noqa: S606 - no shell is wanted
    except OSError as error:
        os.write(2, f"it could not be started: {error.strerror}\n".encode())
    os._exit(_UNUSABLE)


def _inside(libc: ctypes.CDLL, root: Path, noted: Path, writable: list[str], argv: list[str]) -> int:
    """Start the program among processes of its own, and return its code."""
    seen, told = os.pipe()
    child = os.fork()
    if child == 0:
        libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # with the last parent all that it started ends, too
        with suppress(OSError):  # it is still without network
            _view(libc, root, writable)
            os.write(told, b"!")
        os.chdir(writable[0])
        # The first process of a namespace is deaf to most signals, its own among them, so that the program is the second.
        if (program := os.fork()) == 0:
            _become(argv)
        os._exit(_code_of(program))
    os.close(told)
    if os.read(seen, 1):
        noted.touch()
    return _code_of(child)


def _code_of(child: int) -> int:
    """Wait for a process, and for whatever was left to this one meanwhile."""
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _end_with(libc: ctypes.CDLL, parent: int) -> None:
    if libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0) or os.getppid() != parent:
        os._exit(_UNUSABLE)


def _possible(libc: ctypes.CDLL, user: int, group: int) -> bool:
    """Try it in a process that is thrown away: some machines refuse only when one is half way, and there is no way back."""
    if (child := os.fork()) == 0:
        with suppress(OSError):
            _separate(libc, user, group)
            os._exit(0)
        os._exit(1)
    return _code_of(child) == 0


def _separate(libc: ctypes.CDLL, user: int, group: int) -> None:
    """Enter new namespaces, as the same user under another number."""
    _check(libc.unshare(_NAMESPACES), Path("/"))
    for name, text in (("setgroups", "deny"), ("uid_map", f"{USER} {user} 1"), ("gid_map", f"{USER} {group} 1")):
        Path("/proc/self", name).write_text(text)


def _view(libc: ctypes.CDLL, root: Path, writable: list[str]) -> None:
    """Make a root of the few things that it may see, and go there for good."""
    _mount(libc, None, Path("/"), None, _REC | _PRIVATE)
    _mount(libc, "tmpfs", root, "tmpfs", _NOSUID | _NODEV, _ROOM)
    for path in map(Path, _SYSTEM):
        if path.is_symlink():
            _in(root, path).symlink_to(path.readlink())
        elif path.is_dir():
            _show(libc, path, root, read_only=True)
    for name in (*_FILES, *_DEVICES):
        if (path := Path(name)).exists():
            _show(libc, path, root, read_only=name in _FILES)
    for name in ("tmp", "proc"):
        (root / name).mkdir(exist_ok=True)
    with suppress(OSError):  # a machine that hides parts of its own allows no new one
        _mount(libc, "proc", root / "proc", "proc", _NOSUID | _NODEV)
    for name in writable:
        _show(libc, Path(name), root, read_only=False)
    os.chdir(root)
    _mount(libc, str(root), Path("/"), None, _MOVE)
    os.chroot(".")


def _in(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def _show(libc: ctypes.CDLL, path: Path, root: Path, *, read_only: bool) -> None:
    place = _in(root, path)
    if path.is_dir():
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    _mount(libc, str(path), place, None, _BIND | _REC)
    if read_only:
        words = (ctypes.c_uint64 * 4)(_ATTRIBUTE_RDONLY, 0, 0, 0)
        done = libc.syscall(_MOUNT_SETATTR, _HERE, os.fsencode(place), _RECURSIVE, words, ctypes.c_size_t(ctypes.sizeof(words)))
        _check(done, place)


def _mount(libc: ctypes.CDLL, source: str | None, place: Path, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, str(place), kind, data)]
    _check(libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]), place)


def _check(answer: int, place: Path) -> None:
    if answer != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(place))


if __name__ == "__main__":
    main()
