"""Text of an agent's names: it can be shown on a terminal, and different names never become the same text (SEC-3)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from jamcore.domain.limits import INSPECTION_SHOWN
from jamcore.domain.removal import Listing

CHARACTERS = 300
"""Of one name; a longer one is cut, and ends in a digest of the whole."""


def shown(raw: bytes) -> str:
    """Return bytes as text: a backslash, control characters and what is no text are written as escapes."""
    text = "".join(map(_escaped, raw.decode(errors="surrogateescape")))
    if len(text) <= CHARACTERS:
        return text
    return f"{text[:CHARACTERS]}…{hashlib.sha256(raw).hexdigest()[:16]}"


def shown_place(path: bytes) -> str:
    """Return a path relative to the tree, the tree itself as ``.``."""
    return shown(path) or "."


def listing(names: Iterable[bytes], *, count: int | None = None) -> Listing:
    """Return a listing of what comes first; ``count`` when there are more than were kept."""
    kept = list(names)
    return Listing(count=len(kept) if count is None else count, first=tuple(map(shown, kept[:INSPECTION_SHOWN])))


def _escaped(char: str) -> str:
    if char == "\\":
        return r"\\"
    if char.isprintable():
        return char
    number = ord(char)
    if 0xDC80 <= number <= 0xDCFF:  # a byte that is no text
        return f"\\x{number - 0xDC00:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
