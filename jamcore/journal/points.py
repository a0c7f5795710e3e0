"""Crash points: the named boundaries at which tests end the process, to prove that a restart makes it whole (WS-12)."""

from __future__ import annotations

from typing import Protocol


class CrashPoints(Protocol):
    """Told of every boundary as it is passed."""

    def reach(self, point: str) -> None:
        """Pass a boundary. A test's implementation does not return from the one it was made for."""


class NoCrash:
    """What runs outside tests."""

    def reach(self, point: str) -> None:
        """Do nothing."""
