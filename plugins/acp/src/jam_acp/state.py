"""Which version of an agent may resume what another wrote (CONT-7)."""

from __future__ import annotations

import re

from jam_acp.profile import Profile

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)\Z")


def accepts_version(profile: Profile, captured: str, current: str) -> bool:
    """Whether the agent's version ``current`` may resume what ``captured`` wrote.

    Yes for the same, for what the profile says was seen to come back with its pinned version, and, where the profile allows it, for an
    older patch of the same release. Never for something newer than the program. The resume itself is proven again by what it reports.
    """
    if captured == current:
        return bool(current)
    pinned = profile.toolchain is None or profile.toolchain.version == current
    if pinned and captured in profile.resumes:
        return True
    old, new = _VERSION.match(captured), _VERSION.match(current)
    if profile.versions == "same" or old is None or new is None:
        return False
    (*old_line, old_patch), (*new_line, new_patch) = map(int, old.groups()), map(int, new.groups())
    return old_line == new_line and old_patch <= new_patch
