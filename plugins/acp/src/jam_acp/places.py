"""What stands for the guest's places in a profile's texts."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_NAMES = re.compile(r"\{(tools_root|state_root|home|relay_url|cwd|model|identity)\}")


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
