"""The environment of the daemon's own process, for the few host programs that need a named part of it."""

from __future__ import annotations

import os
from collections.abc import Mapping


def inherited(names: frozenset[str], *, prefixes: tuple[str, ...] = (), source: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables with these names, or with these beginnings of a name; nothing else is passed on.

    Args:
        names: Exact names.
        prefixes: Beginnings of names.
        source: Another environment than the process's own.
    """
    found = os.environ if source is None else source
    return {name: value for name, value in found.items() if name in names or (prefixes and name.startswith(prefixes))}
