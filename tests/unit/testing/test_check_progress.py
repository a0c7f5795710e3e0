"""What ``jam plugin check`` shows while its checks run."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jamcore.testing.check.progress import Progress
from jamcore.testing.toolchains import TOOLS_VARIABLE, UNPINNED

OWN_TEST = """
def test_of_the_authors_own():
    print("said in a test")
    assert True
"""


class Terminal(io.StringIO):
    """A stream that a person reads."""

    def isatty(self) -> bool:
        """It is."""
        return True


@pytest.mark.parametrize(
    ("stream", "shown"),
    [
        (io.StringIO(), "[1/2] passed        a: one\n[2/2] failed        a: two\n"),
        (Terminal(), "\r\x1b[K[1/2] passed        a: one\r\x1b[K[2/2] failed        a: two\r\x1b[K"),
    ],
    ids=["elsewhere", "on a terminal"],
)
def test_each_check_has_a_line_and_on_a_terminal_one_line_changes(stream: io.StringIO, shown: str) -> None:
    """That line is taken away before the report comes."""
    progress = Progress(stream)
    progress.total = 2
    progress.finished("passed", "a: one")
    progress.finished("failed", "a: two")
    progress.over()
    assert stream.getvalue() == shown


@pytest.mark.guarantee("KIT-1")
def test_a_run_on_an_unpinned_program_says_so_beside_its_report(tmp_path: Path) -> None:
    """It proves nothing of the pin. The lines of the checks are not among what the tests print, and not in the report."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_own.py").write_text(OWN_TEST)
    argv = [sys.executable, "-P", "-m", "jamcore.testing.check", "."]
    environment = {**os.environ, TOOLS_VARIABLE: str(tmp_path)}
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=False)
    name = tmp_path.name
    assert done.stderr.splitlines() == [f"[1/1] passed        {name}: of the authors own", UNPINNED]
    assert done.stdout.splitlines() == [name, "  passed        of the authors own", "", "1 passed"]
