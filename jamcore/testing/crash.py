"""Crash points for tests: what ends a process, or fails an effect, at a named boundary (WS-12).

Every journaled action names its boundaries itself (``Action.crash_points``), so a matrix over them covers a new step on the day it is
written::

    @pytest.mark.parametrize("point", ACTION.crash_points())
    async def test_crash_matrix(point: str) -> None:
        with pytest.raises(Killed):
            await Runner(journal, KillAt(point)).run(ACTION, identifier, record)
        await Runner(journal, NoCrash()).run(ACTION, identifier, record)
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from jamcore.journal.points import CrashPoints, NoCrash


class Killed(BaseException):
    """The process ended here, in effect: not an ``Exception``, so that nothing under test handles it."""


class At:
    """Does something at the ``count``-th passing of one boundary, and nothing at any other."""

    def __init__(self, point: str, effect: Callable[[], None], *, count: int = 1) -> None:
        self._point = point
        self._effect = effect
        self._left = count

    def reach(self, point: str) -> None:
        """See :meth:`CrashPoints.reach`."""
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                self._effect()


class RaiseAt(At):
    """Raises an error at a boundary."""

    def __init__(self, point: str, error: BaseException, *, count: int = 1) -> None:
        super().__init__(point, self._raise, count=count)
        self._error = error

    def _raise(self) -> None:
        raise self._error


class KillAt(RaiseAt):
    """Ends the run at a boundary within the process, by :class:`Killed`. Effects that only a real kill loses are not lost."""

    def __init__(self, point: str, *, count: int = 1) -> None:
        super().__init__(point, Killed(point), count=count)


class SigkillAt(At):
    """Ends its own process by SIGKILL at a boundary: for a child process with real files and a real database."""

    def __init__(self, point: str, *, count: int = 1) -> None:
        super().__init__(point, _end_at_once, count=count)


class Passed:
    """Notes the boundaries that were passed, for tests of which effects lie between two."""

    def __init__(self) -> None:
        self.points: list[str] = []

    def reach(self, point: str) -> None:
        """See :meth:`CrashPoints.reach`."""
        self.points.append(point)


def _end_at_once() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


__all__ = ["At", "CrashPoints", "KillAt", "Killed", "NoCrash", "Passed", "RaiseAt", "SigkillAt"]
