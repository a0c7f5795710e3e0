"""What stands for the guest's places in a profile's texts."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

NAMES = ("tools_root", "state_root", "home", "relay_url", "cwd", "model", "identity")
_NAMES = re.compile(rf"\{{({'|'.join(NAMES)})\}}")
_WORD = re.compile(r"(?<!\$)\{([a-z_]+)\}")
"""What looks like a place; ``${name}`` is a shell's."""


def unknown_place(text: str) -> str | None:
    """Return what looks like a place in a word, and is none. A text of several words may be a script, whose braces are its own."""
    words = () if len(text.split()) > 1 else _WORD.findall(text)
    return next((f"{{{word}}}" for word in words if word not in NAMES), None)


@dataclass(frozen=True, slots=True)
class Places:
    """The guest's places, and what one session asks for."""

    tools_root: str
    state_root: str
    home: str
    relay_url: str
    cwd: str = ""
    model: str = ""
    identity: str = ""

    def fill(self, text: str) -> str:
        """Return ``text`` with the places in it. In one that is JSON they are written as JSON writes text, so that none can end it."""
        is_json = text.startswith(("{", "[")) and not _NAMES.match(text)

        def place(found: re.Match[str]) -> str:
            value: str = getattr(self, found[1])
            return json.dumps(value)[1:-1] if is_json else value

        return _NAMES.sub(place, text)
