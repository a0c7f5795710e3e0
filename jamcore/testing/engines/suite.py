"""The published engine suite.

An engine's author writes four lines::

    from jamcore.testing.engines import EngineSuite
    from my_engine import MyEnginePlugin

    class TestEngine(EngineSuite):
        plugin = MyEnginePlugin

Guests need ``sh``, ``cat``, ``sleep``, ``grep``, ``env`` and a Python; ``python`` says how that is called. What an engine does not claim
is skipped; everything else has to pass.
"""

from __future__ import annotations

import pytest

from jamcore.testing.engines.abilities import FreezeTests, HostViewTests, ReachTests
from jamcore.testing.engines.clones import CloneTests
from jamcore.testing.engines.lifecycle import LifecycleTests
from jamcore.testing.engines.processes import ProcessTests
from jamcore.testing.engines.streams import StreamTests
from jamcore.testing.engines.terminals import TerminalTests


@pytest.mark.anyio
@pytest.mark.guarantee("ENG-5")
class EngineSuite(StreamTests, ProcessTests, TerminalTests, LifecycleTests, FreezeTests, ReachTests, HostViewTests, CloneTests):
    """Everything that an engine has to do."""
