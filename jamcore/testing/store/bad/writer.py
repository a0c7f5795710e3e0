"""A daemon's life in a process of its own whose store is bad: ``python -m jamcore.testing.store.bad.writer HOW URL DAEMON ROOM``."""

from __future__ import annotations

import sys
from uuid import UUID

import anyio
import pytest

from jamcore.testing.store.bad.lives import break_this_process
from jamcore.testing.store.writer import write

if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        break_this_process(patch, sys.argv[1])
        print(anyio.run(write, sys.argv[2], UUID(sys.argv[3]), UUID(sys.argv[4])), flush=True)
