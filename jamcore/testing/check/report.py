"""The report: what each check found, why it is there, and where it is explained."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from enum import StrEnum

import pytest

from jamcore.testing.check.asked import KINDS
from jamcore.testing.check.progress import Progress
from jamcore.testing.proof import NOT_CLAIMED

ENGINE_PAGE = "docs/engine-suite.md"
"""The page that explains the checks of engines."""
INSTALLED_ENGINE_PAGE = "docs/engine-authors.md#what-an-installed-engine-is-asked"
"""The place that explains what is asked without making a sandbox."""
STORE_SUITE = "jamcore.testing.store."
"""Where the checks of databases are; they have a page of their own."""
DETAIL_CHARACTERS = 2_000


class Outcome(StrEnum):
    """What became of a check."""

    PASSED = "passed"
    FAILED = "failed"
    KNOWN = "known failure"
    SKIPPED = "skipped"
    NOT_CLAIMED = "not claimed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check. ``rule`` and ``why`` are its own words; ``page`` is empty for a test of the author's own."""

    subject: str
    check: str
    outcome: Outcome
    rule: str
    why: str
    page: str
    detail: str = ""


@dataclass(eq=False)
class Recorder:
    """A plugin of pytest that keeps what each test found. Setup, call and teardown are one: the worst counts."""

    subject: str = ""
    progress: Progress | None = None
    findings: dict[str, Finding] = field(default_factory=dict)
    outside: list[str] = field(default_factory=list)
    """What went wrong where no check was: a module that cannot be imported."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep what came of one phase of a test."""
        report = yield
        if report.when == "call" or not report.passed:
            found, before = finding(item, report, self.subject), self.findings.get(item.nodeid)
            if before is None or found.outcome is Outcome.FAILED:
                self.findings[item.nodeid] = found
        if report.when == "teardown" and self.progress is not None:
            # Here nothing is captured: between the phases of a test the streams are what they were.
            kept = self.findings[item.nodeid]
            self.progress.finished(kept.outcome, f"{kept.subject}: {kept.check}")
        return report

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Learn how many checks there are."""
        if self.progress is not None:
            self.progress.total = len(session.items)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep what could not be collected."""
        if report.failed:
            self.outside.append(f"{report.nodeid}: {last_words(report.longreprtext)}")


def finding(item: pytest.Item, report: pytest.TestReport, subject: str) -> Finding:
    """Return what one report of pytest says of a check."""
    rule, why, page = explained(item)
    outcome, detail = _outcome(report)
    name = getattr(item, "originalname", None) or item.name
    case = item.name.removeprefix(name)
    words = name.removeprefix("test_").replace("_", " ")
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    whose = next((found for kind in KINDS if (found := getattr(parameters.get(kind), "name", ""))), subject)
    return Finding(whose, words + ("" if case == f"[{whose}]" else case), outcome, rule, why, page, detail)


def explained(item: pytest.Item) -> tuple[str, str, str]:
    """Return a test's rule, why it is there, and the page that explains it."""
    from jamcore.testing.engines.checks import check_of  # late: pytest has to be the first to import a suite
    from jamcore.testing.policies.__main__ import section_of
    from jamcore.testing.providers.__main__ import part_of

    test = getattr(item, "function", None)
    rule, _, why = (inspect.getdoc(test) or "").partition("\n\n")
    if test is not None and (known := check_of(test)) is not None:
        return known.rule, known.why, ENGINE_PAGE
    suite = getattr(item, "cls", None)
    page = None
    if test is not None and isinstance(suite, type) and is_published(test):
        page = part_of(suite) or section_of(suite) or _of_store(suite, test)
    if page is None and is_published(test):
        page = INSTALLED_ENGINE_PAGE
    return " ".join(rule.split()), " ".join(why.split()), page or ""


def _of_store(suite: type, test: Callable[..., object]) -> str | None:
    if not test.__module__.startswith(STORE_SUITE):
        return None
    from jamcore.testing.store.__main__ import place_of  # late: it loads what a database needs

    return place_of(suite, test.__name__)


def is_published(test: object) -> bool:
    """Whether a test is one of a published suite's, not one of the author's own beside them."""
    return str(getattr(test, "__module__", "")).startswith("jamcore.testing.")


def _outcome(report: pytest.TestReport) -> tuple[Outcome, str]:
    if report.skipped:
        if hasattr(report, "wasxfail"):
            return Outcome.KNOWN, str(report.wasxfail)
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        reason = reason.removeprefix("Skipped: ")
        return (
            (Outcome.NOT_CLAIMED, reason.removeprefix(NOT_CLAIMED)) if reason.startswith(NOT_CLAIMED) else (Outcome.SKIPPED, reason)
        )
    return (Outcome.PASSED, "") if report.passed else (Outcome.FAILED, last_words(report.longreprtext))


def last_words(text: str) -> str:
    """Return the error of a traceback without the way to it, bounded."""
    lines = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    return "\n".join(lines or text.splitlines()[-5:])[:DETAIL_CHARACTERS]


def as_document(findings: Iterable[Finding], outside: Iterable[str]) -> dict[str, object]:
    """Return the report as JSON has it."""
    kept = list(findings)
    counts = Counter(each.outcome for each in kept)
    return {
        "ok": not counts[Outcome.FAILED] and not list(outside),
        "counts": {outcome.value: counts[outcome] for outcome in Outcome},
        "outside": list(outside),
        "checks": [asdict(each) for each in kept],
    }


def as_text(findings: Iterable[Finding], outside: Iterable[str]) -> Iterator[str]:
    """Yield the report's lines: the checks by plugin, what was not asked with the reason, and last what failed, with what to know."""
    kept = list(findings)
    for subject in dict.fromkeys(each.subject for each in kept):
        yield subject
        for each in kept:
            if each.subject == subject:
                reason = "" if each.outcome in {Outcome.PASSED, Outcome.FAILED} else f": {each.detail}"
                yield f"  {each.outcome:<13} {each.check}{reason}"
        yield ""
    for each in kept:
        if each.outcome is Outcome.FAILED:
            yield f"{each.subject}: {each.check}"
            yield from (f"  {label:<7}{line}" for label, line in _told(each))
            yield ""
    yield from (f"outside any check: {line}" for line in outside)
    counts = Counter(each.outcome for each in kept)
    yield ", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome if counts[outcome]) or "nothing was checked"


def _told(each: Finding) -> Iterator[tuple[str, str]]:
    yield "found:", each.detail.replace("\n", "\n         ")
    yield from ((label, text) for label, text in (("rule:", each.rule), ("why:", each.why), ("page:", each.page)) if text)
