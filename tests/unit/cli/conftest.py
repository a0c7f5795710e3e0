"""A running fake daemon, and ways to call ``jam``: in this process, as a program, and on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jamcore.cli.main import run
from jamcore.testing.jam_program import Done, Terminal, fake_running

Jam = Callable[..., Done]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An app directory with a running fake daemon, shared by the tests of a module."""
    directory = tmp_path_factory.mktemp("home")
    directory.chmod(0o700)
    with fake_running(directory):
        yield directory


@pytest.fixture
def jam(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Jam:
    """Call ``jam`` in this process."""
    monkeypatch.setenv("JAM_HOME", str(home))

    def call(*words: str) -> Done:
        status = run(list(words))
        out, err = capsys.readouterr()
        return Done(status, out, err)

    return call


@pytest.fixture
def room(jam: Jam, request: pytest.FixtureRequest) -> str:
    """A room of its own for each test."""
    name = f"r-{abs(hash(request.node.nodeid))}"
    assert jam("room", "new", "codex", "--name", name).status == 0
    return name


@pytest.fixture
def terminal(home: Path) -> Iterator[Callable[..., Terminal]]:
    """Call ``jam`` on a terminal."""
    made: list[Terminal] = []

    def call(*words: str, **env: str) -> Terminal:
        made.append(Terminal(home, words, env))
        return made[-1]

    yield call
    for each in made:
        each.close()
