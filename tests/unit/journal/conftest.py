"""A sample action over a world in memory, journaled in a real store; each life of the daemon opens the store anew."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import anyio
import pytest

from jamcore.domain.operations import OnRestart, Operation
from jamcore.domain.records import Record
from jamcore.journal.declaration import Declaration
from jamcore.journal.points import CrashPoints, NoCrash
from jamcore.journal.runner import Runner
from jamcore.journal.steps import Action, Observed, Step
from jamcore.store import StoreJournal, open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files

DAEMON = UUID(int=1)
DECLARED = Declaration(title="sample", evidence="a world in memory", replay="a step of the start")
"""Enough to be registered, for a kind that takes nothing away."""


class Move(Record):
    """Intent of the sample: move something, and pay for it exactly once."""

    what: str
    target: str = ""
    receipt: str = ""


@dataclass
class World:
    """What the sample action changes. ``paid`` cannot be undone or repeated harmlessly; the rest can."""

    present: set[str] = field(default_factory=lambda: {"thing"})
    copies: set[str] = field(default_factory=set)
    paid: list[str] = field(default_factory=list)
    fails: dict[str, Exception] = field(default_factory=dict)
    acts: list[str] = field(default_factory=list)

    def action(self) -> Action[Move]:
        """Return the sample: copy (may be repeated), pay (must be asked for first), remove (may be repeated)."""

        async def copy(record: Move) -> Move:
            self._act("copy")
            self.copies.add(record.target)
            return record

        async def pay(record: Move) -> Move:
            self._act("pay")
            self.paid.append(record.what)
            return record.model_copy(update={"receipt": f"paid {record.what}"})

        async def paid(record: Move) -> Observed[Move]:
            done = record.what in self.paid
            return Observed(done, record.model_copy(update={"receipt": f"paid {record.what}"}) if done else record)

        async def remove(record: Move) -> Move:
            self._act("remove")
            self.present.discard(record.what)
            return record

        return Action(
            "move",
            Move,
            [
                Step(
                    "copy",
                    copy,
                    OnRestart.REPLAY,
                    intend=lambda record: record.model_copy(update={"target": f"{record.what}.copy"}),
                ),
                Step("pay", pay, OnRestart.OBSERVE_THEN_FINISH, observe=paid),
                Step("remove", remove, OnRestart.REPLAY),
            ],
            declares=DECLARED,
        )

    def _act(self, step: str) -> None:
        self.acts.append(step)
        if step in self.fails:
            raise self.fails[step]

    def check(self) -> None:
        """What holds at every moment: nothing is removed before it is copied and paid for, and nothing is paid for twice."""
        assert len(self.paid) <= 1
        if "thing" not in self.present:
            assert self.copies == {"thing.copy"}
            assert self.paid == ["thing"]


FINISHED = Move(what="thing", target="thing.copy", receipt="paid thing")


@dataclass(frozen=True)
class Life:
    """One life of a daemon: its journal and its runner."""

    journal: StoreJournal
    runner: Runner
    path: Path

    async def failures(self, identifier: UUID) -> tuple[tuple[str, str], ...]:
        """Return what was noted of failed attempts."""
        return await self.journal._store.read(lambda repos: repos.operations.failures(identifier))

    async def operation(self, identifier: UUID) -> Operation:
        """Return the row."""
        return await self.journal._store.read(lambda repos: repos.operations.get(identifier))


@asynccontextmanager
async def living(path: Path, crash: CrashPoints | None = None) -> AsyncIterator[Life]:
    """Live once: the store is opened and closed."""
    async with open_store(path, files=Files(), clock=SystemClock(), daemon_id=DAEMON) as store:
        journal = StoreJournal(store)
        yield Life(journal, Runner(journal, crash or NoCrash()), path)


class Lives:
    """The lives of one daemon on one database."""

    finished = FINISHED
    begin = Move(what="thing")
    identifier = UUID(int=42)

    def __init__(self, directory: Path, blank: Path) -> None:
        self.path = Path(shutil.copy(blank, directory))
        self._blank = blank
        self.world = World()

    def another(self, directory: Path) -> Lives:
        """Return another daemon with its own world, in another directory."""
        directory.mkdir(exist_ok=True)
        return Lives(directory, self._blank)

    def live(self, crash: CrashPoints | None = None) -> AbstractAsyncContextManager[Life]:
        """Begin the next life."""
        return living(self.path, crash)


@pytest.fixture(scope="session")
def blank_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database without rows: the schema is made once and copied."""
    path = tmp_path_factory.mktemp("blank") / "jam.db"

    async def prepare() -> None:
        async with living(path):
            pass

    anyio.run(prepare)
    return path


@pytest.fixture
def lives(tmp_path: Path, blank_database: Path) -> Lives:
    """One daemon."""
    return Lives(tmp_path, blank_database)
