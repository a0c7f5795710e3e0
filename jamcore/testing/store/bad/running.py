"""Puts the store suite to bad stores: all of it, or the check that finds each fault with a draw of the others."""

from __future__ import annotations

import io
import os
from collections.abc import Generator, Iterable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from jamcore.testing.store.bad.fault import Fault

SUITE = Path(__file__).with_name("suite.py")
DRAWN = 4
"""How many other checks are put to a bad store, with one of their cases each."""
CHARACTERS = 2_000
SETTINGS = (
    *("-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={SUITE.parent}", "--import-mode=importlib"),
    # Each test has a database of its own, and there are thousands: those of tests that passed go at once.
    *("-o", "anyio_mode=auto", "-o", "tmp_path_retention_policy=failed"),
)


@dataclass(slots=True)
class Report:
    """What became of the checks that were put to one bad store: the words of those that failed, the names of those that passed."""

    fault: Fault
    failed: dict[str, str] = field(default_factory=dict)
    passed: set[str] = field(default_factory=set)
    seconds: float = 0

    def problems(self) -> list[str]:
        """Return what is wrong: nothing when the check that names the fault fails, and no other."""
        found = [] if self.fault.found_by in self.failed else [f"{self.fault.found_by} did not fail"]
        return found + [f"{check} failed: {said}" for check, said in self.failed.items() if check != self.fault.found_by]


class Runner:
    """A plugin of pytest that puts the checks to the bad stores, and keeps what came of it."""

    def __init__(self, faults: Iterable[Fault], *, whole: bool) -> None:
        self.reports = {fault.name: Report(fault) for fault in faults}
        self._whole = whole

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make a test of a check for each bad store."""
        if "fault" in metafunc.fixturenames:
            faults = [report.fault for report in self.reports.values()]
            metafunc.parametrize("fault", faults, ids=[fault.name.replace(" ", "-") for fault in faults])

    def pytest_collection_modifyitems(self, items: list[pytest.Function]) -> None:
        """Leave out what is not drawn."""
        if self._whole:
            return
        kept: list[pytest.Function] = []
        for report in self.reports.values():
            mine = [item for item in items if _fault(item) is report.fault]
            own = [item for item in mine if item.originalname == report.fault.found_by]
            shuffled = Random(report.fault.name).sample(mine, len(mine))  # noqa: S311 - a draw that is the same each time
            others = {item.originalname: item for item in shuffled if item not in own}
            kept += own + list(others.values())[:DRAWN]
        items[:] = kept

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Function) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep what came of one phase of a check."""
        found = yield
        report = self.reports[_fault(item).name]
        report.seconds += found.duration
        if found.failed:
            report.failed[item.originalname] = _said(found)
        elif found.when == "call" and found.passed:
            report.passed.add(item.originalname)
        return found


def run(faults: Iterable[Fault], *, whole: bool = False) -> tuple[Report, ...]:
    """Put the suite to stores with these faults, and return what came of each.

    Raises:
        RuntimeError: The suite could not be run.
    """
    runner, log = Runner(faults, whole=whole), io.StringIO()
    with TemporaryDirectory(prefix="jam-") as scratch, redirect_stdout(log), redirect_stderr(log):
        status = pytest.main([*SETTINGS, f"--basetemp={scratch}/tests", str(SUITE)], plugins=[runner])
    if status not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
        raise RuntimeError(log.getvalue()[-4000:])
    return tuple(runner.reports.values())


def _said(report: pytest.TestReport) -> str:
    """Return the error of a check that failed, without the way to it."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return f"{crash.path}:{crash.lineno}: {crash.message}"[:CHARACTERS] if crash else report.longreprtext[-CHARACTERS:]


def _fault(item: pytest.Function) -> Fault:
    fault = item.callspec.params["fault"]
    assert isinstance(fault, Fault)
    return fault
