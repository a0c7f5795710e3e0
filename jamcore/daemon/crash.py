"""For tests alone: the daemon ends itself by SIGKILL at a named boundary, as a machine that loses it there would.

``JAM_CRASH_POINT=NAME`` in the daemon's environment chooses the boundary, ``NAME#3`` its third passing. Without the variable every
boundary is passed without a thought. The names are those that the code itself passes to ``reach``: of publications and restores
(:data:`jamcore.continuity.publish.POINTS`, :data:`jamcore.continuity.restore.RESTORE_POINTS`), of a creation
(:data:`jamcore.sandbox.ensure.CREATE_POINTS`), of a turn (:data:`jamcore.runtime.turns.START_SEEN`), of an answer
(:data:`jamcore.runtime.approvals.DECIDED`) and of a change request (:data:`jamcore.runs.change_action.CHANGE_POINTS`).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

from jamcore.journal.points import CrashPoints, NoCrash

VARIABLE = "JAM_CRASH_POINT"


class EndHere:
    """Ends the process at the ``count``-th passing of one boundary."""

    def __init__(self, point: str, count: int) -> None:
        self._point = point
        self._left = count

    def reach(self, point: str) -> None:
        """See :meth:`jamcore.journal.points.CrashPoints.reach`."""
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def crash_points(environment: Mapping[str, str]) -> CrashPoints:
    """Return what the environment asks for: nothing, unless a test set the variable."""
    point, _, count = environment.get(VARIABLE, "").partition("#")
    return EndHere(point, int(count) if count.isdigit() else 1) if point else NoCrash()
