"""Makes docs/live-tests.md: the one list of live tests, and how to run them. Run ``python -m jamcore.testing.live_page``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from jamcore.testing.live import LiveTest, registry
from jamcore.testing.sources import workspace_root

PAGE = "docs/live-tests.md"
_HEAD = """\
# Live tests

Made by `python -m jamcore.testing.live_page` from the lists of every distribution; do not edit.

A live test needs what not every machine has: a real account, a repository that only you may read, an engine with an organisation's
policy. It costs money, and what it starts is real. So it runs only with two switches, one for the machine and one of its own:

    JAM_LIVE_PHYSICAL_HOST=1 JAM_LIVE_CODEX=1 OPENAI_API_KEY=... tox -e live

One switch alone runs nothing, `make test` and `.ci/run` run none, and a test that is skipped, or that ran against a stand-in, proves
nothing: the last lines of a run say how many of each there were. A live test carries no mark of a guarantee, so that no guarantee waits
for an account.

## Where they run

| variable | meaning |
|---|---|
| `JAM_LIVE_ENGINE` | The engine of every room; absent: what the daemon takes by itself. |
| `JAM_LIVE_MODEL` | The model of every room; absent: the provider's own default, where it has one. |
| `JAM_LIVE_ENDPOINT` | A scripted model's origin ([testing](testing.md)) in place of the real one. No account is needed then. |

Each test has an app directory of its own in a temporary directory and takes the credential from the environment of the run; the sandbox
never sees it. What a test needs is looked for before it starts, and it is skipped by the name of what is missing.

## A new one

Write it over `jamcore.testing.live_rooms`, which works for any engine and provider, mark it `live("JAM_LIVE_...")`, and add an entry to
the file `live.toml` beside it (`jamcore.testing.live` says how). A live test that is in no list fails wherever it is met; a test that
is none and reads a variable of live tests, a key, or a home is found by `tests/contract/test_live_registry.py`.
A plugin's live tests are in its own distribution. `tests/real/test_live_dry.py` plays every entry against a scripted model as part of
`make test`, so that its code is known to run. After that: `make guarantees`.

"""


def render(entries: Iterable[LiveTest]) -> str:
    """Return the page."""
    known = tuple(entries)
    gates = sorted({entry.gate for entry in known if entry.gate})
    lines = [_HEAD, "## The decisive gates\n\n| gate | tests |\n|---|---|\n"]
    lines.extend(f"| {gate} | {', '.join(entry.name for entry in known if entry.gate == gate)} |\n" for gate in gates)
    for distribution in sorted({entry.distribution for entry in known}):
        lines.append(f"\n## {distribution}\n")
        lines.extend(_entry(entry) for entry in known if entry.distribution == distribution)
    return "".join(lines)


def _entry(entry: LiveTest) -> str:
    facts = (
        ("Proves", entry.proves),
        ("Switch", f"`{entry.opt_in}=1`"),
        ("Program", entry.program),
        ("Account", entry.account),
        ("Skipped without", ", ".join(f"`{need}`" for need in entry.needs)),
        ("Ran", entry.ran),
        ("Test", f"`{entry.nodeid}`"),
    )
    return f"\n### {entry.name}\n\n" + "".join(f"- {name}: {text}\n" for name, text in facts if text)


def main(arguments: list[str] | None = None) -> int:
    """Write the page."""
    argparse.ArgumentParser(prog="python -m jamcore.testing.live_page", description="Make docs/live-tests.md.").parse_args(
        arguments
    )
    root = workspace_root(Path.cwd())
    (root / PAGE).write_text(render(registry(root)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
