"""The scenarios that there are: one for each journaled kind, and more of some for other rooms."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jamcore.testing.matrix.elsewhere import ELSEWHERE
from jamcore.testing.matrix.keeping import KEEPING
from jamcore.testing.matrix.other_rooms import OTHER_ROOMS
from jamcore.testing.matrix.scenario import Scenario
from jamcore.testing.matrix.working import WORKING

SCENARIOS: Mapping[str, Scenario] = MappingProxyType({scenario.kind: scenario for scenario in (*WORKING, *KEEPING, *ELSEWHERE)})
PLAYED: Mapping[str, Scenario] = MappingProxyType({scenario.name: scenario for scenario in (*SCENARIOS.values(), *OTHER_ROOMS)})
"""Everything that the crash matrix plays, by its name."""
