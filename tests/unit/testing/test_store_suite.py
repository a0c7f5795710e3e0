"""The store suite: it covers what the domain and the schema have, and each check says what it is for."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import jamcore.domain
from jamcore.domain.operations import OPERATION
from jamcore.domain.transitions import TransitionTable
from jamcore.testing.providers.__main__ import checks_of
from jamcore.testing.store import StoreSuite
from jamcore.testing.store.__main__ import PAGE, PARTS, render
from jamcore.testing.store.base import StoreTests
from jamcore.testing.store.machines import MACHINES

ROOT = Path(__file__).parents[3]
MODULE = '''
import shutil
import pytest
from jamcore.testing.store import Feature, StoreSuite


class TestStore(StoreSuite):
    without = {Feature.SEVERAL_PROCESSES: "its file is locked by whoever opens it first"}
    known_failures = {"test_case_counts": "it is to be mended"}

    @pytest.fixture
    def empty_url(self, tmp_path):
        return f"sqlite:///{tmp_path}/jam.db"

    @pytest.fixture
    def clock(self, request):
        if request.node.name == "test_instants":
            raise RuntimeError("no clock")
        return request.getfixturevalue("hand_clock")


@pytest.fixture
def hand_clock():
    from jamcore.testing.store.records import HandClock
    return HandClock()


@pytest.fixture
def anyio_backend():
    return "asyncio"


def test_of_its_author():
    """A rule of theirs."""
'''
GUIDE = "docs/store-authors.md"
MY_DATABASE = """
import tempfile
from contextlib import contextmanager


@contextmanager
def my_database():
    with tempfile.TemporaryDirectory() as directory:
        yield f"sqlite:///{directory}/jam.db"
"""
CHOSEN = "own or instants or case_counts or in_another_process or of_its_author"


def test_every_machine_of_the_domain_is_tried() -> None:
    """A new transition table has to be put through the store before it counts; operations have tests of their own."""
    modules = [importlib.import_module(f"jamcore.domain.{found.name}") for found in pkgutil.iter_modules(jamcore.domain.__path__)]
    tables = {id(value): value for module in modules for value in vars(module).values() if isinstance(value, TransitionTable)}
    tried = {id(machine.rules) for machine in MACHINES} | {id(OPERATION)}
    assert {id(machine.rules) for machine in MACHINES} <= set(tables)
    assert [table.machine for identity, table in tables.items() if identity not in tried] == []


def test_every_machine_is_tried_in_all_its_states() -> None:
    """The states are those of the rules."""
    for machine in MACHINES:
        assert {state for edge in machine.rules.edges() for state in edge} <= set(machine.states)


@pytest.mark.guarantee("KIT-1")
def test_the_page_is_up_to_date() -> None:
    """docs/store-suite.md is what the suite says; `make guarantees` makes it anew."""
    assert (ROOT / PAGE).read_text(encoding="utf-8") == render()


@pytest.mark.guarantee("KIT-1")
@pytest.mark.parametrize("part", PARTS, ids=lambda part: str(part.__name__))
def test_every_check_says_its_rule_and_why(part: type) -> None:
    """So that a failure can be understood from the report alone."""
    checks = checks_of(part)
    assert checks
    assert [name for name, check in checks if len((inspect.getdoc(check) or "").split("\n\n")) < 2] == []


@pytest.mark.guarantee("KIT-1")
def test_every_part_is_in_the_suite_and_no_check_is_hidden_by_another() -> None:
    """A part that the suite lacks is run by nobody, and two checks of one name are one."""
    places = [path.stem for path in (ROOT / "jamcore/testing/store").glob("[!_]*.py")]
    modules = [importlib.import_module(f"jamcore.testing.store.{place}") for place in places]
    classes = {
        each for module in modules for each in vars(module).values() if inspect.isclass(each) and issubclass(each, StoreTests)
    }
    assert classes - {StoreTests, StoreSuite} == set(PARTS)
    names = [name for part in PARTS for name, _ in checks_of(part)]
    assert sorted(names) == sorted(set(names)) == sorted(name for name, _ in checks_of(StoreSuite))


@pytest.mark.guarantee("KIT-1")
def test_one_report_says_what_failed_and_what_was_not_asked(tmp_path: Path) -> None:
    """`jam plugin check` of a directory whose tests subclass the suite: the rule, why it is there and the page, as of a plugin's."""
    status, found = _check(tmp_path, MODULE, f"-k '{CHOSEN}'")
    assert status == 1
    failed = found.pop("instants")
    assert (failed["outcome"], failed["page"]) == ("failed", f"{PAGE}#content")
    assert (failed["rule"].startswith("To the microsecond"), bool(failed["why"])) == (True, True)
    assert "no clock" in failed["detail"]
    assert found["case counts"]["outcome"] == "failed", "a known failure that does not fail has to be noticed"
    skipped = found["a former life in another process ends with the next one"]
    assert skipped["outcome"] == "not claimed"
    assert skipped["detail"].endswith("in several processes at once: its file is locked by whoever opens it first")
    assert found["of its author"]["page"] == ""
    assert found["two daemons with one database keep to their own"]["outcome"] == "passed"
    assert f"## {failed['page'].partition('#')[2]}\n" in (ROOT / PAGE).read_text(encoding="utf-8")


@pytest.mark.guarantee("KIT-1")
def test_what_the_guide_says_to_write_is_enough(tmp_path: Path) -> None:
    """Its module, with a database behind it, is a report of the suite."""
    [module] = re.findall(r"```python\n(.*?)```", (ROOT / GUIDE).read_text(encoding="utf-8"), re.DOTALL)
    status, found = _check(tmp_path, module + MY_DATABASE, "-k 'case_counts or truth_values or in_another_process'")
    assert status == 0
    assert {name: each["outcome"] for name, each in found.items()} == {
        "case counts": "passed",
        "truth values": "passed",
        "a former life in another process ends with the next one": "not claimed",
    }


def _check(directory: Path, module: str, options: str) -> tuple[int, dict[str, dict[str, str]]]:
    """Run `jam plugin check` on a directory whose tests are this module; return its status, and each check as the report has it."""
    (directory / "tests").mkdir()
    (directory / "tests/test_store.py").write_text(module)
    (directory / "pytest.ini").write_text(f"[pytest]\naddopts = {options}\n")
    argv = [sys.executable, "-m", "jamcore.testing.check", "--json", f"{directory}/"]
    done = subprocess.run(argv, capture_output=True, timeout=100, check=False)
    return done.returncode, {each["check"]: each for each in json.loads(done.stdout)["checks"]}
