"""The daemon's entry point: ``jamd``, or ``python -m jamcore.jamd``."""

from __future__ import annotations

import gc


def main() -> int:
    """Run the daemon in the foreground. Prints nothing but, when it cannot start, one line that says why.

    What is imported stays for the daemon's life. So the collector rests while it is made (a tenth of the start-up), and never looks at
    it again (a pause in the middle of somebody's turn).
    """
    gc.disable()
    from jamcore.jamd.service import main as serve  # late: everything that the daemon is made of

    gc.freeze()
    gc.enable()
    return serve()
