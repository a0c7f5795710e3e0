"""Commands that are programs of the testing package, on which the command line does not depend."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def become(module: str, *arguments: str) -> NoReturn:
    """Become a module's program: its output, its signals and its exit status are the terminal's own."""
    sys.stdout.flush()
    # ``-P`` runs nothing of the current directory.
    os.execv(sys.executable, [sys.executable, "-P", "-m", module, *arguments])  # noqa: S606 - no shell, and a module of Jam's own
