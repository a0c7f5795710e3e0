"""The file-system calls that a fault matrix can fail: each is met, and fails before it does anything."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from jamcore.testing.crash import Lives
from jamcore.testing.matrix.faults import ERRORS, FULL, READING, STATES, Call, FailingFiles, Fault, Faults


def act(root: Path, faults: Faults) -> Mapping[str, Callable[[], object]]:
    """Return one call of each name; each can be made in a directory of its own."""
    root.mkdir()
    (root / "file").write_bytes(b"x")
    (root / "empty").mkdir()
    descriptor = os.open(root / "file", os.O_RDWR)
    files = FailingFiles(faults)
    return {
        "open": lambda: os.close(os.open(root / "new", os.O_WRONLY | os.O_CREAT)),
        "os.listdir": lambda: [*root.iterdir()],
        "os.scandir": lambda: os.scandir(root).close(),
        "os.mkdir": (root / "made").mkdir,
        "os.link": lambda: (root / "linked").hardlink_to(root / "file"),
        "os.symlink": lambda: (root / "symbolic").symlink_to("file"),
        "os.rename": lambda: (root / "linked").rename(root / "renamed"),
        "os.remove": (root / "renamed").unlink,
        "os.rmdir": (root / "empty").rmdir,
        "os.chmod": lambda: os.fchmod(descriptor, 0o600),
        "os.chown": lambda: os.fchown(descriptor, -1, -1),
        "os.utime": lambda: os.utime(descriptor),
        "os.setxattr": lambda: os.setxattr(descriptor, "user.x", b"1"),
        "write": lambda: os.write(descriptor, b"y"),
        "pwrite": lambda: os.pwrite(descriptor, b"y", 0),
        "fsync": lambda: os.fsync(descriptor),
        "read": lambda: os.read(descriptor, 1),
        "pread": lambda: os.pread(descriptor, 1, 0),
        "preadv": lambda: os.preadv(descriptor, [bytearray(1)], 0),
        "os.truncate": lambda: os.ftruncate(descriptor, 0),
        "stream": lambda: files.write_atomic(root / "written", b"z"),
        "syncfs": lambda: files.sync_filesystem(descriptor),
    }


def meet(world: Path) -> None:
    """Make every call unharmed, then let each fail, in one of the ways in which it can."""
    faults = Faults(world)
    faults.begin()
    calls = act(world / "all", faults)
    with faults.during():
        for make in calls.values():
            make()
    met = {call.name: call for call in reversed(faults.calls)}
    assert met.keys() == calls.keys()
    for number, (name, call) in enumerate(met.items()):
        fail(world, str(number), name, call, ERRORS[call.does][number % len(ERRORS[call.does])])


def fail(world: Path, where: str, name: str, call: Call, error: int) -> None:
    """Make one call of a name, and have it fail."""
    path = call.path.replace("all", where)
    faults = Faults(world, Fault(Call(name, call.does, path, 1), error))
    faults.begin()
    calls = act(world / where, faults)
    with faults.during():
        found = {each: number for each, make in calls.items() if (number := error_of(make))}
    assert found[name] == error
    assert faults.met


def fill(world: Path) -> None:
    """Make a disk full at one call: afterwards nothing is written, and everything else is done."""
    faults = Faults(world, Fault(Call("os.mkdir", "made", "all/made", 1), state=FULL))
    faults.begin()
    calls = act(world / "all", faults)
    (world / "all/linked").touch()
    with faults.during():
        refused = {name for name, make in calls.items() if error_of(make) == errno.ENOSPC}
    assert refused == {"os.mkdir", "os.link", "os.symlink", "write", "pwrite", "fsync", "stream", "syncfs"}
    with pytest.raises(OSError, match="No space"):
        (world / "all/afterwards").write_bytes(b"")


def error_of(make: Callable[[], object]) -> int:
    """Return the number of the error that a call has."""
    try:
        make()
    except OSError as error:
        return error.errno or 0
    return 0


@pytest.mark.parametrize("life", [meet, fill])
def test_each_call_is_met(tmp_path: Path, lives: Lives, life: Callable[[Path], None]) -> None:
    """What an interpreter listens to it listens to for good, so it is another process."""
    said = tmp_path / "said"
    (tmp_path / "world").mkdir()
    assert lives.run(life, tmp_path / "world", said=said) == 0, said.read_text()


def test_a_failing_disk_can_still_be_read() -> None:
    """No state of a disk fails what reads it."""
    assert all(not failing & READING for _, failing in STATES.values())
