"""The page of pitfalls names tests that exist, for every kind and every plugin."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PAGE = "docs/provider-pitfalls.md"
SUITE = "jamcore/testing/providers"
NAMED = re.compile(r"`([^`]+)`")
KINDS = 10


def rows(root: Path) -> list[list[str]]:
    """Return the cells of the page's table, its heading first."""
    lines = (root / PAGE).read_text(encoding="utf-8").splitlines()
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [row for row in found if set(row[0]) != {"-"}]


def classes(directory: Path) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """Return the classes of a directory's modules: the tests in each, and the names of its bases."""
    return {
        node.name: (
            frozenset(functions(node)),
            frozenset(base.id for base in node.bases if isinstance(base, ast.Name)),
        )
        for path in directory.glob("*.py")
        for node in ast.parse(path.read_bytes()).body
        if isinstance(node, ast.ClassDef)
    }


def functions(node: ast.ClassDef | ast.Module) -> Iterator[str]:
    """Yield the names of the tests right in a module or a class."""
    for part in node.body:
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and part.name.startswith("test_"):
            yield part.name


def known_tests(root: Path, plugin: str) -> set[str]:
    """Return the tests of a plugin: its own, and those of the parts of the suite that it takes."""
    directory, suite = root / "plugins" / plugin / "tests", classes(root / SUITE)
    own = classes(directory)
    found = {name for path in directory.glob("test_*.py") for name in functions(ast.parse(path.read_bytes()))}
    for tests, bases in own.values():
        found |= tests
        taken = [*bases]
        while taken:
            inherited, further = suite.get(taken.pop(), (frozenset(), frozenset()))
            found |= inherited
            taken += further
    return found


@pytest.mark.guarantee("PLUG-2")
def test_every_plugin_has_a_test_of_every_pitfall(root: Path) -> None:
    """A plugin that is added has a column, with a test in each row."""
    heading, *kinds = rows(root)
    assert sorted(heading[1:]) == sorted(path.parent.name for path in (root / "plugins").glob("*/pyproject.toml"))
    assert len(kinds) == KINDS
    assert [row[0] for row in kinds for cell in row[1:] if not NAMED.findall(cell)] == []


@pytest.mark.guarantee("PLUG-2")
def test_every_named_test_exists(root: Path) -> None:
    """By its name: whoever renames one renames it on the page."""
    heading, *kinds = rows(root)
    absent = []
    for place, plugin in enumerate(heading[1:], 1):
        known = known_tests(root, plugin)
        for name in (name for row in kinds for name in NAMED.findall(row[place])):
            path, _, test = name.rpartition("::")
            there = set(functions(ast.parse((root / path).read_bytes()))) if path else known
            if test not in there:
                absent.append(f"{plugin}: {name}")
    assert absent == []
