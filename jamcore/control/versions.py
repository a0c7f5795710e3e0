"""Which protocol client and daemon speak, and which release this is."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

API_VERSION = 1
"""Raised when an older client would misunderstand an answer. Additions do not raise it."""

API_HEADER = "Jam-Api"
VERSION_HEADER = "Jam-Version"


@cache  # every answer carries it, and it does not change under a running process
def jam_version() -> str:
    """Return the installed release, or ``0+source`` when the package was never installed."""
    try:
        return version("jamcore")
    except PackageNotFoundError:
        return "0+source"
