"""An engine that must ask: no answer in time, garbage and an empty answer are unknown, and nothing is done on them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from jamcore.domain.sandboxes import SandboxSpec
from jamcore.engines.bubblewrap import BubblewrapEnginePlugin
from jamcore.testing.doubles.remote import remote, sick
from jamcore.testing.engines import Sickness
from jamcore.testing.engines.sickness import SicknessTests


@pytest.mark.anyio
@pytest.mark.needs("bubblewrap")
@pytest.mark.unprivileged
@pytest.mark.guarantee("ENG-5", "OWN-8")
class TestRemote(SicknessTests):
    """Every sickness there is."""

    plugin = remote(BubblewrapEnginePlugin)
    sicknesses = frozenset(Sickness)

    def sicken(self, sickness: Sickness, root: Path, spec: SandboxSpec) -> AbstractContextManager[None]:
        """Make the control sick."""
        del spec  # the control knows all or nothing
        return sick(root, sickness)
