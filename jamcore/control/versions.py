"""Which protocol client and daemon speak, and which release this is."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

API_VERSION = 1
"""Raised when an older client would misunderstand an answer. Additions do not raise it."""

API_HEADER = "Jam-Api"
VERSION_HEADER = "Jam-Version"


SOURCE = "0+source"
"""The release of a tree that was never installed; it is neither older nor newer than any other."""


@cache  # every answer carries it, and it does not change under a running process
def jam_version() -> str:
    """Return the installed release, or ``0+source`` when the package was never installed."""
    try:
        return version("jamcore")
    except PackageNotFoundError:
        return SOURCE


def age(release: str, beside: str) -> int | None:
    """Return -1, 0 or 1: a release is older than another, the same, or newer; ``None`` when that cannot be told."""
    from packaging.version import InvalidVersion, Version  # late: asked only when two releases meet

    if release == beside:
        return 0
    if SOURCE in (release, beside):
        return None
    try:
        one, other = Version(release), Version(beside)
    except InvalidVersion:
        return None
    return (one > other) - (one < other)
