"""The engine suite finds each bad engine, by exactly the check that says what is wrong with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jamcore.testing.engines import EngineSuite, Topic, checks_of
from jamcore.testing.engines.bad import FAULTS

pytest_plugins = "pytester"
pytestmark = [pytest.mark.needs("bubblewrap"), pytest.mark.guarantee("ENG-5", "KIT-1"), pytest.mark.timeout(300)]

ENGINES = Path(__file__).parents[1] / "engines"
MODULE = """
from jamcore.testing.engines.bad import FAULTS, with_fault
from test_bubblewrap_suite import TestBubblewrap as Good

class TestBad(Good):
    plugin = with_fault(Good.plugin, FAULTS[{name!r}])

del Good
"""
CONFTEST = """
import pytest

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""


QUICK = (Topic.BYTES, Topic.HALF_CLOSE, Topic.EXITS, Topic.DIRECTORY, Topic.USERS, Topic.TERMINALS, Topic.MOUNTS)
"""Whose checks are run beside those that find a fault: all together they take longer than the rest of the core's tests."""


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_bad_engine_fails_the_one_check_that_names_its_fault(pytester: pytest.Pytester, name: str) -> None:
    """The checks that find the other faults, and more, pass on it: the report says what is wrong and nothing else."""
    found_by = {fault.found_by for fault in FAULTS.values()}
    chosen = [one for one in checks_of(EngineSuite) if one.name in found_by or one.topic in QUICK]
    tests = {one.name: f"test_{one.name.replace('-', '_')}" for one in chosen}
    assert found_by <= set(tests)
    pytester.makeini(f"[pytest]\nanyio_mode = auto\npythonpath = {ENGINES}\n")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_bad=MODULE.format(name=name))
    result = pytester.runpytest_inprocess("-q", "-rf", "--tb=no", "-k", " or ".join(tests.values()))
    failed = {match[1] for line in result.outlines if (match := re.match(r"FAILED .*::(test_\w+)", line))}
    assert failed == {tests[FAULTS[name].found_by]}, result.outlines[-20:]
    assert result.parseoutcomes()["passed"] > len(tests) / 2
