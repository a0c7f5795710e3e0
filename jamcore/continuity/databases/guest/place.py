"""Where the guest's databases lie, what is asked, and how it is answered. Standard library only (CONT-5).

The request comes as arguments. Answers are short lines of words, with the bytes of a copy behind the line that announces them. Names
travel in hexadecimal, because a guest may use any.
"""

from __future__ import annotations

import errno
import os
import resource
import sys
from collections.abc import Callable

OWN = b".jam-databases"
"""Jam's own directory in the guest's home."""
STAGED, REPLACED = b"staged", b"replaced"
"""Copies on their way, which every run removes first: what a killed run left goes with the next. And what restores replaced."""
SIDES = (b"-wal", b"-journal", b"-shm")
"""Files that belong to a database of the same name, in the order in which they leave it: none may meet another database."""
CHUNK = 1 << 18
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class RefusedError(Exception):
    """A database that is not copied, and why."""

    def __init__(self, path: bytes, why: str, *, busy: bool = False) -> None:
        super().__init__(why)
        self.path = path
        self.why = why
        self.busy = busy


class Request:
    """What is asked: ``HOME LIMITS [KIND:VALUE]...``, where the limits are numbers in the order of :attr:`LIMITS`."""

    LIMITS = ("memory", "cpu_s", "bytes", "names", "databases", "wait_ms", "check")

    def __init__(self, home: str, limits: str, *rest: str) -> None:
        self.home = home
        self.limits = dict(zip(self.LIMITS, map(int, limits.split(",")), strict=True))
        self.values: dict[str, list[str]] = {"pattern": [], "path": [], "database": [], "id": []}
        for word in rest:
            kind, _, value = word.partition(":")
            self.values[kind].append(value)


class Home:
    """The guest's home, which nothing here leaves: every directory on the way is opened without following a link."""

    def __init__(self, path: str, names: int) -> None:
        self.path = os.fsencode(path)
        self.descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.device = os.fstat(self.descriptor).st_dev
        self.names_left = names

    def enter(self, path: bytes, *, make: bool = False) -> int:
        """Open a directory below the home; the caller closes it.

        Raises:
            FileNotFoundError: It is not there, and was not to be made.
            RefusedError: A part of the way is a link or no directory.
        """
        current = os.dup(self.descriptor)
        for name in filter(None, path.split(b"/")):
            try:
                if make:
                    try:
                        os.mkdir(name, 0o700, dir_fd=current)
                    except FileExistsError:
                        pass
                below = os.open(name, DIRECTORY, dir_fd=current)
            except FileNotFoundError:
                raise
            except OSError:
                raise RefusedError(path, "a part of its path is a link or no directory") from None
            finally:
                os.close(current)
            current = below
        return current

    def find(self, pattern: str) -> list[bytes]:
        """Return what matches a pattern, in order. Stars stay within a name."""
        found = [b""]
        for segment in pattern.encode().split(b"/"):
            found = [below for path in found for below in self.below(path, segment)]
        return found

    def below(self, path: bytes, segment: bytes) -> list[bytes]:
        """Return the paths below a directory that one segment of a pattern names."""
        prefix = path + b"/" if path else b""
        if not any(sign in segment for sign in b"*?["):
            return [prefix + segment]
        import fnmatch  # late: most providers name their databases exactly

        try:
            directory = self.enter(path)
        except (FileNotFoundError, RefusedError):
            return []
        try:
            names = sorted(os.fsencode(name) for name in os.listdir(directory))
        finally:
            os.close(directory)
        self.names_left -= len(names)
        if self.names_left < 0:
            raise RefusedError(path, "too many names lie beside the databases")
        return [prefix + name for name in names if fnmatch.fnmatchcase(name, segment) and not name.endswith(SIDES)]


def serve(work: Callable[[Home, int, Request], None]) -> None:
    """Do what is asked, and say why not when it is not done."""
    request = Request(*sys.argv[1:])
    confine(request.limits)
    try:
        home = Home(request.home, request.limits["names"])
        own = home.enter(OWN, make=True)
        empty(own, STAGED)
        work(home, own, request)
        empty(own, STAGED)
    except RefusedError as error:
        say("busy" if error.busy else "refused", error.path.hex() or "-", plain(error.why))
    except (OSError, MemoryError) as error:
        say("failed", plain(str(error) or type(error).__name__))


def confine(limits: dict[str, int]) -> None:
    """Give up what is not needed: no child, no core, little memory, few files, and time that ends."""
    os.umask(0o077)
    bounds = (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_AS, limits["memory"]),
        (resource.RLIMIT_CPU, limits["cpu_s"]),
        (resource.RLIMIT_FSIZE, limits["bytes"]),
    )
    for what, wanted in bounds:
        _, hard = resource.getrlimit(what)
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(what, (value, value))


def say(*words: object) -> None:
    """Print one line."""
    put(" ".join(map(str, words)).encode("ascii", "backslashreplace") + b"\n")


def plain(text: str) -> str:
    """Return text that is short and fits on a line."""
    return text[:160].replace("\n", " ")


def put(data: bytes | memoryview) -> None:
    """Write to the daemon."""
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def enter(parent: int, name: bytes) -> int:
    """Open a directory of Jam's own; make it where it is missing."""
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:
        pass
    return os.open(name, DIRECTORY, dir_fd=parent)


def empty(parent: int, name: bytes, *, make: bool = True) -> None:
    """Empty a directory of Jam's own; remove it too, unless it is to be there."""
    directory = enter(parent, name)
    try:
        for entry in os.listdir(directory):
            discard(directory, os.fsencode(entry))
    finally:
        os.close(directory)
    if not make:
        os.rmdir(name, dir_fd=parent)


def discard(parent: int, name: bytes) -> None:
    """Remove a name. Jam puts files and links here; a directory that a guest put here goes with what it holds.

    Raises:
        OSError: It cannot be removed; so deep a tree that no descriptor is left ends here, too.
    """
    try:
        os.unlink(name, dir_fd=parent)
    except OSError as error:
        if error.errno not in (errno.EISDIR, errno.EPERM):
            raise
        empty(parent, name, make=False)
