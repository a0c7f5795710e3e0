"""Puts copies of databases back, in the sandbox and as the guest's own user. Standard library only (CONT-5).

All copies are written beside, durable and proven, before the first name changes. Then each is renamed over the database that was there,
from which its log and journal are taken first: they would be applied to the copy.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys

from jamcore.continuity.databases.guest.place import (
    CHUNK,
    REPLACED,
    SIDES,
    STAGED,
    Home,
    RefusedError,
    Request,
    discard,
    enter,
    say,
    serve,
)

KEPT = 3
"""Restores whose replaced databases are kept."""
CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Wanted:
    """One database to restore."""

    def __init__(self, text: str) -> None:
        path, size, mode = text.split(",")
        self.path, self.size, self.mode = bytes.fromhex(path), int(size), int(mode)


def restore(home: Home, own: int, request: Request) -> None:
    """Write all copies beside, durably; then exchange them one by one. What is replaced is kept for a while.

    Without an id nothing is restored: what older restores replaced is thinned out, once it was found that this one did what it should.
    """
    if not request.values["id"]:
        thin_out(own)
        say("thinned")
        return
    staged = enter(own, STAGED)
    databases = [Wanted(text) for text in request.values["database"]]
    for number, wanted in enumerate(databases):
        receive(staged, b"%d" % number, wanted)
    os.fsync(staged)
    aside = Aside(own, request.values["id"][0].encode())
    placed = set()
    for number, wanted in enumerate(databases):
        parent, _, name = wanted.path.rpartition(b"/")
        directory = home.enter(parent, make=True)
        for side in (*SIDES, b""):
            aside.take(directory, name + side)
        os.rename(b"%d" % number, name, src_dir_fd=staged, dst_dir_fd=directory)
        os.fsync(directory)
        os.close(directory)
        placed.add(wanted.path)
    for pattern in request.values["pattern"]:
        for path in set(home.find(pattern)) - placed:
            remove(home, path, aside)
    say("restored", len(placed))


def remove(home: Home, path: bytes, aside: Aside) -> None:
    """Set aside a database that is declared and not wanted; a directory is none."""
    parent, _, name = path.rpartition(b"/")
    try:
        directory = home.enter(parent)
    except FileNotFoundError:
        return
    if not is_directory(directory, name):
        for side in (*SIDES, b""):
            aside.take(directory, name + side)
    os.fsync(directory)
    os.close(directory)


def is_directory(parent: int, name: bytes) -> bool:
    """Say whether a name is a directory's."""
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def receive(staged: int, name: bytes, wanted: Wanted) -> None:
    """Write one copy from what the daemon sends, which ends with its digest, and prove it."""
    left, digest = wanted.size, hashlib.sha256()
    descriptor = os.open(name, CREATE, 0o600, dir_fd=staged)
    with open(descriptor, "r+b", buffering=0) as stream:
        while left:
            data = sys.stdin.buffer.read(min(CHUNK, left))
            if not data:
                raise RefusedError(wanted.path, "its copy ended early")
            view = memoryview(data)
            while view:
                view = view[stream.write(view) or 0 :]
            left -= len(data)
        os.fchmod(descriptor, wanted.mode)
        os.fsync(descriptor)
        stream.seek(0)
        while data := stream.read(CHUNK):
            digest.update(data)
    if sys.stdin.buffer.read(2 * digest.digest_size) != digest.hexdigest().encode():
        raise RefusedError(wanted.path, "what was written is not what was sent")


class Aside:
    """Where one restore moves what it replaces, each under a number of its own."""

    def __init__(self, own: int, name: bytes) -> None:
        self.own = own
        self.name = name
        self.directory = -1
        self.count = 0

    def take(self, parent: int, name: bytes) -> None:
        """Move a name here, if it is there; it is neither opened nor followed."""
        try:
            os.stat(name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return
        if self.directory < 0:
            replaced = enter(self.own, REPLACED)
            self.directory = enter(replaced, behind(self.name, os.listdir(replaced)))
            os.close(replaced)
        os.rename(name, b"%d-%s" % (self.count, name), src_dir_fd=parent, dst_dir_fd=self.directory)
        self.count += 1
        os.fsync(self.directory)


def behind(name: bytes, others: list[str]) -> bytes:
    """Return an id that sorts behind all others: they begin with their time, and the clock may have been set back since."""
    for other in sorted(os.fsencode(other) for other in others):
        if len(other) == len(name) and other >= name:
            try:
                digits = b"%032x" % (int(other.replace(b"-", b""), 16) + 1)
            except ValueError:
                continue  # no restore's
            name = b"-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return name


def thin_out(own: int) -> None:
    """Keep the newest of what restores replaced. All is in place by now: what cannot be removed stays."""
    replaced = enter(own, REPLACED)
    for old in sorted(os.fsencode(name) for name in os.listdir(replaced))[:-KEPT]:
        try:
            discard(replaced, old)
        except OSError:
            continue


if __name__ == "__main__":
    serve(restore)
