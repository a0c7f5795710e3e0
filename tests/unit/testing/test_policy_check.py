"""Each promise of policies and of families has one that breaks exactly it (KIT-1)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from jamcore.plugins.families import FAMILIES
from jamcore.plugins.manager import POLICIES
from jamcore.testing.check import suite
from jamcore.testing.wheels import build_wheel, install_wheels

pytestmark = [pytest.mark.guarantee("KIT-1"), pytest.mark.timeout(400)]

HERE = Path(__file__).parent
MODULES = ("promise_breakers", "policy_breakers")
BROKEN: Mapping[str, str | None] = MappingProxyType(
    {
        "keeper": None,
        "answering": "it would be loaded",
        "idle": "it wraps something",
        "watching": "its decisions touch nothing",
        "moody": "its decisions touch nothing",
        "doubting": "it asks the provider once and answers",
        "mute": "it asks the provider once and answers",
        "swallowing": "it lets errors through",
        "hiding": "it lets errors through",
        "trespassing": "what it makes is valid",
        "repeating": "what it makes is valid",
        "widening": "it never widens",
        "forgiving": "it never widens",
        "writable": "it never widens",
        "replacing": "it never widens",
        "inviting": "it never widens",
        "trusting": "it never widens",
        "pretending": "what it mounts read only cannot be written",
    }
)
"""Which promise each policy breaks."""
FAMILY: Mapping[str, str | None] = MappingProxyType(
    {
        "family": None,
        "renamed": "it is called as it is installed",
        "helpless": "its least table makes a provider",
        "lenient": "a table that is none is refused with its key",
        "blunt": "a table that is none is refused with its key",
        "fickle": "the same table makes the same provider",
        "nosy": "making touches nothing",
        "careless": None,
    }
)
"""Which promise each family breaks."""
MADE = MappingProxyType(
    {"careless_least": ["a shared host fills up once"], "fickle_least": ["its decisions touch nothing"]},
)
"""Which promise of providers is broken by what a family makes: one of its own, or the one that a fickle family breaks by it."""
BY_METADATA = MappingProxyType(
    {
        "unbounded": ("jamcore", "its distribution says which core it needs"),
        "too_new": ("jamcore>=99,<100", "it fits this core"),
    }
)
"""Which promise a distribution breaks by what it requires."""
BY_NO_PLUGIN = frozenset({"it uses nothing that will go"})
"""No hook is deprecated yet, so nobody can use one."""

Report = Mapping[str, Any]


def check(site: Path, *words: str) -> Report:
    """Run the command beside what is installed in a directory and return its report."""
    argv = [sys.executable, "-P", "-m", "jamcore.testing.check", "--json", *words]
    done = subprocess.run(argv, capture_output=True, env={**os.environ, "PYTHONPATH": str(site)}, timeout=300, check=False)
    assert done.returncode in {0, 1}, done.stderr.decode()
    report: Report = json.loads(done.stdout)
    return report


def failed(report: Report) -> dict[str, list[str]]:
    """Return the checks that failed, by plugin."""
    found: dict[str, list[str]] = {each["subject"]: [] for each in report["checks"]}
    for each in report["checks"]:
        if each["outcome"] == "failed":
            found[each["subject"]].append(each["check"])
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which the distributions are installed."""
    made = tmp_path_factory.mktemp("site")
    modules = {name: (HERE / f"{name}.py").read_text() for name in MODULES}
    entries = {
        group: {name: f"policy_breakers:{name.title()}" for name in names}
        for group, names in ((POLICIES, BROKEN), (FAMILIES, FAMILY))
    }
    wheels = [build_wheel(made, "jam-policies", "1.0", modules=modules, entries=entries, requires=("jamcore>=0.1,<1",))]
    for name, (needs, _) in BY_METADATA.items():
        of_both = {POLICIES: {f"{name}_policy": "policy_breakers:Keeper"}, FAMILIES: {"family": "policy_breakers:Family"}}
        wheels.append(build_wheel(made, f"jam-{name}", "1.0", modules={}, entries=of_both, requires=(needs,)))
    install_wheels(made / "site", *wheels)
    return made / "site"


@pytest.fixture(scope="module")
def report(site: Path) -> Report:
    """What is found in the distribution of those that break promises."""
    return check(site, "jam-policies")


@pytest.mark.slow
def test_each_breaks_exactly_one_promise(report: Report) -> None:
    """And the two that break none fail nothing; what a family makes is asked as every provider is."""
    made: Mapping[str, list[str]] = {f"{name}_least": [] for name in FAMILY if name != "helpless"}
    own = {name: [broken] if broken else [] for name, broken in {**BROKEN, **FAMILY}.items()}
    assert failed(report) == {**own, **made, **MADE}


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_METADATA)
def test_what_a_distribution_requires_is_a_promise(site: Path, name: str) -> None:
    """Of a policy's and of a family's; what the family makes says it too, as it comes from there."""
    found, broken = failed(check(site, f"jam-{name}")), BY_METADATA[name][1]
    assert found[f"{name}_policy"] == found["family"] == [broken]


def test_every_promise_is_broken_by_somebody() -> None:
    """A new check needs a policy or a family here that fails it."""
    by_metadata = {each for _, each in BY_METADATA.values()}
    for tests, table in ((suite.TestPolicies, BROKEN), (suite.TestFamilies, FAMILY)):
        checks = {name.removeprefix("test_").replace("_", " ") for name in dir(tests) if name.startswith("test_")}
        assert checks - BY_NO_PLUGIN == {each for each in table.values() if each} | by_metadata


@pytest.mark.slow
def test_the_report_says_the_rule_why_it_is_there_and_where_it_is_explained(report: Report) -> None:
    """Of each check, so that a failure can be understood without Jam's source."""
    for each in report["checks"]:
        assert each["rule"], each["check"]
        assert each["why"], each["check"]
        page = "provider-suite.md" if each["subject"].endswith("_least") else "policy-suite.md"
        assert each["page"].startswith(f"docs/{page}#"), each
