"""``python -m jamcore.testing.mutants [NAME...]``: runs the provider suite on mutants, and on the good plugins that they were made from."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from jamcore.testing.check.report import Outcome
from jamcore.testing.mutants.mutation import Base, Mutant
from jamcore.testing.mutants.running import Report, Subject, run
from jamcore.testing.mutants.table import BASES, MUTANTS, parts_of, parts_on

GOOD = "good-"
"""How the name of a good plugin begins among the subjects."""


def subject_of(one: Mutant | Base, *, whole: bool) -> Subject:
    """Return what is run: on a mutant the part of the suite that finds it, on a good plugin the parts that find its mutants, or all."""
    if isinstance(one, Base):
        return Subject(f"{GOOD}{one.name}", one.edits, frozenset() if whole else parts_on(one))
    edits = (*one.base.edits, *one.edits)
    return Subject(one.name, edits) if whole else Subject(one.name, edits, parts_of(one), frozenset(one.also))


def problems(report: Report) -> Iterator[str]:
    """Yield what is wrong with what came of a run: a mutant that fails other checks than its own, a good plugin that fails one."""
    expected = frozenset[str]() if report.name.startswith(GOOD) else MUTANTS[report.name].expected
    failed = report.of(Outcome.FAILED)
    yield from (f"{check} did not fail" for check in sorted(expected - failed))
    yield from (f"{check} failed too" for check in sorted(failed - expected))
    yield from (f"outside any check: {line}" for line in report.outside)
    if report.name.startswith(GOOD):
        base = report.name.removeprefix(GOOD)
        finding = {mutant.found_by for mutant in MUTANTS.values() if mutant.base.name == base}
        yield from (f"{check} did not pass" for check in sorted(finding - report.of(Outcome.PASSED)))


def main(arguments: list[str] | None = None) -> int:
    """Run them, and say what is wrong; return 1 if anything is."""
    parser = argparse.ArgumentParser(
        prog="python -m jamcore.testing.mutants", description="Runs the provider suite on bad plugins."
    )
    parser.add_argument("name", nargs="*", help=f"a mutant, or {GOOD}BASE; default: all")
    parser.add_argument("--whole", action="store_true", help="the whole suite on each, not only the part that finds it")
    parser.add_argument("--beside", type=int, default=2, metavar="N", help="how many at once")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the plugins and their logs here")
    parser.add_argument("--json", action="store_true", help="print each report as one line of JSON")
    chosen = parser.parse_args(arguments)
    every = {f"{GOOD}{name}": base for name, base in BASES.items()} | dict(MUTANTS)
    if unknown := set(chosen.name) - set(every):
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}")
    subjects = [subject_of(every[name], whole=chosen.whole) for name in chosen.name or every]
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        for report in run(subjects, (chosen.keep or Path(scratch)).absolute(), beside=chosen.beside):
            found = [*problems(report)]
            wrong += bool(found)
            lines = [json.dumps({**asdict(report), "problems": found})] if chosen.json else [*_told(report, found)]
            print(*lines, sep="\n", flush=True)
    return 1 if wrong else 0


def _told(report: Report, found: list[str]) -> Iterator[str]:
    counts = ", ".join(f"{len(report.of(outcome))} {outcome}" for outcome in Outcome if report.of(outcome))
    yield f"{'WRONG' if found else 'right'}  {report.name}: {counts or 'nothing'}; {report.seconds:.1f} s"
    yield from (f"       {line}" for line in found)
    if found:
        yield from (f"       {check}: {detail}" for check, detail in report.details.items())


if __name__ == "__main__":
    sys.exit(main())
