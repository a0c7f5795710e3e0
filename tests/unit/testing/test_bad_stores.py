"""The store suite finds each bad store, by exactly the check that says what is wrong with it.

``JAM_MUTANTS=all`` puts the whole suite to each; otherwise it is the check that finds it, and a draw of the others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from jamcore.testing.providers.__main__ import checks_of
from jamcore.testing.store import StoreSuite
from jamcore.testing.store.bad import FAULTS
from jamcore.testing.store.bad.running import DRAWN

WHOLE = os.environ.get("JAM_MUTANTS") == "all"
BESIDE = 2 if WHOLE else 1
"""How many processes share the faults."""
BY_NO_STORE: Mapping[str, str] = {}
"""Checks that no bad store fails alone, each with the reason."""


@pytest.fixture(scope="module")
def reports(request: pytest.FixtureRequest) -> Mapping[str, Mapping[str, Any]]:
    """What the suite says of each bad store whose test is in this run. They are run together: each process imports everything once."""
    selected = [
        item.callspec.params["name"]  # type: ignore[attr-defined]
        for item in request.session.items
        if item.path == request.path and "reports" in getattr(item, "fixturenames", ())
    ]
    found = (json.loads(line) for said in _run([selected[start::BESIDE] for start in range(BESIDE)]) for line in said.splitlines())
    return {report["name"]: report for report in found}


def _run(shares: Iterable[list[str]]) -> list[str]:
    argv = [sys.executable, "-P", "-m", "jamcore.testing.store.bad", "--json", *(["--whole"] if WHOLE else [])]
    with ExitStack() as stack:
        started = [
            stack.enter_context(subprocess.Popen([*argv, *share], stdout=subprocess.PIPE, text=True)) for share in shares if share
        ]
        said = [process.communicate()[0] for process in started]
    assert {process.returncode for process in started} <= {0, 1}
    return said


@pytest.mark.guarantee("KIT-1")
@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", FAULTS)
def test_a_bad_store_fails_the_one_check_that_names_its_fault(reports: Mapping[str, Mapping[str, Any]], name: str) -> None:
    """All others pass on it, so the report says what is wrong and nothing else; without that check nothing would be found."""
    assert reports[name]["problems"] == []
    assert len(reports[name]["passed"]) >= (len(FAULTS) - 1 if WHOLE else DRAWN)


@pytest.mark.guarantee("KIT-1")
def test_every_check_is_failed_by_some_bad_store() -> None:
    """A new check needs a store here that fails it, and a check that is removed is missed."""
    found_by = [fault.found_by for fault in FAULTS.values()]
    assert sorted({*found_by, *BY_NO_STORE}) == sorted(name for name, _ in checks_of(StoreSuite))
    assert set(found_by) & set(BY_NO_STORE) == set()


@pytest.mark.guarantee("KIT-1")
def test_every_fault_says_what_such_a_store_does() -> None:
    """In a sentence, so that the table can be read without the code."""
    assert [fault.name for fault in FAULTS.values() if not fault.what.endswith(".")] == []
