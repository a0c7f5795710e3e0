"""The daemon's entry point: ``jamd``, or ``python -m jamcore.jamd``. Most of a start is imports, so this orders them."""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from threading import Thread


def main() -> int:
    """Run the daemon in the foreground. Prints nothing but, when it cannot start, one line that says why.

    What is imported stays for the daemon's life. So the collector rests while it is made (a tenth of the start-up), and never looks at
    it again (a pause in the middle of somebody's turn).
    """
    gc.disable()
    _without_a_console("structlog")
    # Its import reads the system's certificates, 30 ms in OpenSSL, during which this thread goes on.
    ahead = Thread(target=import_module, args=("aiohttp",), name="jam import ahead")
    ahead.start()
    from jamcore.jamd.service import main as serve  # late: everything that the daemon is made of

    ahead.join()
    gc.freeze()
    gc.enable()
    return serve()


def _without_a_console(module: str) -> None:
    """Import a module that would import rich to draw on a terminal. A daemon has none, and rich is 25 ms of every start.

    ``None`` is Python's own word for a module that cannot be imported; structlog goes without it.
    """
    missing = "rich" not in sys.modules
    if missing:
        sys.modules["rich"] = None  # type: ignore[assignment] # documented, but not in its type
    import_module(module)
    if missing:
        del sys.modules["rich"]
