"""The published engine suite.

An engine's author writes four lines::

    from jamcore.testing.engines import EngineSuite
    from my_engine import MyEnginePlugin

    class TestEngine(EngineSuite):
        plugin = MyEnginePlugin

Guests need ``sh``, ``cat``, ``sleep``, ``grep``, ``env``, ``id``, ``date`` and a Python; ``python`` says how that is called. What an
engine does not claim, by its abilities and its isolation class, is skipped as "not claimed" with the reason; everything else has to
pass. ``python -m jamcore.testing.engines`` prints every check with its rule and why it is one.
"""

from __future__ import annotations

import pytest

from jamcore.testing.engines.abilities import FreezeTests, HostViewTests, ReachTests
from jamcore.testing.engines.battery import EscapeTests
from jamcore.testing.engines.clones import CloneTests
from jamcore.testing.engines.lifecycle import LifecycleTests
from jamcore.testing.engines.limits import ResourceTests
from jamcore.testing.engines.processes import ProcessTests
from jamcore.testing.engines.sickness import SicknessTests
from jamcore.testing.engines.streams import StreamTests
from jamcore.testing.engines.terminals import TerminalTests


@pytest.mark.anyio
@pytest.mark.guarantee("ENG-5")
class EngineSuite(
    StreamTests,
    ProcessTests,
    TerminalTests,
    LifecycleTests,
    SicknessTests,
    FreezeTests,
    ReachTests,
    HostViewTests,
    CloneTests,
    ResourceTests,
    EscapeTests,
):
    """Everything that an engine has to do."""
