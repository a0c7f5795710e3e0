"""Which version of a provider's program may resume what another wrote (CONT-7)."""

from __future__ import annotations

import re
from collections.abc import Collection

_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})\Z")


def may_resume(captured: str, current: str, *, pinned: str, seen: Collection[str] = (), patches: bool = False) -> bool:
    """Whether version ``current`` may resume what ``captured`` wrote. The resume itself is proven again by what the program reports.

    Yes for the same version, for what the pinned program was seen to resume, and, where a release's patches change nothing in a resume, for
    an older patch of the same release. Never for something newer than the program: it may not know what it reads. A measurement holds for
    the pinned program, not for any other, and a pre-release reads only its own.

    Args:
        captured: The version that wrote the state.
        current: The version that is to read it; empty where the program says none, which resumes nothing.
        pinned: The version that ``seen`` was measured with.
        seen: Versions whose state it was seen to resume exactly.
        patches: Whether the vendor's patches may resume what an older one of them wrote.
    """
    if captured == current or (current == pinned and captured in seen):
        return bool(current)
    old, new = _VERSION.match(captured), _VERSION.match(current)
    if not patches or old is None or new is None:
        return False
    (*old_release, old_patch), (*new_release, new_patch) = map(int, old.groups()), map(int, new.groups())
    return old_release == new_release and old_patch <= new_patch
