"""One sbx program, simulated or real, as tests ask it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RUN_S = 100.0
"""How long a command may take."""


class Program:
    """A program named sbx, and the environment that it is run with."""

    program: Path
    environment: Mapping[str, str]

    def run(
        self, *words: str, stdin: bytes = b"", cwd: Path | None = None, timeout_s: float = RUN_S, **environment: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Run one command to its end.

        Raises:
            subprocess.TimeoutExpired: It does not end; it was killed.
        """
        argv, env = (str(self.program), *words), {**self.environment, **environment}
        return subprocess.run(argv, input=stdin, cwd=cwd, env=env, capture_output=True, timeout=timeout_s, check=False)

    def popen(self, *words: str, **how: Any) -> subprocess.Popen[bytes]:
        """Start one command; the caller owns it."""
        return subprocess.Popen((str(self.program), *words), env=how.pop("env", self.environment), **how)

    def said(self, *words: str, **how: Any) -> str:
        """Return what a command printed, which has to have worked."""
        done = self.run(*words, **how)
        assert done.returncode == 0, (words, done)
        return done.stdout.decode()

    def failed(self, *words: str, **how: Any) -> str:
        """Return what a command said on stderr, which has to have failed with 1."""
        done = self.run(*words, **how)
        assert done.returncode == 1, (words, done)
        return done.stderr.decode()

    def json(self, *words: str, **how: Any) -> Any:  # noqa: ANN401 - whatever the command prints
        """Return the one document that a command printed."""
        return json.loads(self.said(*words, **how))
