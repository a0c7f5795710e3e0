"""What the composition root is told: resolved from the settings by the daemon's entry point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jamcore.domain.limits import APPROVAL_DEADLINE_S, DEFAULTS, Limits
from jamcore.domain.sandboxes import Resources
from jamcore.journal.points import CrashPoints, NoCrash
from jamcore.system.clock import Clock, SystemClock
from jamcore.system.files import Files
from jamcore.system.ids import IdSource, SystemIds


@dataclass(frozen=True, slots=True)
class DaemonOptions:
    """Places, choices and seams. The seams have their real implementation as default; tests replace them."""

    app: Path
    runtime: Path
    version: str
    pid: int
    environment: Mapping[str, str]
    engine: str | None = None
    resources: Resources = field(default_factory=Resources)
    blocked_plugins: frozenset[str] = frozenset()
    providers: Mapping[str, object] = field(default_factory=dict)
    sandboxing: bool = True
    engine_host: str | None = None
    storage_volume: str | None = None
    wheel_directory: Path | None = None
    database_url: str | None = None
    approval_deadline_s: float = APPROVAL_DEADLINE_S
    limits: Limits = DEFAULTS
    files: Files = field(default_factory=Files)
    clock: Clock = field(default_factory=SystemClock)
    ids: IdSource = field(default_factory=SystemIds)
    crash: CrashPoints = field(default_factory=NoCrash)
    told: Callable[[str], None] = lambda _doing: None
    """Told what the start is about, for whoever waits for it; empty at its end."""
