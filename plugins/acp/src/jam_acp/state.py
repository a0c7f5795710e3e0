"""Which version of an agent may resume what another wrote (CONT-7)."""

from __future__ import annotations

from jam_acp.profile import Profile
from jamcore.api import may_resume


def accepts_version(profile: Profile, captured: str, current: str) -> bool:
    """Whether the agent's version ``current`` may resume what ``captured`` wrote; what Jam does not place itself is its own pin."""
    pinned = current if profile.toolchain is None else profile.toolchain.version
    return may_resume(captured, current, pinned=pinned, seen=profile.resumes, patches=profile.versions == "patch")
