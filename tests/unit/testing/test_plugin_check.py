"""``jam plugin check``: every promise has a plugin that breaks exactly it, and the report says what an author has to know."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from jamcore.engines.registry import GROUP
from jamcore.plugins.manager import PROVIDERS
from jamcore.testing.check import suite
from jamcore.testing.wheels import build_wheel, install_wheels

BREAKERS = Path(__file__).with_name("promise_breakers.py")
CORE = "jamcore>=0.1,<1"
BREAKS: Mapping[str, str | None] = MappingProxyType(
    {
        "healthy": None,
        "unloadable": "it would be loaded",
        "curious": "its decisions touch nothing",
        "leaking": "no secret is in its plan",
        "overwriting": "what is prepared overwrites no conversation",
        "boundless": "a shared host fills up once",
        "careless": "readiness is about the key alone",
        "elsewhere": "the credential is for the endpoint that it has",
        "silent": "it says what it asks its endpoint",
        "guessing": "no version resumes by guess",
        "greedy": "no login is in what is captured",
        "destructive": "a restore deletes nothing that it restored",
        "forgetful": "the files of one conversation are captured",
    }
)
"""Which promise each plugin breaks."""
ENGINES: Mapping[str, str | None] = MappingProxyType(
    {
        "engine": None,
        "unclassed": "it would be loaded",
        "boasting": "it has the methods of its abilities",
        "speechless": "its probe is an answer",
    }
)
"""Which promise each engine breaks."""
BY_METADATA = MappingProxyType(
    {
        "boundless-needs": ("jamcore", "its distribution says which core it needs"),
        "too-new": ("jamcore>=99,<100", "it fits this core"),
    }
)
"""Which promise a distribution breaks by what it requires."""
BY_NO_PLUGIN = frozenset({"it uses nothing that will go", "a cell that it does not have is refused"})
"""No hook is deprecated yet, so nobody can use one; and the core itself refuses cells."""

Report = Mapping[str, Any]
Checked = Mapping[str, Mapping[str, str]]


def check(site: Path, *words: str) -> tuple[int, Report, str]:
    """Run the command beside what is installed in a directory; return its status, its report, and what it said."""
    argv = [sys.executable, "-P", "-m", "jamcore.testing.check", "--json", *words]
    done = subprocess.run(argv, capture_output=True, env={**os.environ, "PYTHONPATH": str(site)}, timeout=100, check=False)
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr.decode()


def failed(report: Report) -> dict[str, list[str]]:
    """Return the checks that failed, by plugin."""
    found: dict[str, list[str]] = {each["subject"]: [] for each in report["checks"]}
    for each in report["checks"]:
        if each["outcome"] == "failed":
            found[each["subject"]].append(each["check"])
    return found


def checks_of(tests: type) -> set[str]:
    """Return the checks of a suite as the report names them."""
    return {name.removeprefix("test_").replace("_", " ") for name in dir(tests) if name.startswith("test_")}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which the distributions are installed."""
    directory = tmp_path_factory.mktemp("site")
    entries = {
        group: {name: f"promise_breakers:{name.title()}" for name in names}
        for group, names in ((PROVIDERS, BREAKS), (GROUP, ENGINES))
    }
    modules = {"promise_breakers": BREAKERS.read_text()}
    wheels = [build_wheel(directory, "jam-breakers", "1.0", modules=modules, entries=entries, requires=(CORE,))]
    for name, (needs, _) in BY_METADATA.items():
        module = name.replace("-", "_")
        text = f"from promise_breakers import Healthy\n\n\nclass It(Healthy):\n    name = {module!r}\n"
        entry = {PROVIDERS: {module: f"{module}:It"}}
        wheels.append(build_wheel(directory, name, "1.0", modules={module: text}, entries=entry, requires=(needs,)))
    install_wheels(directory / "site", *wheels)
    return directory / "site"


@pytest.fixture(scope="module")
def report(site: Path) -> tuple[int, Report]:
    """What is found in the distribution of those that break promises."""
    status, found, said = check(site, "jam-breakers")
    assert found, said
    return status, found


@pytest.mark.guarantee("KIT-1", "CAP-6")
def test_each_plugin_fails_exactly_the_promise_that_it_breaks(report: tuple[int, Report]) -> None:
    """And the one that breaks none fails nothing; a check that fails for another reason proves nothing about its rule."""
    status, found = report
    assert status == 1
    assert failed(found) == {name: [broken] if broken else [] for name, broken in {**BREAKS, **ENGINES}.items()}


@pytest.mark.guarantee("KIT-1")
@pytest.mark.parametrize("name", BY_METADATA)
def test_what_a_distribution_requires_is_a_promise(site: Path, name: str) -> None:
    """It is checked by its metadata, and nothing else is wrong with the plugin."""
    status, found, _ = check(site, name)
    assert (status, failed(found)) == (1, {name.replace("-", "_"): [BY_METADATA[name][1]]})


@pytest.mark.guarantee("KIT-1")
def test_each_check_is_told_of_as_it_finishes(site: Path) -> None:
    """On standard error, so that the report stays what it is; a real program's suite runs for many minutes."""
    _, found, said = check(site, "too-new")
    checks, lines = found["checks"], said.splitlines()
    assert [line.partition(" ")[0] for line in lines] == [f"[{number}/{len(checks)}]" for number in range(1, len(checks) + 1)]
    told = [" ".join(line.split("] ")[1].split()) for line in lines]
    assert told == [f"{each['outcome']} {each['subject']}: {each['check']}" for each in checks]


@pytest.mark.guarantee("KIT-1")
def test_every_promise_is_broken_by_somebody() -> None:
    """A new check needs a plugin here that fails it."""
    broken = {each for each in BREAKS.values() if each} | {each for _, each in BY_METADATA.values()}
    assert checks_of(suite.TestPromises) == broken | BY_NO_PLUGIN
    assert checks_of(suite.TestEngines) == {each for each in ENGINES.values() if each}


@pytest.mark.guarantee("KIT-1")
def test_the_report_says_the_rule_why_it_is_there_and_where_it_is_explained(report: tuple[int, Report]) -> None:
    """Of each check, so that a failure can be understood without Jam's source; and what was not asked, with the reason."""
    for each in report[1]["checks"]:
        assert each["rule"], each["check"]
        assert each["why"], each["check"]
        page = "docs/engine-authors.md#" if each["subject"] in ENGINES else "docs/provider-suite.md#"
        assert each["page"].startswith(page), each
        assert bool(each["detail"]) is (each["outcome"] != "passed"), each
    [curious] = [each for each in report[1]["checks"] if (each["subject"], each["outcome"]) == ("curious", "failed")]
    assert "IT_HOME" in curious["detail"]
    assert not report[1]["ok"]


@pytest.mark.parametrize(
    ("words", "part"),
    [(("no-such",), "no provider's or engine's"), (("./nowhere",), "no tests")],
)
def test_what_is_not_there_is_refused(tmp_path: Path, words: Sequence[str], part: str) -> None:
    """By code, and with status 3 as everywhere."""
    status, found, _ = check(tmp_path, *words)
    assert status == 3
    assert found["error"]["code"] == "input.invalid"
    assert part in found["error"]["context"]["problem"]


@pytest.mark.guarantee("KIT-1", "CAP-6")
def test_every_plugin_that_is_installed_here_keeps_its_promises(tmp_path: Path) -> None:
    """Those of this workspace, by the same checks that are put to everybody's; without a name all are checked."""
    status, found, said = check(tmp_path)
    if status == 3:
        pytest.skip("no plugin but the core's own is installed")
    assert failed(found) == {each["subject"]: [] for each in found["checks"]}
    assert (status, found["ok"]) == (0, True), said
