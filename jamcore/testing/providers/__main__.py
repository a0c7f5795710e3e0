"""Prints the provider suite: ``python -m jamcore.testing.providers``; ``--write`` makes docs/provider-suite.md from it."""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from jamcore.testing.sources import workspace_root

PAGE = "docs/provider-suite.md"
PARTS = (
    ("promises", "ProviderPromises"),
    ("declarations", "ProviderDeclarations"),
    ("distribution", "ProviderDistribution"),
    ("turns", "ProviderTurns"),
    ("approvals", "ProviderApprovals"),
    ("resume", "ProviderResume"),
    ("kills", "ProviderKills"),
    ("pitfalls", "ProviderPitfalls"),
    ("model_faults", "ProviderModelFaults"),
    ("bad_programs", "ProviderBadPrograms"),
    ("loopback", "ProviderLoopback"),
)
"""The suite's parts: module and class, in the order in which an author meets them."""
_ROLE = re.compile(r":\w+:`")
_HEAD = """\
# The provider suite

Made by `python -m jamcore.testing.providers --write` from the suite; do not edit. How a plugin is written and proven with it, step by step,
is in [plugin-authors.md](plugin-authors.md); `jam plugin new` makes one that passes all of it.

Each part is a class. A plugin's tests subclass it, and say in class attributes what is peculiar to the plugin; what a plugin does not claim
in its description is reported as "not claimed" with the reason, never as passed. A check that fails and is to be mended is named in
`known_failures` with a reason: it must fail then, or the run does. The first sentence of a check is its rule; what follows says why.

Each check but those of the promises has a plugin in `jamcore.testing.mutants` that breaks its rule, and that it alone finds: there can be
read how a rule is broken.

What the model is told after a resume is compared word by word. What the program itself writes among it is left out only as far as
`ProviderUnderTest.normalisation` declares it, nothing unless told otherwise; a run prints what that is.
"""


def render() -> str:
    """Return the page."""
    return "\n".join((_HEAD, *(line for module, _ in PARTS for line in section(suite_of(module)))))


def section(suite: type) -> Iterator[str]:
    """Yield the lines of a page about one class of checks, under the last word of its module's name."""
    title = suite.__module__.rpartition(".")[2].replace("_", " ")
    about, _, attributes = (inspect.getdoc(suite) or "").partition("Attributes:\n")
    attributes = attributes or next(filter(None, (_attributes(base) for base in suite.__mro__)), "")
    yield from (f"## {title}", "", f"`{suite.__module__}.{suite.__name__}`: {_line(about)}", "")
    if attributes:
        yield from ("A subclass may say:", "", *(f"- {_line(entry)}" for entry in _entries(attributes)), "")
    for test, function in checks_of(suite):
        rule, _, why = (inspect.getdoc(function) or "").partition("\n\n")
        yield f"- **{test.removeprefix('test_').replace('_', ' ')}**: {_line(rule)}{' *Why:* ' + _line(why) if why else ''}"
    yield ""


def suite_of(module: str) -> type:
    """Return the class of the part that is in this module."""
    suite: type = getattr(importlib.import_module(f"jamcore.testing.providers.{module}"), dict(PARTS)[module])
    return suite


def part_of(suite: type) -> str | None:
    """Return the page with the place on it that explains the checks of a suite's part, or of a subclass of one."""
    modules = {name: module for module, name in PARTS}
    found = next((modules[base.__name__] for base in suite.__mro__ if base.__name__ in modules), None)
    return None if found is None else f"{PAGE}#{found.replace('_', '-')}"


def _attributes(suite: type) -> str:
    return inspect.cleandoc(suite.__doc__ or "").partition("Attributes:\n")[2]


def checks_of(suite: type) -> list[tuple[str, Callable[..., object]]]:
    """Return the checks of a class in the order in which they are written."""
    found = [(name, member) for name, member in inspect.getmembers(suite, inspect.isfunction) if name.startswith("test_")]
    return sorted(found, key=lambda each: inspect.getsourcelines(each[1])[1])


def _entries(attributes: str) -> Iterator[str]:
    """Yield the entries of a section of a docstring, each whole."""
    entry = ""
    for line in attributes.rstrip().splitlines():
        if line.startswith("    ") and not line.startswith("     "):
            if entry:
                yield entry
            name, _, text = line.strip().partition(": ")
            entry = f"`{name}`: {text}"
        else:
            entry += f" {line.strip()}"
    if entry:
        yield entry


def _line(text: str) -> str:
    return " ".join(_ROLE.sub("`", text).replace("``", "`").split())


def main(arguments: list[str] | None = None) -> int:
    """Print or write."""
    parser = argparse.ArgumentParser(prog="python -m jamcore.testing.providers", description="The checks of the provider suite.")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE}")
    if parser.parse_args(arguments).write:
        (workspace_root(Path.cwd()) / PAGE).write_text(render(), encoding="utf-8")
    else:
        print(render(), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
