"""The pytest plugin: needs skip by name or fail where the real thing is required; proofs are counted honestly."""

from __future__ import annotations

import json

import pytest

from jamcore.testing import proof

pytest_plugins = "pytester"

CONFTEST = """
def pytest_jam_needs():
    return {"moon": lambda: "no moon here", "sun": lambda: None}
"""
NEEDY = """
import pytest

@pytest.mark.needs("sun", "moon")
@pytest.mark.guarantee("CAP-1")
def test_needs_the_moon(): raise AssertionError("must not run")

@pytest.mark.needs("sun")
@pytest.mark.guarantee("CAP-1", "CAP-2")
def test_needs_the_sun(): pass
"""

LIVE = """
distribution = "moon"
[[live]]
name = "moon"
test = "test_moon.py::test_a"
opt_in = "JAM_LIVE_MOON"
program = "a rocket"
account = "none"
proves = "that one can go there"
ran = "never"
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("JAM_REQUIRE_REAL", raising=False)
    monkeypatch.delenv("JAM_LIVE_PHYSICAL_HOST", raising=False)
    pytester.makeconftest(CONFTEST)
    return pytester


def test_a_missing_need_skips_by_name(project: pytest.Pytester) -> None:
    """The reason names the need and what was found."""
    project.makepyfile(NEEDY)
    result = project.runpytest_inprocess("-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*needs moon: no moon here*"])


def test_a_missing_need_fails_where_the_real_thing_is_required(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """With JAM_REQUIRE_REAL=1 nothing hides behind a skip."""
    monkeypatch.setenv("JAM_REQUIRE_REAL", "1")
    project.makepyfile(NEEDY)
    result = project.runpytest_inprocess()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*needs moon, which is required here: no moon here*"])


def test_an_unknown_need_fails(project: pytest.Pytester) -> None:
    """A misspelt need is an error and lists the known ones, instead of skipping for ever."""
    project.makepyfile("import pytest\n@pytest.mark.needs('mooon')\ndef test_a(): pass\n")
    result = project.runpytest_inprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*unknown need 'mooon'; known: bubblewrap, *git, moon, *root, sun*"])


@pytest.mark.parametrize(
    ("guarantee", "proven"),
    [("CAP-1", False), ("CAP-2", True)],
    ids=["one of its tests was skipped", "its only test passed"],
)
@pytest.mark.guarantee("LIVE-1")
def test_a_skipped_test_proves_nothing(project: pytest.Pytester, guarantee: str, proven: bool) -> None:
    """The table of proofs counts a guarantee only when every test that carries its id passed."""
    project.makepyfile(NEEDY)
    result = project.runpytest_inprocess("--guarantees-json", "proofs.json")
    table = json.loads((project.path / "proofs.json").read_text())
    assert table[guarantee]["passed"] is proven
    result.stdout.fnmatch_lines(["guarantees: 1 proven in this run; 1 skipped tests prove nothing"])


@pytest.mark.guarantee("ENG-5")
def test_what_is_not_claimed_leaves_no_hole_in_a_proof_and_is_none(project: pytest.Pytester) -> None:
    """Beside a test that passed it is listed by that name; alone it proves nothing."""
    project.makepyfile(
        """
        import pytest
        @pytest.mark.guarantee("CAP-1")
        def test_passes(): pass
        @pytest.mark.guarantee("CAP-1", "CAP-2")
        def test_not_asked(): pytest.skip("not claimed: it does not have the ability")
        """
    )
    project.runpytest_inprocess("--guarantees-json", "proofs.json")
    table = json.loads((project.path / "proofs.json").read_text())
    assert {name: entry["passed"] for name, entry in table.items()} == {"CAP-1": True, "CAP-2": False}
    assert set(table["CAP-1"]["tests"].values()) == {"passed", "not claimed"}


@pytest.mark.guarantee("LIVE-1")
def test_what_runs_side_by_side_proved_is_said_together(project: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    """A guarantee with tests in two runs is proven when those of both passed."""
    project.makepyfile(
        """
        import pytest
        @pytest.mark.guarantee("CAP-1", "CAP-2")
        def test_one(): pass
        @pytest.mark.guarantee("CAP-2", "CAP-3")
        def test_two(): raise AssertionError
        @pytest.mark.guarantee("CAP-1", "CAP-3")
        def test_three(): pytest.skip("no")
        @pytest.mark.guarantee("CAP-1", "CAP-4")
        def test_four(): pass
        """
    )
    for part in ("one", "two", "three", "four"):
        project.runpytest_inprocess("-k", part, "--guarantees-json", f"{part}.json")
    capsys.readouterr()
    assert proof.main(["one.json", "two.json", "four.json"]) == 0
    assert capsys.readouterr().out == "guarantees: 2 proven in all; 0 skipped tests prove nothing\n"
    assert proof.main(["one.json", "three.json", "four.json"]) == 0
    assert capsys.readouterr().out == "guarantees: 2 proven in all; 1 skipped tests prove nothing\n"


def test_a_failure_in_teardown_is_no_proof(project: pytest.Pytester) -> None:
    """A call that passed proves nothing when the test then leaves something behind."""
    project.makepyfile(
        """
        import pytest
        @pytest.fixture
        def leaky():
            yield
            raise RuntimeError
        @pytest.mark.guarantee("CAP-1")
        def test_a(leaky): pass
        """
    )
    project.runpytest_inprocess("--guarantees-json", "proofs.json")
    table = json.loads((project.path / "proofs.json").read_text())
    assert table == {"CAP-1": {"passed": False, "tests": {"test_a_failure_in_teardown_is_no_proof.py::test_a": "failed"}}}


@pytest.mark.parametrize("arguments", ["", "'cap 1'", "1", "'CAP-1', why='x'"])
def test_a_malformed_mark_ends_the_run(project: pytest.Pytester, arguments: str) -> None:
    """A mark that could never be matched with a guarantee is a usage error."""
    project.makepyfile(f"import pytest\n@pytest.mark.guarantee({arguments})\ndef test_a(): pass\n")
    assert project.runpytest_inprocess().ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize(
    ("switches", "outcome"),
    [
        ((), {"skipped": 1}),
        (("JAM_LIVE_PHYSICAL_HOST",), {"skipped": 1}),
        (("JAM_LIVE_MOON",), {"skipped": 1}),
        (("JAM_LIVE_PHYSICAL_HOST", "JAM_LIVE_MOON"), {"passed": 1}),
    ],
)
@pytest.mark.guarantee("LIVE-1")
def test_a_live_test_needs_both_switches(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, switches: tuple[str, ...], outcome: dict[str, int]
) -> None:
    """One switch for the machine and one for the test: neither alone runs it."""
    for name in switches:
        monkeypatch.setenv(name, "1")
    project.makepyfile(test_moon="import pytest\n@pytest.mark.live('JAM_LIVE_MOON')\ndef test_a(): pass\n")
    project.makefile(".toml", live=LIVE)
    result = project.runpytest_inprocess()
    result.assert_outcomes(**outcome)
    ran = outcome.get("passed", 0)
    result.stdout.fnmatch_lines([f"live tests: {ran} ran; {1 - ran} skipped, which prove nothing"])


@pytest.mark.guarantee("LIVE-1")
def test_a_run_against_a_stand_in_says_so(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """What passed there says nothing about a real account, and the run's last lines say that."""
    for name, value in (("JAM_LIVE_PHYSICAL_HOST", "1"), ("JAM_LIVE_MOON", "1"), ("JAM_LIVE_ENDPOINT", "http://127.0.0.1:9")):
        monkeypatch.setenv(name, value)
    project.makepyfile(test_moon="import pytest\n@pytest.mark.live('JAM_LIVE_MOON')\ndef test_a(): pass\n")
    project.makefile(".toml", live=LIVE)
    result = project.runpytest_inprocess()
    result.stdout.fnmatch_lines(["live tests: 1 ran against a stand-in at http://127.0.0.1:9, which proves nothing *; 0 skipped*"])


@pytest.mark.parametrize(
    ("mark", "entry", "said"),
    [
        ("live('JAM_LIVE_MOON')", "", "*a live test that no live.toml beside it or above names*"),
        ("live('JAM_LIVE_SUN')", "moon", "*its entry in live.toml says JAM_LIVE_MOON, its mark JAM_LIVE_SUN*"),
        ("live('JAM_LIVE_PHYSICAL_HOST')", "own", "*a live test needs a switch of its own*"),
        ("live", "moon", "*live takes the name of the test's own opt-in variable*"),
        ("live('JAM_LIVE_MOON')", "broken", "*live.toml: *"),
    ],
)
@pytest.mark.guarantee("LIVE-1")
def test_an_unregistered_live_test_fails_wherever_it_is_met(project: pytest.Pytester, mark: str, entry: str, said: str) -> None:
    """Without any switch, where a registered one is skipped: nobody can add one beside the list."""
    project.makepyfile(test_moon=f"import pytest\n@pytest.mark.{mark}\ndef test_a(): pass\n")
    lists = {"moon": LIVE, "own": LIVE.replace("JAM_LIVE_MOON", "JAM_LIVE_PHYSICAL_HOST"), "broken": "live = 1"}
    if entry:
        project.makefile(".toml", live=lists[entry])
    result = project.runpytest_inprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([said])
