"""Which host user a sandbox runs as (SEC-1).

An ordinary user's sandboxes run as that user. When Jam runs as root, each sandbox runs as a user of its own that exists nowhere: its
number is taken from a fixed range by the sandbox's name, so that it is the same after every start. Files that it makes belong to that
number, never to root, and two sandboxes only share one if 16 bits of their names' digests are equal. A sandbox that works in place in a
person's directory runs as that directory's owner instead, so that the person keeps what the agent writes.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections import Counter
from pathlib import Path

from jamcore.domain.sandboxes import Access, SandboxSpec
from jamcore.system.process import RunAs

FIRST_UID = 1_900_000_000
"""Above every range that systemd and the shadow utilities hand out (their last ends at 1,879,048,191)."""
UIDS = 1 << 16


def host_user(sandbox: str, *, root: bool | None = None) -> RunAs | None:
    """Return the user of a sandbox, or ``None`` when Jam itself is an ordinary user."""
    if not (os.geteuid() == 0 if root is None else root):
        return None
    number = FIRST_UID + int.from_bytes(hashlib.sha256(sandbox.encode()).digest()[:2], "big")
    return RunAs(uid=number, gid=number)


def user_of(spec: SandboxSpec, *, root: bool | None = None) -> RunAs | None:
    """Return the user of a sandbox that works in a person's own directory: the owner, so that what it writes there stays theirs.

    A directory of root's changes nothing: no guest is ever root, so it may only write there as far as others may.
    """
    user = host_user(spec.name, root=root)
    if user is None:
        return None
    for mount in spec.mounts:
        if not mount.owned and mount.access is Access.READ_WRITE:
            found = Path(mount.host_path).lstat()
            if found.st_uid:
                return RunAs(uid=found.st_uid, gid=found.st_gid or user.gid)
    return user


def give(path: Path, user: RunAs) -> None:
    """Make a directory tree the sandbox user's. Walked by descriptor, links are not followed, other file systems are not entered."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _give(descriptor, user, os.fstat(descriptor).st_dev, Counter())
    finally:
        os.close(descriptor)


def _give(descriptor: int, user: RunAs, device: int, names: Counter[int]) -> None:
    if os.fstat(descriptor).st_uid != user.uid:
        os.fchown(descriptor, user.uid, user.gid)
    for name in os.listdir(descriptor):
        found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        if found.st_dev != device:
            continue
        if stat.S_ISDIR(found.st_mode):
            child = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
            try:
                _give(child, user, device, names)
            finally:
                os.close(child)
        elif found.st_uid != user.uid:
            names[found.st_ino] += 1
            if names[found.st_ino] == found.st_nlink:
                # All its names lie here. A further one could lie outside the sandbox; what has one keeps its owner.
                os.chown(name, user.uid, user.gid, dir_fd=descriptor, follow_symlinks=False)
