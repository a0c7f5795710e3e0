"""Prints the engine suite as a table: ``python -m jamcore.testing.engines``; ``--write`` makes docs/engine-suite.md from it."""

from __future__ import annotations

import argparse
from pathlib import Path

from jamcore.domain.sandboxes import Isolation
from jamcore.testing.engines.checks import Check, Topic, checks_of
from jamcore.testing.engines.suite import EngineSuite
from jamcore.testing.sources import workspace_root

PAGE = "docs/engine-suite.md"
_HEAD = """\
# The engine suite

Made by `python -m jamcore.testing.engines --write` from the suite; do not edit. An engine's author installs `jamcore[testing]` and writes:

```python
from jamcore.testing.engines import EngineSuite
from my_engine import MyEnginePlugin


class TestEngine(EngineSuite):
    plugin = MyEnginePlugin
```

| to say | write |
| --- | --- |
| how Python is called in the guests | `python = Python(argv=("/opt/python/bin/python3",))` |
| how the engine's own control can fail, and how a test brings that about | `sicknesses = frozenset({Sickness.TIME_OUT})` and `sicken` |
| an escape that the engine does not refuse, with the reason that its documentation gives | `unclaimed = {"make-a-device": "…"}` |
| a check that fails and is to be mended | `known_failures = {"test_orphans_are_reaped": "…"}`: it must fail, or the run does |

An engine passes when every check that it claims passes. *Asked of* names, in brackets, what an engine must claim first: an ability, or an
isolation class from which on the rule is a promise. What is not claimed is reported as "not claimed" with the reason, never as passed.
`jamcore.testing.engines.bad` makes bad engines from a good one, at least one for each check: it fails that check and no other, which
proves the suite. `NOT_BY_ITS_PORT` names what no engine's port can break, with the reason.
"""


def render() -> str:
    """Return the page."""
    found = checks_of(EngineSuite)
    sections = [_section(topic, [one for one in found if one.topic is topic]) for topic in Topic]
    return "\n".join((_HEAD, *sections))


def asked_of(one: Check) -> str:
    """Return whom a check is put to."""
    claims = [f"ability {ability}" for ability in one.abilities]
    if one.isolation is not Isolation.NONE:
        claims.append(f"isolation {one.isolation.name.lower()} or stronger")
    return ", ".join(claims) or "every engine"


def _section(topic: Topic, found: list[Check]) -> str:
    rows = [f"- **{one.name}** ({asked_of(one)}): {one.rule} *Why:* {one.why}" for one in found]
    return "\n".join((f"## {topic}", "", *rows, ""))


def main(arguments: list[str] | None = None) -> int:
    """Print or write."""
    parser = argparse.ArgumentParser(prog="python -m jamcore.testing.engines", description="The checks of the engine suite.")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE}")
    if parser.parse_args(arguments).write:
        (workspace_root(Path.cwd()) / PAGE).write_text(render(), encoding="utf-8")
    else:
        print(render())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
