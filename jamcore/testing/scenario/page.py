"""Makes docs/providers-scenario.md: which provider went through which step, with what. Run ``python -m jamcore.testing.scenario.page``."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterable
from pathlib import Path
from textwrap import fill

from jamcore.testing.scenario.faults import FAULTS
from jamcore.testing.scenario.rows import ProviderRow, rows_of
from jamcore.testing.scenario.story import STEPS
from jamcore.testing.sources import workspace_root

PAGE = "docs/providers-scenario.md"
WIDTH = 140
_HEAD = """\
# One scenario for every provider

Made by `python -m jamcore.testing.scenario.page` from the steps in `jamcore/testing/scenario` and the rows beside each plugin's tests
(`plugins/*/tests/scenario_rows.py`); do not edit. `tests/real/test_every_provider.py` plays it in a real daemon, in the bubblewrap sandbox,
with a scripted model server on loopback; what the model is told afterwards is the proof. In CI every program has to be there.

The last lines are plays of their own: a model that fails in one turn after another of a room (`test_every_provider_fails.py` beside
it; with the code of the turn's end, which is `turn.idle_timeout` where nothing was heard of the program and Jam ended the turn), a room in
the engine that isolates nothing, whose agent asks (`test_every_provider_without_sandbox.py`), and two rooms whose daemon, sandbox or
program is killed at boundaries that are drawn (`tests/crash/test_every_provider_killed.py`).

"""
_PECULIAR = """
## What differs

- *A question, denied*: {told} tell the model of the denial and go on; with {ends} the turn ends there.
- *Exact resume* after the daemon was killed in a turn: {all} bring back all that the program had told the model. {said} may have
  lost what was not written down yet, never what the person said. Of {none} the conversation is a
  database, which is put back as it was captured: no word of a cut turn is told.
- *Import on another machine*: there the room has another directory. {fixed} keeps to the one in which a conversation began: the files
  come, and the conversation is refused by name, not begun anew.
"""
_DECLARED = """
## What is in no comparison

What the model is told after a resume is compared with what it was told before, word by word (CONT-1). Left out is what the program itself
writes among it, which the provider's tests declare (`normalisation`); for every program also what has the role of the system or the
developer, reasoning, ids of items, and how the JSON of a call's arguments is spaced.

"""


def _codes(row: ProviderRow, fault: str) -> str:
    return " or ".join(f"`{code}`" for code in row.codes_of(fault))


def render(rows: Iterable[ProviderRow]) -> str:
    """Return the page."""
    rows = tuple(rows)
    titles = " | ".join(row.title for row in rows)
    lines = [_HEAD, f"| step | {titles} |\n", "|---" * (len(rows) + 1), "|\n"]
    lines += [f"| {name} | {' | '.join(row.ran for row in rows)} |\n" for name, _ in STEPS]
    lines += [f"| *{name}* | {' | '.join(_codes(row, name) for row in rows)} |\n" for name in FAULTS]
    lines.append(f"| *without a sandbox* | {' | '.join(row.ran for row in rows)} |\n")
    hosts = (f"{row.ran}, {'one host' if row.shared else 'a host each'}" for row in rows)
    lines.append(f"| *two rooms at once, killed* | {' | '.join(hosts)} |\n")
    lines.append("\n## The steps\n\n")
    for place, (name, step) in enumerate(STEPS, 1):
        lines.append(f"{place}. **{name}**: {' '.join(inspect.cleandoc(step.__doc__ or '').split())}\n")
    lines.append(
        _PECULIAR.format(
            told=_names(row for row in rows if row.told_no),
            ends=_names(row for row in rows if not row.told_no),
            all=_names(row for row in rows if row.cut == "told"),
            said=_names(row for row in rows if row.cut == "said"),
            none=_names(row for row in rows if row.cut == "none"),
            fixed=_names(row for row in rows if not row.moves),
        )
    )
    standins = [f"{row.title}: {row.standin}." for row in rows if row.standin]
    lines.append(_DECLARED)
    lines += [f"{fill(f'- {row.title}: {row.normalisation.told()}.', WIDTH, subsequent_indent='  ')}\n" for row in rows]
    return "".join([*lines, "\n## Stand-ins\n\n", *(f"- {line}\n" for line in standins)])


def _names(rows: Iterable[ProviderRow]) -> str:
    *first, last = [row.title for row in rows]
    return f"{', '.join(first)} and {last}" if first else last


def main(arguments: list[str] | None = None) -> int:
    """Write the page."""
    argparse.ArgumentParser(description=main.__doc__).parse_args(arguments)
    root = workspace_root(Path.cwd())
    (root / PAGE).write_text(render(rows_of(root)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
