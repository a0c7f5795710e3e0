"""The daemon opens its own database and never one of a guest's (CONT-5)."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator

import pytest

from jamcore.testing.sources import Source

OWN = frozenset({"jamcore.store.engine", "jamcore.store.failures", "jamcore.control.unstarted"})
"""Who uses SQLite in the daemon: for ``jam.db`` alone."""
GUEST = "jamcore.continuity.databases.guest"
COMPOSE = "import sys, jamcore.daemon.compose; print([name for name in sys.modules if name.startswith(%r)])"


def imported(source: Source) -> Iterator[str]:
    """Yield the modules that a module imports, wherever in it."""
    for node in ast.walk(source.tree()):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.guarantee("CONT-5")
def test_only_the_store_and_what_runs_in_a_guest_import_sqlite(core: tuple[Source, ...]) -> None:
    """Continuity has no way to open a database: it reads bytes of copies that a program in the sandbox made."""
    users = {source.module for source in core if "sqlite3" in {name.partition(".")[0] for name in imported(source)}}
    outside = {name for name in users if not name.startswith(("jamcore.testing.", f"{GUEST}."))}
    assert outside <= OWN


@pytest.mark.guarantee("CONT-5")
def test_nobody_imports_what_runs_in_a_guest(core: tuple[Source, ...]) -> None:
    """Its text is handed to a Python in the sandbox. In the daemon it would be a program that trusts a guest's file names."""

    def below(name: str) -> bool:
        return f"{name}.".startswith(f"{GUEST}.")

    assert [source.module for source in core if not below(source.module) and any(map(below, imported(source)))] == []


@pytest.mark.guarantee("CONT-5")
def test_a_composed_daemon_has_not_loaded_it() -> None:
    """Nor by any other way."""
    done = subprocess.run((sys.executable, "-c", COMPOSE % f"{GUEST}."), capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
