"""The words of lists, made of plain values: what prints JSON as it came and what prints records say the same."""

from __future__ import annotations

NO_ISOLATION = "none"
"""The isolation class of host processes."""
SHORT_ID = 13
"""Characters of an id in lists: a UUIDv7 begins with its time, so 8 would be equal for what was made within a minute."""
TEXT_CHARACTERS = 48


def room_word(*, busy: bool, live: bool, not_parked: str = "") -> str:
    """Return what a room is doing, in a word or two. A parked room whose sandbox could not be stopped yet says so (START-5)."""
    return "working" if busy else "live" if live else "not parked yet" if not_parked else "parked"


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
