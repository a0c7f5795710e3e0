"""A real daemon, the real program, a scripted model: what every test here is made of."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from jamcore.control.client import JamClient
from jamcore.testing.crash import Lives
from jamcore.testing.daemon import DaemonChild, place_toolchain, running_daemon
from jamcore.testing.rooms import running
from jamcore.testing.servers.responses import ResponsesServer, Script, say

PROVIDER = "codex"
SECRET = "sk-real-" + "7f3a" * 10


@pytest.fixture
async def model() -> AsyncIterator[ResponsesServer]:
    """A model that writes a file when it is told to write, and says something whatever it is told."""
    write = running("printf 'made by the agent\\n' > made.txt && cat made.txt", said="Write the file")
    async with ResponsesServer(Script(rules=(*write, say("Hello ", "there.")))) as server:
        yield server


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """Where the daemon's app directory will be."""
    return tmp_path / "app"


@pytest.fixture
async def daemon(app: Path, tmp_path: Path, lives: Lives) -> DaemonChild:
    """A daemon with the program in place, not started; it knows one credential, from its environment."""
    await place_toolchain(app, PROVIDER)
    return DaemonChild(app, environment={"JAM_CREDENTIAL_TEST": SECRET}, private=tmp_path / "private", lives=lives)


@pytest.fixture
async def client(daemon: DaemonChild) -> AsyncIterator[JamClient]:
    """The client of that daemon, which runs."""
    async with running_daemon(daemon) as running_client:
        yield running_client


@pytest.fixture
def git() -> Callable[..., str]:
    """Run git as a person would, with nothing of this machine's configuration."""

    def run(directory: Path, *argv: str) -> str:
        identity = ("-c", "user.name=A Person", "-c", "user.email=person@example.org")
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
        done = subprocess.run(
            ("git", *identity, *argv), cwd=directory, env=environment, capture_output=True, check=True, timeout=60
        )
        return done.stdout.decode(errors="surrogateescape").strip()

    return run


@pytest.fixture
def repository(git: Callable[..., str]) -> Callable[[Path], Path]:
    """Make a repository with one commit at a path."""

    def make(path: Path) -> Path:
        path.mkdir(parents=True)
        git(path, "init", "-q", "-b", "main")
        (path / "a.txt").write_text("one\n")
        git(path, "add", ".")
        git(path, "commit", "-q", "-m", "one")
        return path

    return make
