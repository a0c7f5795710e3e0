"""Makes docs/crash-matrix.md: which deaths of a daemon were played, and what came of them (WS-12).

Scenarios, boundaries and groups are what the code has, and a test holds the page to them. How many deaths were played is kept in the page
itself: ``python -m jamcore.testing.crash_matrix --write`` plays everything and says it there. Run ``python -m jamcore.testing.crash_page``
to make the rest anew.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import anyio

from jamcore.journal.replay import ActionRegistry
from jamcore.testing.matrix.effects import GROUPS
from jamcore.testing.matrix.rows import NOT_PLAYED, Row, lines, read_rows
from jamcore.testing.matrix.scenario import Scenario
from jamcore.testing.matrix.scenarios import PLAYED
from jamcore.testing.operations_page import registered
from jamcore.testing.sources import workspace_root

PAGE = "docs/crash-matrix.md"
_HEAD = """\
# Crash matrix

Made by `python -m jamcore.testing.crash_page` from the kinds of a whole daemon and their scenarios; do not edit. The numbers are those
of the last run of each, which `python -m jamcore.testing.crash_matrix --write [SCENARIO …]` plays and writes; with `--again N` it draws at
most N second deaths for each first.

A whole daemon is killed by SIGKILL at each boundary that a run of the action passes: the **first death**. The daemon starts again, once
for each boundary that this start passes, and is killed there: the **second deaths**. After each of them one more life must find everything
as it must be:

- the action is done once and wholly, no operation is unfinished, and nothing temporary is left;
- no live byte was gone before an export that holds it was whole, and every export is sound;
- the other room is untouched to the byte;
- asking again in the same words answers the same and changes no row and no file, and other words under the same id are refused: after every
  first death, and after every third second one.

The tests play every first death and, for rooms with a managed workspace of their own, draw a second one for each; `JAM_CRASH_MATRIX=all`
has them play all.
"""
_GROUPS = """
## Several effects before one boundary

Everywhere else at most one durable effect lies between two boundaries, which a test reads from the interpreter and the database. These are
groups on purpose:

| boundary | why it does not matter how much of it was done |
|---|---|
"""


def render(actions: ActionRegistry, played: Mapping[str, Sequence[Row]]) -> str:
    """Return the page, with what was played of each scenario."""
    sections = {name: tuple(_rows(actions, scenario, played.get(name, ()))) for name, scenario in sorted(PLAYED.items())}
    tables = "".join(_section(actions, PLAYED[name], rows) for name, rows in sections.items())
    groups = "".join(f"| {point} | {why} |\n" for point, why in sorted(GROUPS.items()))
    return f"{_HEAD}{_summary(sections)}{tables}{_GROUPS}{groups}"


def boundaries(actions: ActionRegistry, scenario: Scenario) -> tuple[str, ...]:
    """Return the boundaries that a run must pass."""
    return tuple(dict.fromkeys((*actions.action(scenario.kind).crash_points(), *scenario.inner)))


def _rows(actions: ActionRegistry, scenario: Scenario, played: Sequence[Row]) -> Iterator[Row]:
    """Yield what was played and is still there: a boundary of the kind that the code no longer has is forgotten."""
    known = boundaries(actions, scenario)
    for row in played:
        name = row.point.partition(" ")[0]
        if name in known or not name.startswith(f"{scenario.kind}."):
            yield row


def _summary(sections: Mapping[str, Sequence[Row]]) -> str:
    rows = [(name, len(found), sum(row.again for row in found), _outcomes(found)) for name, found in sections.items()]
    whole = [row for found in sections.values() for row in found]
    total = ("**all**", len(whole), sum(row.again for row in whole), _outcomes(whole))
    head = "\n| action | first deaths | second deaths | what came of it |\n|---|---|---|---|\n"
    return head + "".join(f"| {name} | {first} | {second} | {came} |\n" for name, first, second, came in (*rows, total))


def _outcomes(rows: Sequence[Row]) -> str:
    return ", ".join(sorted({outcome for row in rows for outcome in row.outcomes})) or NOT_PLAYED


def _section(actions: ActionRegistry, scenario: Scenario, rows: Sequence[Row]) -> str:
    what = inspect.getdoc(type(scenario))
    return "\n".join([f"\n## {scenario.name}\n", f"{what}\n", *lines(boundaries(actions, scenario), rows)]) + "\n"


def write(root: Path, actions: ActionRegistry, news: Mapping[str, Sequence[Row]] | None = None) -> None:
    """Make the page anew: what ``news`` has of a scenario takes the place of what the page says was played of it."""
    page = root / PAGE
    before = read_rows(page.read_text(encoding="utf-8")) if page.exists() else {}
    page.write_text(render(actions, {**before, **(news or {})}), encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Write the page."""
    argparse.ArgumentParser(prog="python -m jamcore.testing.crash_page", description=f"Make {PAGE}.").parse_args(arguments)
    write(workspace_root(Path.cwd()), anyio.run(registered))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
