"""Running the suite on plugins with replacements: one process has imported what all need, and forks for each plugin.

That is pytest's own import of the suite, with its asserts rewritten, so that a failure says what was found; the lives of
:mod:`jamcore.testing.crash` are forked from a process that imported without it.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

from jamcore.testing.check.report import Outcome, Recorder
from jamcore.testing.guards import descendants, kill
from jamcore.testing.mutants.mutation import Edit, place

LONGEST_S = 600.0
"""How long the suite may take on one plugin; then it counts as having found nothing."""
POLL_S = 0.05
QUIET = ("-p", "no:cacheprovider", "-q", "--tb=short")
_WARM = """\
import jamcore.api
from jamcore.testing.providers import fixtures, opening, standin
from jamcore.testing.providers.__main__ import PARTS, suite_of
from jamcore.testing.servers import chat, faults

def test() -> None:
    for module, _ in PARTS:
        suite_of(module)
"""


@dataclass(frozen=True, slots=True)
class Subject:
    """A plugin, and what it is asked.

    Attributes:
        name: What it is called.
        edits: How it differs from what ``jam plugin new`` makes.
        parts: Classes of the suite of which every check is asked; empty: all of all.
        checks: Checks that are asked besides, by class and name.
    """

    name: str
    edits: tuple[Edit, ...]
    parts: frozenset[str] = frozenset()
    checks: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Report:
    """What came of the suite on one plugin: the worst of each check's cases, by class and name.

    Attributes:
        name: The plugin's.
        checks: The outcomes of the checks that were asked.
        details: What was found by those that failed.
        outside: What went wrong where no check was.
        seconds: Of processor time, with all that was started.
    """

    name: str
    checks: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, str] = field(default_factory=dict)
    outside: tuple[str, ...] = ()
    seconds: float = 0.0

    def of(self, outcome: Outcome) -> frozenset[str]:
        """Return the checks with this outcome."""
        return frozenset(check for check, found in self.checks.items() if found == outcome)


def run(subjects: list[Subject], directory: Path, *, beside: int = 2) -> Iterator[Report]:
    """Run the suite on each plugin, some beside each other, and yield the reports as they come.

    Args:
        subjects: The plugins.
        directory: Where they are made.
        beside: How many at once.
    """
    warm(directory)
    waiting, running = [*subjects], dict[int, tuple[Subject, float]]()
    while waiting or running:
        while waiting and len(running) < beside:
            subject = waiting.pop(0)
            running[_fork(subject, directory / subject.name)] = (subject, time.monotonic())
        for pid, (subject, since) in [*running.items()]:
            if os.waitpid(pid, os.WNOHANG)[0]:
                del running[pid]
                yield _read(subject, directory / subject.name)
            elif time.monotonic() - since > LONGEST_S:
                kill(descendants(pid))
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_S)


def warm(directory: Path) -> None:
    """Import the suite as pytest does, once: it takes longer than most parts of it."""
    directory.mkdir(parents=True, exist_ok=True)
    module = directory / "test_warm.py"
    module.write_text(_WARM)
    with redirect_stdout(io.StringIO()) as said:
        status = pytest.main([*QUIET, "-c", os.devnull, f"--rootdir={directory}", str(module)])
    assert status == pytest.ExitCode.OK, said.getvalue()


class _Chosen(Recorder):
    """Asks what is to be asked, and keeps what came of it."""

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject.name)
        self.asked: dict[str, str] = {}
        self._subject = subject

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what is not asked of this plugin."""
        for item in items:
            check = check_of(item)
            if check is not None and self._is_asked(check):
                self.asked[item.nodeid] = check
        items[:] = [item for item in items if item.nodeid in self.asked]

    def _is_asked(self, check: str) -> bool:
        parts = self._subject.parts
        return not parts or check.partition(".")[0] in parts or check in self._subject.checks

    def report(self, seconds: float) -> Report:
        """Return what came of it. A check that one case failed has failed."""
        checks: dict[str, str] = dict.fromkeys(self.asked.values(), Outcome.NOT_CLAIMED.value)
        details = {}
        ranks = (Outcome.NOT_CLAIMED, Outcome.SKIPPED, Outcome.PASSED, Outcome.KNOWN, Outcome.FAILED)
        for nodeid, found in self.findings.items():
            check = self.asked[nodeid]
            checks[check] = max(checks[check], found.outcome.value, key=lambda outcome: ranks.index(Outcome(outcome)))
            if found.outcome is Outcome.FAILED:
                details[found.check] = found.detail
        return Report(self._subject.name, checks, details, tuple(self.outside), seconds)


def check_of(item: pytest.Item) -> str | None:
    """Return a test's name in the published suite: the class there, and the check."""
    from jamcore.testing.providers.__main__ import PARTS  # late: pytest has to be the first to import the suite

    published = {name for _, name in PARTS}
    suite = getattr(item, "cls", None)
    whose = next((base.__name__ for base in suite.__mro__ if base.__name__ in published), None) if suite else None
    return None if whose is None else f"{whose}.{getattr(item, 'originalname', item.name)}"


def _fork(subject: Subject, directory: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        _in_child(subject, directory)
        status = 0
    except BaseException:  # noqa: BLE001 - nothing may come back into the parent's code
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "log").write_text(traceback.format_exc())
    finally:
        os._exit(status)


def _in_child(subject: Subject, directory: Path) -> None:
    source = place(directory, *subject.edits)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(source), os.environ.get("PYTHONPATH"))))
    sys.path.insert(0, str(source))
    chosen = _Chosen(subject)
    with chdir(directory), (directory / "log").open("w") as log, redirect_stdout(log), redirect_stderr(log):
        # A place of its own: of those that it numbers itself, pytest removes the oldest, also when others run beside it.
        status = pytest.main([*QUIET, f"--rootdir={directory}", f"--basetemp={directory / 'tmp'}", "tests"], plugins=[chosen])
    if status not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
        chosen.outside.append(f"pytest ended with {status}: {(directory / 'log').read_text()[-4000:]}")
    spent = os.times()
    report = chosen.report(sum(spent[:4]))
    (directory / "report.json").write_text(json.dumps(asdict(report)))


def _read(subject: Subject, directory: Path) -> Report:
    try:
        found = json.loads((directory / "report.json").read_bytes())
    except OSError:
        log = directory / "log"
        said = log.read_text()[-4000:] if log.exists() else "it took too long"
        return Report(subject.name, outside=(said or "it ended without a report",))
    return Report(**{**found, "outside": tuple(found["outside"])})
