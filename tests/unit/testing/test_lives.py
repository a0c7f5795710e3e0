"""Processes that are forked from one that has Jam imported: as alone in the world as a new interpreter."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from jamcore.testing.crash import Lives, SigkillAt
from jamcore.testing.guards import open_descriptors

pytestmark = [pytest.mark.unprivileged]


def say_what_it_has() -> None:
    """Print what a life has: variables, descriptors, threads, and whether it leads a session."""
    print(sorted(os.environ), sorted(open_descriptors()), threading.active_count(), os.getsid(0) == os.getpid())


async def reach(point: str) -> int:
    """Pass a boundary, and end with a status of its own."""
    await anyio.lowlevel.checkpoint()
    SigkillAt("here").reach(point)
    return 7


def go_on() -> None:
    """Never end."""
    print("going on", flush=True)
    signal.pause()


def fail() -> None:
    """Raise an error."""
    raise RuntimeError("so be it")


def test_a_life_has_its_environment_and_the_standard_streams_alone(lives: Lives, tmp_path: Path) -> None:
    """No descriptor, thread or variable of the process that forked it, and a session of its own."""
    said = tmp_path / "said"
    assert lives.begin(say_what_it_has, environment={"ONLY": "1"}, said=said).wait() == 0
    assert said.read_text() == "['ONLY'] [0, 1, 2] 1 True\n"


@pytest.mark.parametrize(("point", "status"), [("here", -signal.SIGKILL), ("there", 7)])
def test_how_it_ended_is_known(lives: Lives, point: str, status: int) -> None:
    """The signal that ended it, as a negative number, or what its function returned."""
    assert lives.run(reach, point) == status


def test_a_life_is_ended_from_outside(lives: Lives, tmp_path: Path) -> None:
    """It runs until then; to wait for less than that is an error."""
    life = lives.begin(go_on, said=tmp_path / "said")
    try:
        assert life.poll() is None
        with pytest.raises(TimeoutError):
            life.wait(0)
    finally:
        life.kill()
    assert (life.wait(), life.poll()) == (-signal.SIGKILL, -signal.SIGKILL)


def test_an_error_is_said(lives: Lives, tmp_path: Path) -> None:
    """A life that fails ends with 1, and its last words are where it writes."""
    said = tmp_path / "said"
    assert lives.run(fail, said=said) == 1
    assert "so be it" in said.read_text()
