"""SIGKILL at every boundary of a journaled action, and again at every boundary of its recovery: real processes, files and database.

For each boundary one process forks all the lives that begin with a death there: it has no threads and no event loop of its own.
"""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from uuid import UUID

import anyio
import pytest

from jamcore.domain.operations import OnRestart
from jamcore.domain.records import Record
from jamcore.journal.declaration import Declaration
from jamcore.journal.points import CrashPoints, NoCrash
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner
from jamcore.journal.steps import Action, Observed, Step
from jamcore.store import StoreJournal, open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.testing.crash import Lives, SigkillAt

pytestmark = [pytest.mark.crash]

DAEMON, ACTION = UUID(int=1), UUID(int=2)
CONTENT = b"what must not be lost"
KILLED = -signal.SIGKILL


class Archive(Record):
    """Intent: copy a file, enter it into a ledger exactly once, remove it."""

    size: int = 0


def archive(directory: Path) -> Action[Archive]:
    """Return the action on a directory: three steps with one durable effect each."""
    files = Files()
    live, kept, ledger = directory / "live", directory / "kept", directory / "ledger"

    async def copy(record: Archive) -> Archive:
        files.write_atomic(kept, live.read_bytes())
        return record.model_copy(update={"size": kept.stat().st_size})

    async def enter(record: Archive) -> Archive:
        with ledger.open("ab", buffering=0) as stream:  # appends: a repetition would show
            stream.write(b"%d\n" % record.size)
            files.sync(stream.fileno())
        return record

    async def entered(record: Archive) -> Observed[Archive]:
        return Observed(ledger.exists() and ledger.read_bytes() != b"", record)

    async def remove(record: Archive) -> Archive:
        files.unlink(live)
        return record

    steps = [
        Step("copy", copy, OnRestart.REPLAY),
        Step("enter", enter, OnRestart.OBSERVE_THEN_FINISH, observe=entered),
        Step("remove", remove, OnRestart.REPLAY),
    ]
    declares = Declaration(title="archive", evidence="files and a ledger", replay="a step of the start")
    return Action("archive", Archive, steps, declares=declares)


POINTS = archive(Path()).crash_points()


async def live(directory: Path, crash: CrashPoints, *, ask: bool) -> None:
    """One life: start-up replays, or a client asks, and asks once more."""
    registry, action = ActionRegistry(), archive(directory)
    registry.register(action)
    async with open_store(directory / "jam.db", files=Files(), clock=SystemClock(), daemon_id=DAEMON) as store:
        journal = StoreJournal(store)
        runner = Runner(journal, crash)
        if ask:
            first = await runner.run(action, ACTION, Archive())
            assert await runner.run(action, ACTION, Archive()) == first
        else:
            assert await registry.replay(journal, runner) == ()
            assert await journal.running() == ()


def fork(directory: Path, crash: CrashPoints, *, ask: bool) -> int:
    """Live in a child and return how it ended."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            anyio.run(lambda: live(directory, crash, ask=ask))
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def check(directory: Path) -> None:
    """What holds after every death: the content is there, and it was entered at most once."""
    live_file, kept, ledger = directory / "live", directory / "kept", directory / "ledger"
    assert live_file.exists() or (kept.read_bytes() == CONTENT and ledger.read_bytes() == b"%d\n" % len(CONTENT))
    assert not ledger.exists() or ledger.read_bytes() in (b"", b"%d\n" % len(CONTENT))


def die_twice(directory: Path, point: str, again: str, *, ask: bool) -> None:
    """Die at a boundary, die in the recovery, and be whole in the third life."""
    (directory / "live").write_bytes(CONTENT)
    assert fork(directory, SigkillAt(point), ask=True) == KILLED, point
    check(directory)
    assert fork(directory, SigkillAt(again), ask=ask) == KILLED or (point, ask) == (POINTS[-1], False), again
    check(directory)
    assert fork(directory, NoCrash(), ask=ask) == 0
    check(directory)
    assert not (directory / "live").exists()
    names = sorted(path.name for path in directory.iterdir())
    assert names == ["jam.db", "kept", "ledger"], names


def die_everywhere(root: Path, point: str) -> None:
    """Die at one boundary, and at each of the recovery, by replay and by a client's retry in turn."""
    blank = root / "blank.db"
    assert fork_blank(blank) == 0
    recoveries = reached_after(point)
    for number, again in enumerate(recoveries):
        directory = root / f"{number}"
        directory.mkdir()
        shutil.copy(blank, directory / "jam.db")
        die_twice(directory, point, again, ask=bool(number % 2))
        shutil.rmtree(directory)
    print(len(recoveries), "recoveries of", point)


def reached_after(point: str) -> tuple[str, ...]:
    """Return the boundaries that a recovery from ``point`` passes: the beginning, and what the first life did not get to."""
    place = POINTS.index(point)
    acted_only = point.endswith(".acted")  # not recorded, so this boundary is passed again
    return (POINTS[0], *POINTS[max(1, place + 1 - acted_only) :])


def fork_blank(path: Path) -> int:
    """Make the schema once, in a child too."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            anyio.run(make_blank, path)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


async def make_blank(path: Path) -> None:
    """Make the schema."""
    async with open_store(path, files=Files(), clock=SystemClock(), daemon_id=DAEMON):
        pass


@pytest.mark.guarantee("WS-11", "WS-12", "START-2")
@pytest.mark.unprivileged
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_every_boundary_and_again_in_every_recovery(tmp_path: Path, point: str, lives: Lives) -> None:
    """Whichever two boundaries the two kills fall on: nothing is lost, nothing is done twice, and the third life ends the same."""
    said = tmp_path / "said"
    assert lives.run(die_everywhere, tmp_path, point, said=said) == 0, said.read_text()
    assert said.read_text().splitlines()[-1] == f"{len(reached_after(point))} recoveries of {point}"
