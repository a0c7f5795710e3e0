"""What was typed in a room: private, bounded, there the next time, and never a reason not to talk."""

from __future__ import annotations

import stat
from pathlib import Path
from uuid import UUID

import pytest

from jamcore.cli.live.history import ENTRIES, ENTRY_CHARACTERS, FILE_BYTES, RoomHistory
from jamcore.domain import layout
from jamcore.system.files import Files

pytestmark = pytest.mark.unprivileged
ROOM = UUID(int=3)


def kept(app: Path, room: UUID = ROOM) -> list[str]:
    """Return what the next terminal would know, the newest first."""
    return list(RoomHistory(app, room).load_history_strings())


def test_what_was_typed_is_there_the_next_time(tmp_path: Path) -> None:
    """Several lines as one entry, in the room in which they were typed, each once."""
    history = RoomHistory(tmp_path, ROOM)
    for text in ("one", "two\nlines", "three", "one"):
        history.append_string(text)
    assert kept(tmp_path) == ["one", "three", "two\nlines"]
    assert kept(tmp_path, UUID(int=4)) == []


def test_it_is_private(tmp_path: Path) -> None:
    """Nobody else may read it; what begins with a space is not kept at all."""
    history = RoomHistory(tmp_path, ROOM)
    history.append_string(" secret")
    assert kept(tmp_path) == []
    history.append_string("hello")
    path = tmp_path / layout.typed(ROOM)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {stat.S_IMODE(parent.stat().st_mode) for parent in (path.parent, path.parent.parent)} == {0o700}


def test_it_is_bounded(tmp_path: Path) -> None:
    """In entries, in the length of one, and in what is read."""
    history = RoomHistory(tmp_path, ROOM)
    history.append_string("x" * (ENTRY_CHARACTERS + 1))
    assert kept(tmp_path) == []
    path = tmp_path / layout.typed(ROOM)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f'"{number}"\n' for number in range(ENTRIES)))
    history.append_string("new")
    assert (len(kept(tmp_path)), kept(tmp_path)[0], kept(tmp_path)[-1]) == (ENTRIES, "new", "1")
    path.write_bytes(b"\n" * (FILE_BYTES + 1))
    assert kept(tmp_path) == []


@pytest.mark.parametrize("content", [b"\xff\xfe", b"{", b'{"a": 1}\n"good"\n', b""], ids=["bytes", "cut", "other", "empty"])
def test_a_file_of_another_form_stops_nobody(tmp_path: Path, content: bytes) -> None:
    """What can be read of it is."""
    path = tmp_path / layout.typed(ROOM)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert kept(tmp_path) in ([], ["good"])
    RoomHistory(tmp_path, ROOM).append_string("more")
    assert kept(tmp_path)[0] == "more"


def test_a_full_disk_stops_nobody(tmp_path: Path) -> None:
    """The message was typed and is sent; it is only not there the next time."""

    class Full(Files):
        def sync(self, descriptor: int) -> None:
            raise OSError(28, "No space left on device")

    RoomHistory(tmp_path, ROOM, Full()).append_string("hello")
    assert kept(tmp_path) == []
