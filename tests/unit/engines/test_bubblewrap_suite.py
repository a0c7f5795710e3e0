"""The bubblewrap engine passes the suite that every engine has to pass, as root and as an ordinary user."""

from __future__ import annotations

from typing import ClassVar

import pytest

from jamcore.engines.bubblewrap import BubblewrapEnginePlugin
from jamcore.engines.bubblewrap.machine import look
from jamcore.testing.engines import EngineSuite
from jamcore.testing.engines.box import Python

_MACHINE = look()
_LIBRARIES = _MACHINE.library_path if _MACHINE else None


@pytest.mark.needs("bubblewrap")
@pytest.mark.unprivileged
@pytest.mark.guarantee("ENG-2")
class TestBubblewrap(EngineSuite):
    """Its guests have the interpreter that runs process 1."""

    plugin = BubblewrapEnginePlugin
    python: ClassVar[Python] = Python(
        argv=(_MACHINE.python if _MACHINE else "python3",),
        environment=(("LD_LIBRARY_PATH", _LIBRARIES),) if _LIBRARIES else (),
    )
