"""Which tests prove which guarantee, and whether they passed in this run.

A skipped test proves nothing (LIVE-1), and a guarantee is proven only when every test that carries its id passed. Runs of parts of the
tests, side by side, say it together::

    python -m jamcore.testing.proof FILE...    # what --guarantees-json of each wrote
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import pytest

Outcome = Literal["passed", "failed", "skipped", "not claimed"]
Table = dict[str, dict[str, Outcome]]
"""The outcome of every test by the guarantee that it carries."""

NOT_CLAIMED = "not claimed: "
"""How the reason of a skip begins when what is under test does not claim the rule. Other skips leave a hole in a proof; this one says
that there is nothing to prove (ENG-5)."""

LEFT_OUT = pytest.StashKey[dict[str, str]]()
"""What each provider of a run declares to be in no comparison of conversations, in words: it is printed at the end, since what a proof
of exactness is worth depends on it (CONT-1)."""

MARK = "guarantee"
LIVE = "live"
_ID = re.compile(r"[A-Z]+-[0-9]+\Z")


def guarantee_ids(item: pytest.Item) -> tuple[str, ...]:
    """Return the ids that a test carries, without repetition, in the order of its marks.

    Raises:
        pytest.UsageError: A mark without ids, or with something that is no id.
    """
    found: dict[str, None] = {}
    for mark in item.iter_markers(MARK):
        if not mark.args or mark.kwargs:
            message = f"{item.nodeid}: guarantee takes one or more ids"
            raise pytest.UsageError(message)
        for value in mark.args:
            if not isinstance(value, str) or not _ID.match(value):
                message = f"{item.nodeid}: {value!r} is no guarantee id"
                raise pytest.UsageError(message)
            found[value] = None
    return tuple(found)


class ProofLedger:
    """Collects the outcomes of one run. One object per run, owned by the pytest plugin."""

    def __init__(self) -> None:
        self._ids: dict[str, tuple[str, ...]] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._live: dict[str, Outcome] = {}

    def expect(self, items: Iterable[pytest.Item]) -> None:
        """Note every collected test that carries an id."""
        for item in items:
            if ids := guarantee_ids(item):
                self._ids[item.nodeid] = ids

    def record(self, report: pytest.TestReport) -> None:
        """Take one phase's report: a test passed if its call passed and neither set-up nor teardown failed."""
        if report.nodeid in self._ids:
            _enter(report, self._outcomes)
        if LIVE in report.keywords:
            _enter(report, self._live)

    def by_guarantee(self) -> Table:
        """Return ``{id: {test: outcome}}`` of the tests that ran, sorted."""
        table: Table = {}
        for nodeid, outcome in self._outcomes.items():
            for guarantee in self._ids[nodeid]:
                table.setdefault(guarantee, {})[nodeid] = outcome
        return {guarantee: dict(sorted(table[guarantee].items())) for guarantee in sorted(table)}

    def proven(self) -> tuple[str, ...]:
        """Return the ids of which every test that claims something passed in this run, and at least one did."""
        return proven(self.by_guarantee())

    def skipped(self) -> int:
        """Return how many tests with an id were skipped, and so prove nothing."""
        return sum(outcome == "skipped" for outcome in self._outcomes.values())

    def live(self) -> tuple[Outcome, ...]:
        """Return how each live test of this run ended, whether it carries an id or not."""
        return tuple(self._live.values())

    def write(self, path: Path) -> None:
        """Write the table as JSON: ``{id: {"passed": bool, "tests": {nodeid: outcome}}}``."""
        proven = set(self.proven())
        table = {g: {"passed": g in proven, "tests": tests} for g, tests in self.by_guarantee().items()}
        path.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")


def proven(table: Table) -> tuple[str, ...]:
    """Return the ids of which every test that claims something passed, and at least one did."""
    return tuple(g for g, tests in table.items() if set(tests.values()) - {"not claimed"} == {"passed"})


def merged(files: Iterable[Path]) -> Table:
    """Return what several runs wrote as one table."""
    table: Table = {}
    for file in files:
        for guarantee, entry in json.loads(file.read_bytes()).items():
            table.setdefault(guarantee, {}).update(entry["tests"])
    return table


def main(arguments: list[str]) -> int:
    """Say how many guarantees the named runs proved together."""
    table = merged(map(Path, arguments))
    skipped = {test for tests in table.values() for test, outcome in tests.items() if outcome == "skipped"}
    sys.stdout.write(f"guarantees: {len(proven(table))} proven in all; {len(skipped)} skipped tests prove nothing\n")
    return 0


def _enter(report: pytest.TestReport, outcomes: dict[str, Outcome]) -> None:
    if report.failed:
        outcomes[report.nodeid] = "failed"
    elif report.skipped:
        outcomes.setdefault(report.nodeid, "not claimed" if _is_not_claimed(report) else "skipped")
    elif report.when == "call":
        outcomes.setdefault(report.nodeid, "passed")


def _is_not_claimed(report: pytest.TestReport) -> bool:
    """Whether a skip says "not claimed"; pytest reports it as file, line and reason."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    return reason.removeprefix("Skipped: ").startswith(NOT_CLAIMED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
