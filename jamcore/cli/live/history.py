"""What a person typed in a room, kept for the next time: private, bounded, and never in the way of typing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from prompt_toolkit.history import History

from jamcore.domain import layout
from jamcore.system.files import Files

ENTRIES = 500
ENTRY_CHARACTERS = 10_000
"""A longer message is a paste; it is sent, and not kept."""
FILE_BYTES = 4 << 20
"""More than this many bytes are not a history that Jam wrote, so none is read."""


class RoomHistory(History):
    """The history of one room: a line of JSON for each entry, the oldest first, in a file that its owner alone may read.

    A message that begins with a space is not kept. A file that cannot be read or written is no reason not to talk.
    """

    def __init__(self, app: Path, room: UUID, files: Files | None = None) -> None:
        super().__init__()
        self._path = app / layout.typed(room)
        self._files = files or Files()

    def load_history_strings(self) -> Iterable[str]:
        """Return what was typed before, the newest first."""
        return reversed(self._kept())

    def store_string(self, string: str) -> None:
        """Keep one more."""
        if not string.strip() or string.startswith(" ") or len(string) > ENTRY_CHARACTERS:
            return
        kept = [entry for entry in self._kept() if entry != string][-(ENTRIES - 1) :]
        text = "".join(f"{json.dumps(entry)}\n" for entry in (*kept, string))
        with suppress(OSError):
            self._files.make_private(self._path.parent.parent)
            self._files.make_private(self._path.parent)
            self._files.write_atomic(self._path, text.encode())

    def _kept(self) -> list[str]:
        try:
            if self._path.stat().st_size > FILE_BYTES:
                return []
            lines = self._path.read_text().splitlines()
        except (OSError, ValueError):
            return []
        return [entry for line in lines if isinstance(entry := _entry(line), str)]


def _entry(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None
