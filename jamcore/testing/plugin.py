"""Jam's pytest plugin, for the core, for plugins and for anybody's own: marks, needs, proofs and leak guards.

Installed with jamcore (entry point ``pytest11``). It changes nothing for tests that use none of its marks and fixtures.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from jamcore.testing.crash import Lives
from jamcore.testing.guard_fixtures import leak_guard, no_leaks
from jamcore.testing.live import ENDPOINT, LIST, SWITCH, BadListError, registered
from jamcore.testing.needs import Needs, Probe, real_required
from jamcore.testing.proof import LEFT_OUT, ProofLedger

_MARKERS = (
    "guarantee(id, ...): this test proves these lines of docs/guarantees.md",
    "needs(name, ...): skipped by name where the machine lacks it; fails instead when JAM_REQUIRE_REAL=1",
    f"live(opt_in): needs the physical host; runs only with {SWITCH}=1 and the variable `opt_in`=1, and stands in a {LIST}",
    "slow: takes more than a few seconds",
    "unprivileged: is also run as an ordinary user (make test-unprivileged)",
    "crash: kills processes of its own on purpose",
)

_NEEDS = pytest.StashKey[Needs]()
_LEDGER = pytest.StashKey[ProofLedger]()


class JamHooks:
    """The hooks that this plugin adds to pytest."""

    @staticmethod
    def pytest_jam_needs() -> dict[str, Probe]:  # type: ignore[empty-body]
        """Contribute needs: a name and what finds out whether it is met. Called once, when the first test with a need is met."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the hooks that conftests may implement."""
    pluginmanager.add_hookspecs(JamHooks)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--guarantees-json``."""
    group = parser.getgroup("jam")
    group.addoption(
        "--guarantees-json", metavar="FILE", type=Path, help="write which guarantees this run proved, and by which tests"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks and start an empty ledger."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    config.stash[_LEDGER] = ProofLedger()
    config.stash[LEFT_OUT] = {}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Note which tests carry a guarantee; a malformed mark ends the run."""
    config.stash[_LEDGER].expect(items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip or fail a test whose needs are not met, before any of its fixtures is made."""
    _require_live_switches(item)
    for mark in item.iter_markers("needs"):
        for name in mark.args:
            _require(item, str(name))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Enter each report into the ledger of its run."""
    report = yield
    item.config.stash[_LEDGER].record(report)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the table of proofs where it was asked for."""
    if path := session.config.getoption("guarantees_json"):
        session.config.stash[_LEDGER].write(path)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what no conversation was compared for, which live tests ran (LIVE-1), how many guarantees were proven, and what was skipped."""
    for name, left_out in sorted(config.stash[LEFT_OUT].items()):
        terminalreporter.write_line(f"{name}: compared word by word but for {left_out}")
    ledger = config.stash[_LEDGER]
    if live := ledger.live():
        ran = sum(outcome != "skipped" for outcome in live)
        against = (
            f" against a stand-in at {origin}, which proves nothing of a real account"
            if (origin := os.environ.get(ENDPOINT))
            else ""
        )
        terminalreporter.write_line(
            f"live tests: {ran} ran{against if ran else ''}; {len(live) - ran} skipped, which prove nothing"
        )
    if ledger.by_guarantee():
        count, skipped = len(ledger.proven()), ledger.skipped()
        terminalreporter.write_line(f"guarantees: {count} proven in this run; {skipped} skipped tests prove nothing")


@pytest.fixture(scope="session")
def lives() -> Lives:
    """Return what begins processes that have Jam imported already: for kills, and for daemons that a test starts again and again."""
    return Lives()


def _require(item: pytest.Item, name: str) -> None:
    stash = item.config.stash
    if _NEEDS not in stash:
        contributed: list[dict[str, Probe]] = item.config.hook.pytest_jam_needs()
        stash[_NEEDS] = Needs({key: probe for part in contributed for key, probe in part.items()})
    try:
        reason = stash[_NEEDS].missing(name)
    except LookupError as error:
        pytest.fail(str(error), pytrace=False)
    if reason is None:
        return
    # A test that is also run as an ordinary user cannot have root there; the run as root is the one that must not skip it.
    given_up = name == "root" and item.get_closest_marker("unprivileged") is not None
    if real_required() and not given_up:
        pytest.fail(f"needs {name}, which is required here: {reason}", pytrace=False)
    pytest.skip(f"needs {name}: {reason}")


def _require_live_switches(item: pytest.Item) -> None:
    """A live test is registered and needs both switches (LIVE-1); it never fails for their absence, whatever else is required."""
    for mark in item.iter_markers("live"):
        if len(mark.args) != 1:
            pytest.fail("live takes the name of the test's own opt-in variable", pytrace=False)
        _require_registered(item, str(mark.args[0]))
        absent = [name for name in (SWITCH, str(mark.args[0])) if os.environ.get(name) != "1"]
        if absent:
            pytest.skip(f"live: set {' and '.join(f'{name}=1' for name in absent)}")


def _require_registered(item: pytest.Item, opt_in: str) -> None:
    try:
        entry = registered(item.path, item.nodeid, item.config.rootpath)
    except BadListError as error:
        pytest.fail(str(error), pytrace=False)
    if entry is None:
        pytest.fail(f"a live test that no {LIST} beside it or above names: add it there", pytrace=False)
    if entry.opt_in != opt_in:
        pytest.fail(f"its entry in {LIST} says {entry.opt_in}, its mark {opt_in}", pytrace=False)
    if opt_in == SWITCH:
        pytest.fail(f"a live test needs a switch of its own beside {SWITCH}", pytrace=False)


__all__ = ["JamHooks", "leak_guard", "lives", "no_leaks"]
