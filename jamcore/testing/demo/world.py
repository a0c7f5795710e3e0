"""The machine's side of the demo: a small real repository, and command lines for a person."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

GIT = shutil.which("git") or "git"
GIT_TIMEOUT_S = 30.0
_SETTINGS = ("user.name=Demo", "user.email=demo@example.invalid", "commit.gpgSign=false", "core.hooksPath=/dev/null")
_IDENTITY = tuple(part for setting in _SETTINGS for part in ("-c", setting))


class DemoFailedError(Exception):
    """A proof did not hold, or a step did not end within its bound."""


def make_repository(path: Path) -> None:
    """Make a repository with one commit: a module with a spelling mistake."""
    path.mkdir()
    (path / "greeting.py").write_text('def greet():\n    return "helo"\n')
    (path / "README.md").write_text("# Greeting\n")
    for command in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "A greeting")):
        git(path, *command)


def git(path: Path, *argv: str) -> str:
    """Run git in the demo's repository and return its output."""
    done = subprocess.run(
        (GIT, *_IDENTITY, "-C", str(path), *argv), capture_output=True, check=True, timeout=GIT_TIMEOUT_S, text=True
    )
    return done.stdout


def shell(app: Path, *argv: str) -> str:
    """Return a command line that a person can paste."""
    return f"JAM_HOME={shlex.quote(str(app))} " + shlex.join((str(Path(sys.executable).with_name("jam")), *argv))
