"""``python -m jamcore.testing.store.bad [NAME…]``: puts the store suite to bad stores on SQLite, and says what it finds."""

from __future__ import annotations

import argparse
import json
import sys

from jamcore.testing.store.bad import FAULTS
from jamcore.testing.store.bad.running import DRAWN, run


def main(arguments: list[str] | None = None) -> int:
    """Run them, and say what is wrong; return 1 if anything is."""
    parser = argparse.ArgumentParser(prog="python -m jamcore.testing.store.bad", description="Put the store suite to bad stores.")
    parser.add_argument("name", nargs="*", help="a fault, in quotes; all by default")
    parser.add_argument("--whole", action="store_true", help=f"the whole suite, and not the check that finds it and {DRAWN} others")
    parser.add_argument("--json", action="store_true", help="print each report as one line of JSON")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.name) - set(FAULTS):
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    reports = run((FAULTS[name] for name in chosen.name or FAULTS), whole=chosen.whole)
    for report in reports:
        problems = report.problems()
        if chosen.json:
            print(json.dumps({"name": report.fault.name, "problems": problems, "passed": sorted(report.passed)}))
            continue
        counts = f"{len(report.failed)} failed, {len(report.passed)} passed, {report.seconds:.1f} s"
        print(f"{'WRONG' if problems else 'right'}  {report.fault.name}: {counts}")
        print(*(f"       {problem}" for problem in problems), sep="\n", end="\n" if problems else "")
    return 1 if any(report.problems() for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
