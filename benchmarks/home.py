"""A provider's home as a long-used agent leaves it: thousands of files, three logs, 200 MB; and what a turn changes in it."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jamcore.continuity.databases.guest.place import OWN
from jamcore.continuity.generations.format import BLOCK
from jamcore.testing.databases import Conversation

FILES = 5_000
LOGS_MB = (1, 10, 100)
SMALL_BYTES = 89_000_000
"""What is in all files but the logs, so that the home has 200 MB."""
DIRECTORIES = 50
TURN_BYTES = 10_000
"""What one turn appends to its log."""
DATABASE = "chat.db"
DATABASE_BYTES = 20 << 20
HELPER_KEEPS = OWN.decode()
"""Where the database helper has what it makes; no part of the home."""
_TEXT = 2_000_000


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happens to a home between two copies; ``blocks`` of Jam's hold the bytes that it changed."""

    name: str
    make: Callable[[], None]
    blocks: int

    @property
    def aim_bytes(self) -> int:
        """What a checkpoint may write for it: twice the changed blocks and 256 KiB."""
        return 2 * self.blocks * BLOCK + (256 << 10)


class Home:
    """One home. The same seed makes the same bytes."""

    def __init__(self, root: Path, seed: int = 1) -> None:
        self.root = root
        self._random = random.Random(seed)
        words = [bytes(self._random.choices(b"abcdefghijklmnopqrstuvwxyz", k=self._random.randint(2, 9))) for _ in range(2000)]
        line = b'{"type":"item","text":"%s"}\n'
        self._text = b"".join(line % b" ".join(self._random.choices(words, k=40)) for _ in range(_TEXT // 200))
        self._turns = 0

    def make(self) -> None:
        """Write all files."""
        count = FILES - len(LOGS_MB)
        for number in range(count):
            path = self._small(number)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self._bytes(SMALL_BYTES // count + self._random.randint(-15_000, 15_000)))
        for megabytes in LOGS_MB:
            log = self._log(megabytes)
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("wb") as stream:
                for _ in range(megabytes):
                    stream.write(self._bytes(1_000_000 - 1) + b"\n")

    def changes(self) -> list[Change]:
        """Return what is measured: a turn in each of the logs, and what may happen to a file."""
        turns = [Change(f"a turn in the log of {log} MB", lambda log=log: self._append(log), 2) for log in LOGS_MB]  # type: ignore[misc]
        return [
            Change("nothing changed", lambda: None, 0),
            *turns,
            Change("a file rewritten", self._rewrite, 2),
            Change("a file deleted", self._delete, 0),
            Change("a file rewritten, same size and mtime", self._rewrite_alike, 2),
        ]

    def with_database(self) -> Change:
        """Put a database into the home, and return a turn that changes it and a log."""
        chat = Conversation(self.root / DATABASE)
        chat.fill(DATABASE_BYTES)

        def turn() -> None:
            self._append(LOGS_MB[1])
            chat.say(self._bytes(TURN_BYTES).decode())
            chat.change_one()

        # What it said, what it changed, the tree of the table, the free list, and the first page: some ten pages of 4 KiB.
        return Change(f"a turn in the log of {LOGS_MB[1]} MB and a database of {DATABASE_BYTES >> 20} MB", turn, 4)

    def thread(self) -> Callable[[], None]:
        """Make a small home with one log, and return what a turn does to it."""
        for number in range(20):
            path = self._small(number)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self._bytes(2_000))
        self._log(0).parent.mkdir(parents=True, exist_ok=True)
        return lambda: self._append(0)

    def _append(self, log: int) -> None:
        with self._log(log).open("ab") as stream:
            stream.write(self._bytes(TURN_BYTES - 1) + b"\n")

    def _rewrite(self) -> None:
        path = self._any()
        path.write_bytes(self._bytes(path.stat().st_size + 100))

    def _rewrite_alike(self) -> None:
        path = self._any()
        before = path.stat()
        path.write_bytes(self._bytes(before.st_size))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def _delete(self) -> None:
        self._any().unlink()

    def _any(self) -> Path:
        """Return a small file that is still there."""
        while not (path := self._small(self._random.randrange(FILES - len(LOGS_MB)))).exists():
            pass
        return path

    def _bytes(self, size: int) -> bytes:
        """Return text that compresses as a log does, and is nowhere else."""
        self._turns += 1
        at = self._random.randrange(len(self._text))
        many = (self._text[at:] + self._text * (size // len(self._text) + 1))[:size]
        return (b"%d %d\n" % (self._turns, self._random.getrandbits(64)) + many)[:size]

    def _small(self, number: int) -> Path:
        return self.root / "state" / f"{number % DIRECTORIES:02}" / f"{number:05}.json"

    def _log(self, megabytes: int) -> Path:
        return self.root / "sessions" / f"{megabytes}.jsonl"


def first_difference(one: Path, other: Path) -> str | None:
    """Compare two trees, bytes, names and modification times of files; return the first path that differs, or ``None``.

    A database is compared by what it holds: a copy of one that is in use has other bytes.
    """
    mine, theirs = _listing(one), _listing(other)
    for name in sorted(mine.keys() | theirs.keys()):
        if mine.get(name) != theirs.get(name):
            return name
        if not name.endswith("/") and (one / name).read_bytes() != (other / name).read_bytes():
            return name
    if (one / DATABASE).exists() and Conversation(one / DATABASE).texts() != Conversation(other / DATABASE).texts():
        return DATABASE
    return None


def _listing(root: Path) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for directory, directories, files in os.walk(root):
        if Path(directory) == root:
            directories[:] = [name for name in directories if name != HELPER_KEEPS]
            files = [name for name in files if not name.startswith(DATABASE)]  # noqa: PLW2901 - as ``directories`` is
        for name in directories:
            found[f"{Path(directory, name).relative_to(root)}/"] = (0, 0)
        for name in files:
            path = Path(directory, name)
            status = path.lstat()
            found[str(path.relative_to(root))] = (status.st_size, status.st_mtime_ns)
    return found
