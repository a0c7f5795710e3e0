"""Time as a dependency."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> datetime:
        """Return the current time in UTC."""

    def monotonic(self) -> float:
        """Return seconds that never go backwards; only differences mean something."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """See :meth:`Clock.now`."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """See :meth:`Clock.monotonic`."""
        return time.monotonic()
