"""What stands for the guest's places in a profile's texts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_GUEST = ("tools_root", "state_root", "home", "relay_url")
NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "argv": (*_GUEST, "cwd", "model"),
        "environment": (*_GUEST, "cwd", "model"),
        "version_argv": _GUEST,
        "prepared": _GUEST,
        "move": (*_GUEST, "cwd", "identity"),
        "model_value": ("model",),
    }
)
"""The places that there are in the texts of each key; any other would be filled with nothing."""
_ALL = tuple(dict.fromkeys(name for names in NAMES.values() for name in names))
_NAMES = re.compile(rf"(?<!\$)\{{({'|'.join(_ALL)})\}}")
_WORD = re.compile(r"(?<!\$)\{([a-z_]+)\}")
"""What looks like a place; ``${name}`` is a shell's."""


def unknown_place(key: str, text: str) -> str | None:
    """Return what looks like a place in a text of ``key``, and is none there.

    A text of several words may be a script, and a prepared file anything: what is a place nowhere is their own.
    """
    own = key == "prepared" or len(text.split()) > 1
    return next((f"{{{word}}}" for word in _WORD.findall(text) if word not in NAMES[key] and (word in _ALL or not own)), None)


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
