"""For tests alone: the daemon ends itself by SIGKILL at a named boundary, as a machine that loses it there would.

``JAM_CRASH_POINT=NAME`` in the daemon's environment chooses the boundary, ``NAME#3`` its third passing. ``stop:NAME`` stands still there
instead, by SIGSTOP, until somebody sends SIGCONT: what happens to the world meanwhile happens exactly at that boundary. Without the
variable every boundary is passed without a thought. The names are those that the code itself passes to ``reach``: of publications and
restores (:data:`jamcore.continuity.generations.publish.POINTS`, :data:`jamcore.continuity.resuming.restore.RESTORE_POINTS`), of a creation
(:data:`jamcore.sandbox.ensure.CREATE_POINTS`), of a turn (:data:`jamcore.runtime.turns.START_SEEN`), of an answer
(:data:`jamcore.runtime.approvals.DECIDED`) and of a change request (:data:`jamcore.runs.change_action.CHANGE_POINTS`).
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping

from jamcore.journal.points import CrashPoints, NoCrash

VARIABLE = "JAM_CRASH_POINT"


STOP = "stop:"


class Here:
    """Does something at the ``count``-th passing of one boundary."""

    def __init__(self, point: str, count: int, effect: Callable[[], None]) -> None:
        self._point = point
        self._left = count
        self._effect = effect

    def reach(self, point: str) -> None:
        """See :meth:`jamcore.journal.points.CrashPoints.reach`."""
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                self._effect()


def crash_points(environment: Mapping[str, str]) -> CrashPoints:
    """Return what the environment asks for: nothing, unless a test set the variable."""
    wanted = environment.get(VARIABLE, "")
    point, _, count = wanted.removeprefix(STOP).partition("#")
    effect = _stand_still if wanted.startswith(STOP) else _end
    return Here(point, int(count) if count.isdigit() else 1, effect) if point else NoCrash()


def _end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _stand_still() -> None:
    # Sent to this thread: another one could take a signal to the process while this one went on for a moment.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
