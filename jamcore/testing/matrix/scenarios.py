"""The scenarios that there are: one for each journaled kind."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jamcore.testing.matrix.elsewhere import ELSEWHERE
from jamcore.testing.matrix.keeping import KEEPING
from jamcore.testing.matrix.scenario import Scenario
from jamcore.testing.matrix.working import WORKING

SCENARIOS: Mapping[str, Scenario] = MappingProxyType({scenario.kind: scenario for scenario in (*WORKING, *KEEPING, *ELSEWHERE)})
