"""Imports point one way."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from jamcore.testing.sources import Source


@pytest.mark.guarantee("PLUG-2")
def test_the_import_contracts_hold(root: Path) -> None:
    """Every import contract of pyproject.toml is kept: layers, a pure domain, plugins behind the API, a command line behind the client."""
    if find_spec("importlinter") is None or find_spec("jam_codex") is None:
        pytest.skip("needs import-linter and the plugins beside the core (extra `dev`)")
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [sys.executable, "-c", program, "--no-cache"]
    done = subprocess.run(argv, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_the_domain_handles_paths_as_pure_text(core: tuple[Source, ...]) -> None:
    """Of pathlib the domain takes the pure classes alone, which cannot touch a disk."""
    taken = [
        (source.name, alias.name)
        for source in core
        if source.module.startswith("jamcore.domain.")
        for node in ast.walk(source.tree())
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if "pathlib" in (alias.name, getattr(node, "module", None))
    ]
    assert [(name, what) for name, what in taken if not what.startswith("Pure")] == []
