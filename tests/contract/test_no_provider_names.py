"""The core knows no provider and no engine by name: they are plugins, behind hooks and the port."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from jamcore.testing.sources import Source

NAMES = ("codex", "copilot", "claude", "opencode", "bubblewrap", "bwrap", "docker", "sbx")
WORD = re.compile("|".join(NAMES), re.IGNORECASE)


@pytest.mark.guarantee("PLUG-2")
def test_the_core_names_no_provider_or_engine(core: tuple[Source, ...]) -> None:
    """No identifier and no string outside docstrings names one, except in the engine's own package and in testing."""
    assert [
        hit for source in core if not source.module.startswith("jamcore.testing") for hit in named(source.tree(), source.module)
    ] == []


@pytest.mark.parametrize(
    "code",
    [
        "import jam_codex",
        "from x import docker as y",
        "class CodexThing: ...",
        "x = 'run in sbx'",
        "f(bwrap=1)",
        "def f(codex): ...",
        "a.docker",
    ],
)
def test_the_scan_sees(code: str) -> None:
    """The scan above finds a name in each place where code can have one."""
    assert list(named(ast.parse(code), "jamcore.daemon.x"))


def test_the_scan_allows_docstrings_and_the_own_package() -> None:
    """Prose may give examples, and an engine's package may say its own name, not another's."""
    assert not list(named(ast.parse('"""Like Codex."""\ndef f():\n    """As in docker."""'), "jamcore.daemon.x"))
    assert not list(named(ast.parse("x = 'bubblewrap'; y = 'bwrap'"), "jamcore.engines.bubblewrap.engine"))
    assert list(named(ast.parse("x = 'docker'"), "jamcore.engines.bubblewrap.engine"))


def named(tree: ast.Module, module: str) -> Iterator[str]:
    """Yield each identifier and string literal with a provider's or engine's name."""
    prose = _docstrings(tree)
    for node in ast.walk(tree):
        if id(node) in prose:
            continue
        for text in _texts(node):
            if any(word not in _own_names(module) for word in map(str.lower, WORD.findall(text))):
                yield f"{module}:{getattr(node, 'lineno', 0)} {text[:80]!r}"


def _own_names(module: str) -> frozenset[str]:
    """Return the words that belong to the engine package which holds the module."""
    parts = module.split(".")
    own = parts[2] if parts[:2] == ["jamcore", "engines"] and len(parts) > 2 else ""
    return frozenset({"bubblewrap", "bwrap"}) if own == "bubblewrap" else frozenset({own})


def _texts(node: ast.AST) -> Iterator[str]:
    """Yield every piece of text of one node: names, attributes, arguments, import paths, literals."""
    for _, value in ast.iter_fields(node):
        if isinstance(value, str):
            yield value
        elif isinstance(value, bytes):
            yield value.decode("latin-1")


def _docstrings(tree: ast.Module) -> frozenset[int]:
    """Return the ids of the constants that stand alone as statements: docstrings and attribute docs."""
    return frozenset(
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )
