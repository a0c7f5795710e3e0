"""Trees as only an agent makes them, and all that there is to know about a tree, told by other code than Jam's own (WS-13)."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OLD_NS = 1_000_000_007
"""A time long ago, with nanoseconds."""
HOLE = 1 << 20


@dataclass(frozen=True, slots=True)
class Fact:
    """All that is kept of one name. ``first_name``: of the names of the same file, the first."""

    kind: str
    mode: int
    mtime_ns: int
    content: str = ""
    target: bytes = b""
    first_name: bytes = b""
    attributes: tuple[tuple[str, bytes], ...] = ()
    data: tuple[tuple[int, int], ...] = ()


def facts_of(root: Path) -> dict[bytes, Fact]:
    """Return what is below a directory, itself included, but for sockets and FIFOs; set-id bits are not told."""
    top = os.fsencode(root)
    names = sorted(_paths(top))
    first: dict[int, bytes] = {}
    for path in names:
        first.setdefault(os.lstat(path).st_ino, path[len(top) :])
    return {path[len(top) :]: fact for path in names if (fact := _fact(path, first)) is not None}


def _paths(path: bytes) -> Iterator[bytes]:
    yield path
    if stat.S_ISDIR(os.lstat(path).st_mode):
        with os.scandir(path) as entries:
            names = [entry.name for entry in entries]
        for name in names:
            yield from _paths(path + b"/" + name)


def _fact(path: bytes, first: dict[int, bytes]) -> Fact | None:
    status = os.lstat(path)
    mode = status.st_mode & 0o1777
    if stat.S_ISLNK(status.st_mode):
        return Fact("link", 0, status.st_mtime_ns, target=os.readlink(path))  # noqa: PTH115 - names are bytes
    if stat.S_ISDIR(status.st_mode):
        return Fact("directory", mode, status.st_mtime_ns, attributes=_attributes(path))
    if not stat.S_ISREG(status.st_mode):
        return None
    with Path(os.fsdecode(path)).open("rb") as stream:
        content = hashlib.file_digest(stream, "sha256").hexdigest()
        data = tuple(_data(stream.fileno(), status.st_size)) if status.st_blocks * 512 < status.st_size else ()
    return Fact("file", mode, status.st_mtime_ns, content, b"", first[status.st_ino], _attributes(path), data)


def _attributes(path: bytes) -> tuple[tuple[str, bytes], ...]:
    return tuple((name, os.getxattr(path, name)) for name in sorted(os.listxattr(path)) if name.startswith("user."))


def _data(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    end = 0
    while end < size:
        try:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError:
            return
        end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        yield begin, end


def plant(root: Path) -> None:
    """Make everything that can be exported exactly below an empty directory."""
    outside = root.parent / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "secret").write_text("not to be followed")
    _links(root, outside)
    _names(root)
    _files(root)
    _directories(root)


def plant_left_out(root: Path) -> tuple[str, ...]:
    """Make what no export holds, and return the paths: sockets and FIFOs, also where names are odd."""
    os.mkfifo(root / "fifo")
    (root / "below").mkdir()
    os.mkfifo(root / "below" / os.fsdecode(b"fifo\n\xff"))
    os.mknod(root / "socket", stat.S_IFSOCK | 0o600)
    return ("below/fifo\n\\xff", "fifo", "socket")


def _links(root: Path, outside: Path) -> None:
    links = root / "links"
    links.mkdir()
    (links / "absolute").symlink_to("/etc/passwd")
    (links / "escaping").symlink_to("../../outside/secret")
    (links / "directory").symlink_to(outside)
    (links / "dangling").symlink_to("nowhere")
    (links / "itself").symlink_to("itself")
    (links / "up").symlink_to("..")
    (links / os.fsdecode(b"odd\xfe")).symlink_to(os.fsdecode(b"odd \xff\n"))
    (links / "long").symlink_to("x/" * 1900 + "x")
    for name in ("absolute", "dangling"):
        os.utime(links / name, ns=(OLD_NS, OLD_NS), follow_symlinks=False)


def _names(root: Path) -> None:
    names = root / "names"
    names.mkdir()
    odd = (b"new\nline", b"return\r", b"back\\slash", b"\\", b" ", b"\xff\xfe", b"\x01\x1b[31m", b"base64:eA==", b"-rf", b"a" * 255)
    same = ("Case", "case", "CASE", "e\u0301", "\u00e9", "\u2028", "name.", "name", "name-", "name/inner")
    for raw in (*odd, *(name.encode() for name in same if "/" not in name)):
        (names / os.fsdecode(raw)).write_bytes(raw)
    (names / "name.d").mkdir()
    (names / "name.d" / "inner").write_text("sorts after name.d, before name.e")
    (names / "name.e").write_text("")


def _files(root: Path) -> None:
    files = root / "files"
    files.mkdir()
    (files / "empty").touch()
    (files / "large").write_bytes(bytes(range(256)) * 4096)
    (files / "old").write_text("old")
    os.utime(files / "old", ns=(OLD_NS, OLD_NS))
    (files / "before 1970").write_text("older")
    os.utime(files / "before 1970", ns=(-OLD_NS, -OLD_NS))
    (files / "read-only").write_text("x")
    (files / "read-only").chmod(0o400)
    (files / "set-id").write_text("#!/bin/sh")
    (files / "set-id").chmod(0o6755)
    (files / "labelled").write_text("x")
    os.setxattr(files / "labelled", "user.jam", b"\x00\xff")
    os.setxattr(files / "labelled", "user.empty", b"")
    for name, size, data in (("hole", 3 * HOLE, HOLE), ("all hole", 2 * HOLE, None), ("hole first", HOLE, HOLE - 1)):
        with (files / name).open("wb") as stream:
            if data is not None:
                os.pwrite(stream.fileno(), b"data", data)
            stream.truncate(size)
    os.link(files / "large", files / "large again")
    os.link(files / "read-only", root / "names" / "another directory's")
    os.link(files / "hole", root / "a hole too")


def _directories(root: Path) -> None:
    deep = root / "deep"
    for _ in range(100):
        deep.mkdir()
        deep /= "d"
    deep.write_text("deep")
    (root / "empty").mkdir()
    (root / "sticky").mkdir()
    (root / "sticky").chmod(0o3777)
    shut = root / "read-only"
    (shut / "below").mkdir(parents=True)
    (shut / "below" / "file").write_text("x")
    os.setxattr(shut, "user.directory", b"yes")
    for path, mode in ((shut / "below", 0o555), (shut, 0o500)):
        os.utime(path, ns=(OLD_NS, OLD_NS))
        path.chmod(mode)
