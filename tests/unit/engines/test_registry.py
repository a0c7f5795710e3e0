"""Engine plugins come by entry point; one that is broken is reported by name and the rest go on."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from jamcore.engines.bubblewrap import BubblewrapEnginePlugin
from jamcore.engines.registry import GROUP, EngineRegistry

PLUGIN = "jamcore.engines.bubblewrap:BubblewrapEnginePlugin"


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group=GROUP)


@pytest.mark.guarantee("ENG-2")
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("absent", "jam_no_such_module:Engine", "cannot be loaded"),
        ("exits", "sys:exit", "cannot be loaded"),
        ("empty", "builtins:dict", "lacks"),
        ("other", PLUGIN, "calls itself bubblewrap"),
    ],
)
def test_a_broken_engine_is_reported_and_the_rest_go_on(name: str, value: str, said: str) -> None:
    """Whatever an author did wrong ends with that plugin."""
    registry = EngineRegistry()
    registry.load(found=[entry(name, value), entry("bubblewrap", PLUGIN)])
    assert set(registry.plugins()) == {"bubblewrap"}
    states = {report.name: (report.state, report.violations) for report in registry.reports()}
    assert states["bubblewrap (engine)"][0] == "loaded"
    assert states[f"{name} (engine)"][0] == "broken"
    assert said in states[f"{name} (engine)"][1][0]


@pytest.mark.guarantee("ENG-2")
def test_the_built_in_engine_comes_through_the_same_door() -> None:
    """It is found as anybody's would be."""
    registry = EngineRegistry()
    registry.load()
    assert isinstance(registry.plugins()["bubblewrap"], BubblewrapEnginePlugin)
