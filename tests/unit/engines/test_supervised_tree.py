"""A supervisor's view of a tree on a machine that it shares: everybody below it, nobody else, and a freeze that is exact or fails."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from jamcore.engines.supervised.guest import processes
from jamcore.engines.supervised.guest.processes import Tree, freeze, scan_all, thaw
from jamcore.testing.engines.box import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.guarantee("CONT-2")]


class Below(Tree):
    """The tree below one child of the test, so that nothing else of the test run is stopped."""

    def __init__(self, root: int) -> None:
        super().__init__()
        self.root = root


class Deaf(Below):
    """One whose signals do not arrive, as those to another user's process."""

    def everyone(self, number: int) -> None:
        """Do nothing."""


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A shell below which others start and end all the time. It starts nobody more itself, as the supervisor that it stands for."""
    script = "(while :; do /bin/true; done) & setsid sleep 600 & (while :; do /bin/true; done) & wait"
    process = subprocess.Popen(("sh", "-c", script), start_new_session=True)
    try:
        yield process
    finally:
        tree = Below(process.pid)
        for pid in (*(entry.pid for entry in tree.scan()), process.pid):
            processes.send(pid, signal.SIGKILL)
        process.wait(timeout=20)


async def test_a_freeze_of_a_tree_stops_everybody_below_and_nobody_else(child: subprocess.Popen[bytes]) -> None:
    """Forking ones and those in a session of their own; the test itself goes on, and after it they do too."""
    tree = Below(child.pid)
    await eventually(lambda: len(tree.scan()) >= 2)
    stopped, before = freeze(tree, set())
    assert stopped >= 2
    states = {entry.pid: entry.state for entry in tree.scan() if entry.state not in processes.DEAD}
    assert set(states.values()) <= set(processes.STOPPED)
    assert {entry.pid: entry.state for entry in scan_all()}[os.getpid()] not in processes.STOPPED
    again = {entry.pid for entry in tree.scan() if entry.state not in processes.DEAD}
    assert again == set(states), "nothing forks while it stands still"
    thaw(tree, before)
    await eventually(lambda: any(entry.state not in processes.STOPPED for entry in tree.scan()))


async def test_who_cannot_be_stopped_makes_the_freeze_fail(child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of another user goes on writing: better no checkpoint than one of files that change."""
    monkeypatch.setattr(processes, "FREEZE_LIMIT_S", 0.02)
    tree = Deaf(child.pid)
    await eventually(lambda: bool(tree.scan()))
    assert freeze(tree, set())[0] == -1


async def test_a_tree_is_what_is_below(child: subprocess.Popen[bytes]) -> None:
    """The root is not in it, and neither is whoever started the root."""
    tree = Below(child.pid)
    await eventually(lambda: bool(tree.scan()))
    assert not {child.pid, os.getpid(), 1} & {entry.pid for entry in tree.scan()}
