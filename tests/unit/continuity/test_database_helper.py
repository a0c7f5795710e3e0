"""What the database helper refuses, and what the daemon does not believe of it (CONT-5)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jamcore.continuity.databases.capture import stored
from jamcore.continuity.databases.guest_calls import DatabaseBounds
from jamcore.continuity.generations.content import DigestsOnly
from jamcore.domain.continuity import DatabaseHelperError, DatabaseRefusedError
from jamcore.testing.databases import Conversation, host_databases

pytestmark = [pytest.mark.anyio, pytest.mark.guarantee("CONT-5"), pytest.mark.usefixtures("no_leaks")]

CHAT = "chats/chat.db"
SMALL = DatabaseBounds(databases=2, bytes_total=1 << 20, names=50, copy_s=5.0, send_s=5.0)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with one good database."""
    Conversation(tmp_path / "home" / CHAT).say("one")
    return tmp_path / "home"


async def copied(home: Path, *patterns: str, bounds: DatabaseBounds = SMALL, program: str | None = None) -> list[str]:
    """Copy, and return what was."""
    async with host_databases(home, bounds=bounds, program=program).copying(patterns or (CHAT,)) as copies:
        await copies.begin()
        await copies.made()
        return [b"/".join(one.path).decode() for one in await stored(copies, DigestsOnly(), "host")]


# ------------------------------------------------------------------------------------------------ what a guest puts in the way


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _huge(path: Path) -> None:
    os.truncate(path, 2 << 20)


def _text(path: Path) -> None:
    path.write_text("SQLite is a library. " * 400)


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _linked_parent(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))
    path.parent.symlink_to("elsewhere")


def _linked_own(path: Path) -> None:
    path.parent.with_name(".jam-databases").symlink_to("/tmp")


@pytest.mark.parametrize(
    ("obstacle", "reason"),
    [
        (_link, "no regular file"),
        (_fifo, "no regular file"),
        (_directory, "no regular file"),
        (_huge, "larger than"),
        (_text, "no SQLite database"),
        (_empty, "no SQLite database"),
        (_linked_parent, "a link or no directory"),
        (_linked_own, "a link or no directory"),
    ],
)
async def test_what_is_no_database_is_refused_by_path(home: Path, obstacle: Callable[[Path], None], reason: str) -> None:
    """Nothing is followed, opened as what it is not, or waited for."""
    obstacle(home / CHAT)
    with pytest.raises(DatabaseRefusedError, match=reason):
        await copied(home)


async def test_names_and_databases_are_counted(home: Path) -> None:
    """A directory full of names and a home full of databases are refused, not walked to their end."""
    for number in range(60):
        (home / "chats" / f"{number}.txt").touch()
    with pytest.raises(DatabaseRefusedError, match="too many names"):
        await copied(home, "chats/*.db")
    for number in range(2):
        Conversation(home / "more" / f"{number}.db").say("x")
    with pytest.raises(DatabaseRefusedError, match="more databases"):
        await copied(home, CHAT, "more/*.db")


async def test_what_a_killed_run_left_is_gone_with_the_next(home: Path) -> None:
    """Copies lie in one place, which is emptied first and last."""
    staged = home / ".jam-databases" / "staged"
    staged.mkdir(parents=True)
    (staged / "0").write_bytes(b"left")
    (staged / "0-journal").symlink_to("/etc/passwd")
    assert await copied(home) == [CHAT]
    assert list(staged.iterdir()) == []


async def test_directories_in_the_place_of_copies_go_too(home: Path) -> None:
    """What an agent leaves there keeps no checkpoint from being made."""
    staged = home / ".jam-databases" / "staged"
    (staged / "0" / "below").mkdir(parents=True)
    (staged / "0" / "below" / "file").write_bytes(b"left")
    assert await copied(home) == [CHAT]
    assert list(staged.iterdir()) == []


async def test_databases_come_in_the_order_of_their_paths(home: Path) -> None:
    """Name by name: a letter that sorts before the slash does not make a longer directory the first."""
    Conversation(home / "chats.old" / "chat.db").say("x")
    assert await copied(home, "chats*/chat.db") == [CHAT, "chats.old/chat.db"]


async def test_any_name_is_found_and_quoted(home: Path) -> None:
    """Names of databases may hold what URIs and patterns give a meaning to."""
    odd = "odd ?mode=memory&x=#%41/ä*'\n.db"
    Conversation(home / odd).say("x")
    assert await copied(home, "odd*/*.db") == [odd]


# ---------------------------------------------------------------------------------------------------- what a helper says for it


def says(text: bytes, rest: str = "") -> str:
    """Return a program that says something and ends."""
    said = b"ready\n" + text
    return f"import os, time; os.write(1, {said!r}); {rest}"


def copy(path: str = CHAT, size: int = 8192, page: int = 4096, *, begins: bytes | None = None, sent: int | None = None) -> bytes:
    """Return all that is said of one copy, which is believed as it is."""
    header = b"SQLite format 3\0" + page.to_bytes(4, "big")[2:] if begins is None else begins
    body = header.ljust(size if sent is None else sent, b"-") if size > 0 else b""
    name = path.encode().hex().encode()
    return b"copy %s %d %d 420\ncopied 1\nsending %s\n%sdone\n" % (name, size, page, name, body)


TRUE = copy()
LIES = {
    "nothing": "",
    "no more than that it is ready": says(b""),
    "for ever": "import os\nwhile True: os.write(1, b'x' * 65536)",
    "hangs": "import time; time.sleep(600)",
    "is ready and hangs": says(b"", "time.sleep(600)"),
    "hangs with children": says(b"", "[os.fork() for _ in range(3)]; time.sleep(600)"),
    "hangs in the middle": says(TRUE[:4000], "time.sleep(600)"),
    "ends in the middle": says(TRUE[:4000]),
    "says no end": says(TRUE.removesuffix(b"done\n")),
    "another path": says(copy("other.db")),
    "a path that leaves": says(copy("chats/../chats/chat.db")),
    "the same twice": says(TRUE.split(b"\n")[0] + b"\n" + TRUE.replace(b"copied 1", b"copied 2")),
    "too large": says(copy(size=16384)),
    "no size": says(copy(size=-8192)),
    "no pages": says(copy(size=9000, page=3000)),
    "half a page": says(copy(size=9000)),
    "another page size": says(copy(begins=b"SQLite format 3\0\x02\x00")),
    "no database": says(copy(begins=b"x")),
    "fewer bytes": says(copy(sent=8000)),
    "more bytes": says(copy(sent=8200)),
    "a wrong count": says(TRUE.replace(b"copied 1", b"copied 7")),
    "another order": says(TRUE.replace(b"sending", b"copied")),
    "no words": says(b"\n\n\n"),
    "no text": says(b"\x00\xff\n"),
    "that it failed": says(b"failed no space left\n"),
}


async def test_an_honest_helper_is_believed(home: Path) -> None:
    """The same words without a lie in them pass: each of the others fails by what it changes."""
    assert await copied(home, program=says(TRUE, "os.read(0, 1)")) == [CHAT]  # it ends when it was told to begin


@pytest.mark.parametrize("lie", LIES)
async def test_what_does_not_fit_is_a_fault_and_its_processes_end(home: Path, lie: str) -> None:
    """Nothing of it becomes a checkpoint, and nothing waits longer than its bound."""
    bounds = DatabaseBounds(databases=2, bytes_total=12 << 10, copy_s=0.5 if "hangs" in lie else 5.0, send_s=0.5)
    with pytest.raises(DatabaseHelperError):
        await copied(home, bounds=bounds, program=LIES[lie])
