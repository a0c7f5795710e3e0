"""The provider suite finds each bad plugin, by exactly the check that says what is wrong with it.

``JAM_MUTANTS=all`` puts the whole suite to each; otherwise it is the part of the suite that finds it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import jamcore
from jamcore.testing.mutants.__main__ import GOOD, problems
from jamcore.testing.mutants.mutation import AGENT, Edit, MutationError, files_with, place
from jamcore.testing.mutants.running import Report
from jamcore.testing.mutants.table import BASES, MUTANTS, PARTS, WITHOUT, parts_of, parts_on
from jamcore.testing.providers.__main__ import PARTS as SUITE
from jamcore.testing.providers.__main__ import checks_of, suite_of

WHOLE = os.environ.get("JAM_MUTANTS") == "all"
ELSEWHERE = frozenset({"promises"})
"""The part whose mutants are in ``promise_breakers.py``: it needs no program, and test_plugin_check.py holds its table to the checks."""
LOOPBACK = "ProviderLoopback"


def needs_of(parts: frozenset[str]) -> list[pytest.MarkDecorator]:
    """Return the mark of what a run of these parts of the suite needs."""
    return [pytest.mark.needs("bubblewrap")] if LOOPBACK in parts or WHOLE else []


BAD_ONES = [pytest.param(name, marks=needs_of(parts_of(mutant)), id=name) for name, mutant in MUTANTS.items()]
GOOD_ONES = [pytest.param(f"{GOOD}{name}", marks=needs_of(parts_on(base)), id=name) for name, base in BASES.items()]


@pytest.fixture(scope="module")
def reports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, Any]]:
    """What the suite says of each plugin whose test is in this run. They are run together: what they import is imported once."""
    selected = [
        item.callspec.params["name"]  # type: ignore[attr-defined]
        for item in request.session.items
        if item.path == request.path and "reports" in getattr(item, "fixturenames", ())
    ]
    options = ["--json", "--beside", "4", "--keep", str(tmp_path_factory.mktemp("mutants")), *(["--whole"] if WHOLE else [])]
    argv = [sys.executable, "-P", "-m", "jamcore.testing.mutants", *options, *selected]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {report["name"]: report for report in found}


@pytest.mark.guarantee("KIT-1")
@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", BAD_ONES)
def test_a_bad_plugin_fails_the_one_check_that_names_its_fault(reports: Mapping[str, Mapping[str, Any]], name: str) -> None:
    """All others pass on it, so the report says what is wrong and nothing else; without that check nothing would be found."""
    assert reports[name]["problems"] == [], reports[name]["details"]


@pytest.mark.guarantee("KIT-1")
@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", GOOD_ONES)
def test_the_good_plugin_that_it_was_made_from_passes(reports: Mapping[str, Mapping[str, Any]], name: str) -> None:
    """Also the very checks that find its mutants: none of them is skipped as not claimed."""
    assert reports[name]["problems"] == [], reports[name]["details"]


@pytest.mark.guarantee("KIT-1")
@pytest.mark.parametrize(("module", "part"), [each for each in SUITE if each[0] not in ELSEWHERE], ids=str)
def test_every_check_has_a_mutant(module: str, part: str) -> None:
    """A new check needs one, a check that is removed leaves one behind; and whoever has none has a reason."""
    found_by = {mutant.found_by for mutant in MUTANTS.values()}
    checks = {f"{part}.{check}" for check, _ in checks_of(suite_of(module))}
    without = {check for check in WITHOUT if check.startswith(f"{part}.")}
    assert {check for check in found_by if check.startswith(f"{part}.")} == checks - without
    assert without <= checks
    assert all(WITHOUT[check] for check in without)


@pytest.mark.guarantee("KIT-1")
@pytest.mark.slow
@pytest.mark.parametrize(("place_of", "outcome"), [("site-packages", "passed"), ("src", "failed")])
def test_a_plugin_outside_its_wheel_is_found(tmp_path: Path, place_of: str, outcome: str) -> None:
    """Under tox: the same plugin passes where an installer puts it, and fails in a working tree. No file of it says where it lies."""
    site = tmp_path / "site-packages"
    source = place(tmp_path)
    if place_of == site.name:
        source.rename(site)
    site.mkdir(exist_ok=True)
    (site / "jamcore").symlink_to(Path(str(jamcore.__file__)).parent)
    environment = {**os.environ, "PYTHONPATH": f"{site}:{tmp_path / place_of}", "TOX_ENV_NAME": "plugin-acme"}
    check = "tests/test_declarations.py::TestDistribution::test_both_come_from_their_wheels"
    argv = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", check]
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert f"1 {outcome}" in done.stdout


NAME, MUTANT = next(iter(MUTANTS.items()))
BASE = f"{GOOD}{MUTANT.base.name}"
OTHER = "ProviderTurns.test_another"


@pytest.mark.parametrize(
    ("report", "wrong"),
    [
        (Report(NAME, {MUTANT.found_by: "failed", OTHER: "passed"}), []),
        (Report(NAME, {MUTANT.found_by: "passed", OTHER: "passed"}), [f"{MUTANT.found_by} did not fail"]),
        (Report(NAME, {OTHER: "passed"}), [f"{MUTANT.found_by} did not fail"]),
        (Report(NAME, {MUTANT.found_by: "failed", OTHER: "failed"}), [f"{OTHER} failed too"]),
        (Report(NAME, {MUTANT.found_by: "failed"}, outside=("no import",)), ["outside any check: no import"]),
        (Report(BASE, {OTHER: "failed"}), [f"{OTHER} failed too", f"{MUTANT.found_by} did not pass"]),
        (Report(BASE, {MUTANT.found_by: "not claimed"}), [f"{MUTANT.found_by} did not pass"]),
    ],
)
def test_what_comes_of_a_run_is_judged(report: Report, wrong: list[str]) -> None:
    """A check that is gone, or passes, finds nothing; one more that fails says something else; one that was not asked is no proof."""
    found = [*problems(report)]
    assert [line for line in found if line in wrong] == wrong
    assert found == wrong or report.name == BASE  # other checks did not pass on that either


@pytest.mark.guarantee("KIT-1")
def test_a_mutant_that_fails_more_says_why() -> None:
    """Its name is its own, and all checks that it fails are the suite's."""
    assert len(MUTANTS) == sum(len(part.MUTANTS) for part in PARTS)
    checks = {f"{name}.{check}" for module, name in SUITE for check, _ in checks_of(suite_of(module))}
    for name, mutant in MUTANTS.items():
        assert bool(mutant.also) is bool(mutant.because), name
        assert mutant.expected <= checks, name


@pytest.mark.parametrize("name", MUTANTS)
def test_what_makes_a_mutant_is_in_the_good_plugin(name: str) -> None:
    """Each of its places exactly once; who changes the good plugin sees at once which mutants were made from what is gone."""
    mutant = MUTANTS[name]
    files_with(*mutant.base.edits, *mutant.edits)


@pytest.mark.parametrize(
    ("edit", "part"),
    [
        (Edit(AGENT, "no such place", ""), "0 times"),
        (Edit(AGENT, "self", "it"), "times"),
        (Edit("src/nowhere.py", "x", "y"), "no file"),
        (Edit(AGENT, "class Stopped(Exception):", "class Stopped(Exception)"), "agent.py"),
    ],
)
def test_a_change_that_fits_nowhere_is_refused(edit: Edit, part: str) -> None:
    """Or in more places than one, or that makes what is no Python: such a mutant would be the good plugin, or none at all."""
    with pytest.raises(MutationError, match=part):
        files_with(edit)


def test_lines_of_a_change_are_indented_as_its_first() -> None:
    """So that a change reads like the code that it stands in."""
    assert Edit(AGENT, "a()\nb()", "c()").apply("if x:\n    a()\n    b()\n") == "if x:\n    c()\n"
    assert Edit(AGENT, "a()", "a()\nb()").apply("if x:\n    a()\n") == "if x:\n    a()\n    b()\n"
