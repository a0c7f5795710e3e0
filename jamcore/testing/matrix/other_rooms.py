"""Scenarios of rooms that are not a managed workspace of their own, where the steps of a kind do something else for them."""

from __future__ import annotations

from jamcore.testing.matrix.scenario import Scenario

OTHER_ROOMS: tuple[Scenario, ...] = ()
