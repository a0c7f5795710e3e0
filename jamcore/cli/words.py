"""The words of lists, made of plain values: what prints JSON as it came and what prints records say the same."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

NO_ISOLATION = "none"
"""The isolation class of host processes."""
SHORT_ID = 13
"""Characters of an id in lists: a UUIDv7 begins with its time, so 8 would be equal for what was made within a minute."""
TEXT_CHARACTERS = 48
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))


def room_word(*, busy: bool, live: bool, not_parked: str = "", workspace: str = "", host: str = "") -> str:
    """Return what a room is doing, in a word or two. A parked room whose sandbox could not be stopped yet says so (START-5).

    ``workspace`` and ``host`` are states: of a room whose host was removed for good, or whose files are archived, that is what a person
    has to know first.
    """
    if host == "removed":
        return host
    if workspace == "archived":
        return workspace
    return "working" if busy else "live" if live else "not parked yet" if not_parked else "parked"


def kept_word(safety: Mapping[str, Any], now: datetime) -> str:
    """Return how a room's conversation is kept: its newest generation, how old that is, and turns that are in none."""
    if safety["unsaved"]:
        return "not saved"
    kept, outside = safety["kept"], safety["turns_outside"]
    word = f"{kept['generation']}, {passed(datetime.fromisoformat(kept['created_at']), now)}" if kept else ""
    return f"{word} +{outside}".strip() if outside else word


def passed(since: datetime, now: datetime) -> str:
    """Return how long ago it was, in its greatest unit."""
    seconds = max(0, int((now - since).total_seconds()))
    return next((f"{seconds // size} {unit}" for size, unit in _UNITS if seconds >= size), f"{seconds} s")


def size_word(count: int) -> str:
    """Return a size in its greatest unit; units are powers of 1024."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def exact_size(count: int) -> str:
    """Return a size in its greatest unit and in bytes: what goes or stays is said exactly."""
    word = size_word(count)
    return word if word.endswith("bytes") else f"{word} ({count} bytes)"


def quoted(name: str) -> str:
    """Return a room's name or a path as it is typed in a command that people are told to type: both may have spaces."""
    import shlex  # late: most commands name none

    return shlex.quote(name)


def turn_word(state: str, *, live: bool) -> str:
    """Return how a turn stands. What ran when its room went down is in doubt until the room is used again."""
    return "in doubt" if state == "running" and not live else state


def engine_word(engine: str, isolation: str) -> str:
    """Return a room's engine for a list, with the warning that fits there."""
    return f"{engine} (no isolation)" if isolation == NO_ISOLATION else engine


def shortened(text: str) -> str:
    """Return the beginning of a message on one line."""
    line = " ".join(text[: TEXT_CHARACTERS * 2].split())
    return line if len(line) <= TEXT_CHARACTERS else line[: TEXT_CHARACTERS - 1] + "…"
