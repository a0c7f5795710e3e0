"""The engine suite finds each bad engine, by exactly the check that says what is wrong with it.

``JAM_MUTANTS=all`` puts the whole suite to each; otherwise it is the check that finds it, and a few that are quick.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from jamcore.testing.engines import Check, EngineSuite, Topic, checks_of
from jamcore.testing.engines.bad import FAULTS, NOT_BY_ITS_PORT

pytest_plugins = "pytester"

WHOLE = os.environ.get("JAM_MUTANTS") == "all"
pytestmark = [pytest.mark.guarantee("ENG-5", "KIT-1"), pytest.mark.timeout(1800 if WHOLE else 300)]
QUICK = (Topic.BYTES, Topic.USERS, Topic.MOUNTS)
"""Whose checks are put to every bad engine: all together they take longer than the rest of the core's tests."""

ENGINES = Path(__file__).parents[1] / "engines"
MODULE = """
from jamcore.testing.engines.bad import FAULTS, with_fault
from test_bubblewrap_suite import TestBubblewrap as Good

class TestBad(Good):
    plugin = with_fault(Good.plugin, FAULTS[{name!r}])

del Good
"""
BAD_PROCESS_ONE = """
import pytest
from jamcore.engines.bubblewrap import launch
from test_bubblewrap_suite import TestBubblewrap as Good

HEEDS = "import signal; good = signal.signal; signal.signal = lambda n, do: good(n, end if n == signal.SIGUSR2 else do); "
END = "end = lambda *_: __import__('os')._exit(1); "

class TestBad(Good):
    @pytest.fixture(autouse=True)
    def _heeds_a_signal(self, monkeypatch):
        monkeypatch.setattr(launch, "BOOT", END + HEEDS + launch.BOOT)

del Good
"""
"""A process 1 that ends at a signal of a guest's. It is this engine's own, as every process 1 is: no wrapper makes a good one do that."""
CONFTEST = """
import pytest

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""
CHECKS = {one.name: one for one in checks_of(EngineSuite)}


def test_every_check_has_an_engine_that_it_finds() -> None:
    """A check that is removed leaves its fault unfound, a new one needs a fault, and the few that have none have a reason."""
    assert {fault.found_by for fault in FAULTS.values()} == set(CHECKS) - set(NOT_BY_ITS_PORT)
    assert set(NOT_BY_ITS_PORT) == {"process-one-ignores-what-guests-send-it"}
    assert all(reason.endswith(".") for reason in NOT_BY_ITS_PORT.values())


@pytest.mark.slow
@pytest.mark.needs("bubblewrap")
@pytest.mark.parametrize("name", FAULTS)
def test_a_bad_engine_fails_the_one_check_that_names_its_fault(pytester: pytest.Pytester, name: str) -> None:
    """All others that are put to it pass: the report says what is wrong and nothing else."""
    assert failed_by(pytester, MODULE.format(name=name), FAULTS[name].found_by) == {FAULTS[name].found_by}


@pytest.mark.slow
@pytest.mark.needs("bubblewrap")
def test_a_bad_process_one_fails_the_one_check_that_no_fault_of_a_port_fails(pytester: pytest.Pytester) -> None:
    """What is inside of an engine is made bad inside of one."""
    (found_by,) = NOT_BY_ITS_PORT
    assert failed_by(pytester, BAD_PROCESS_ONE, found_by) == {found_by}


def failed_by(pytester: pytest.Pytester, module: str, found_by: str) -> set[str]:
    """Return the checks that the engine of a module fails: of all, or of the one that is to find it and the quick ones."""
    chosen = [one for one in CHECKS.values() if WHOLE or one.name == found_by or one.topic in QUICK]
    pytester.makeini(f"[pytest]\nanyio_mode = auto\npythonpath = {ENGINES}\n")
    pytester.makeconftest(CONFTEST)
    file = pytester.makepyfile(test_bad=module)
    tests = {name_of(one): one.name for one in chosen}
    with TemporaryDirectory(prefix="jam-") as place:  # a socket's path must be short
        options = ("-q", "-rfE", "--tb=short", f"--basetemp={place}/t")
        result = pytester.runpytest_inprocess(*options, *(f"{file.name}::TestBad::{test}" for test in tests))
    failed = {tests[match[1]] for line in result.outlines if (match := re.match(r"(?:FAILED|ERROR) .*::(test_\w+)", line))}
    assert result.parseoutcomes()["passed"] > len(chosen) / 2
    return failed


def name_of(one: Check) -> str:
    """Return the name of a check's test."""
    return f"test_{one.name.replace('-', '_')}"
