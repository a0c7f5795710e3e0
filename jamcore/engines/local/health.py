"""Whether host processes can be supervised here; it says plainly that nothing isolates them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from jamcore.domain.sandboxes import EngineHealth, Finding
from jamcore.engines.local.names import ENGINE

WHAT_IT_IS = "no sandbox: agents run as {who} and can read and change everything that {who} can"


async def probe() -> EngineHealth:
    """Look, and never raise for what is missing (CAP-1)."""
    if sys.platform != "linux" or not Path("/proc/self/environ").exists() or not hasattr(os, "pidfd_open"):
        detail = "host processes are only supervised on Linux with /proc"
        return _health(Finding(subject=f"engine {ENGINE}", ok=False, detail=detail, hint="Use another engine."))
    who = "root" if os.geteuid() == 0 else "you"
    return _health(Finding(subject=f"engine {ENGINE}", ok=True, detail=WHAT_IT_IS.format(who=who)))


def _health(finding: Finding) -> EngineHealth:
    return EngineHealth(engine=ENGINE, usable=finding.ok, findings=(finding,))
