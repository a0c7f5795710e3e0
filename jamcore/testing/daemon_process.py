"""The process of a daemon under test: a new interpreter, or a fork of one that has Jam imported."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from jamcore.jamd import main
from jamcore.testing.crash import Life, Lives


def begin_daemon(
    app: Path, environment: Mapping[str, str], said: Path | None, lives: Lives | None
) -> subprocess.Popen[bytes] | Life:
    """Start the daemon of an app directory in a session of its own and return without waiting for it.

    Args:
        app: The app directory.
        environment: Its whole environment.
        said: Where what it writes on its standard streams goes, at the end of the file; this process's streams by default.
        lives: Forks it; without it an interpreter is started.
    """
    if lives is not None:
        return lives.begin(_serve, str(app), environment=environment, said=said)
    with ExitStack() as stack:
        to = stack.enter_context(said.open("ab")) if said else None
        return subprocess.Popen(
            (sys.executable, "-P", "-m", "jamcore.jamd", "--app-directory", str(app)),
            stdin=subprocess.DEVNULL,
            stdout=to,
            stderr=to,
            env=environment,
            start_new_session=True,
        )


def _serve(app: str) -> int:
    """What ``python -m jamcore.jamd`` does."""
    sys.argv = ["jamd", "--app-directory", app]
    logging.captureWarnings(capture=True)
    return main()
