"""Prints the suites of policies and families: ``python -m jamcore.testing.policies``; ``--write`` makes docs/policy-suite.md from them."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from jamcore.testing.providers.__main__ import section
from jamcore.testing.sources import workspace_root

PAGE = "docs/policy-suite.md"
PARTS = (("promises", "PolicyPromises"), ("families", "FamilyPromises"))
"""Module and class."""
_HEAD = """\
# The suites of policies and of families

Made by `python -m jamcore.testing.policies --write` from the suites; do not edit. How a policy is written and proven, step by step, is in
[policy-authors.md](policy-authors.md); `jam plugin new NAME --policy` makes one that passes all of it. A family makes providers of tables
of the configuration; what it makes promises besides what every provider does ([provider-suite.md](provider-suite.md), "promises").

A plugin's tests subclass the class; `jam plugin check` puts the same to what is installed. The first sentence of a check is its rule; what
follows says why.
"""


def render() -> str:
    """Return the page."""
    return "\n".join((_HEAD, *(line for module, _ in PARTS for line in section(suite_of(module)))))


def suite_of(module: str) -> type:
    """Return the class of checks that is in this module."""
    suite: type = getattr(importlib.import_module(f"jamcore.testing.policies.{module}"), dict(PARTS)[module])
    return suite


def section_of(suite: type) -> str | None:
    """Return the page with the place on it that explains the checks of a suite, or of a subclass of one."""
    modules = {name: module for module, name in PARTS}
    return next((f"{PAGE}#{modules[base.__name__]}" for base in suite.__mro__ if base.__name__ in modules), None)


def main(arguments: list[str] | None = None) -> int:
    """Print or write."""
    parser = argparse.ArgumentParser(prog="python -m jamcore.testing.policies", description="The checks of policies and families.")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE}")
    if parser.parse_args(arguments).write:
        (workspace_root(Path.cwd()) / PAGE).write_text(render(), encoding="utf-8")
    else:
        print(render(), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
