"""What a checkpoint costs beside other ways of copying a directory, and whether it costs the same after a thousand turns.

The real broker over the real store and real files, synced as always. Jam's bytes are those of this process in
``/proc/self/io``: pack, ``complete.json`` and the database's log. What was measured is restored and compared, each time.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from anyio import to_thread

from benchmarks.backups import Cost, backups, emptied, written_by
from benchmarks.home import DATABASE, HELPER_KEEPS, Change, Home, first_difference
from benchmarks.table import Laps, Row
from jamcore.continuity.capturing.broker import CheckpointBroker
from jamcore.continuity.coordinator import Coordinators, ExclusivePermit, HostCoordinator
from jamcore.continuity.generations.publish import Generations
from jamcore.continuity.resuming.activate import Activator, Placement
from jamcore.continuity.resuming.databases import DatabaseActivator
from jamcore.domain import layout
from jamcore.domain.cells import SHARED_CELL
from jamcore.domain.continuity import ActivationDecision, ActivationPlan, CaptureEntry, CaptureKind, CaptureList, CheckpointReason
from jamcore.domain.sessions import Agent, HostState, Room, RuntimeHost, RuntimeSession, SessionState
from jamcore.journal.points import NoCrash
from jamcore.store import Store, open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds
from jamcore.testing.databases import host_databases

VERSION = "1.0.0"
CAPTURES = CaptureList(
    entries=(
        CaptureEntry(pattern="home/tmp/**", kind=CaptureKind.NEVER),
        CaptureEntry(pattern="home/sessions/**/*.jsonl", kind=CaptureKind.APPEND_ONLY),
        CaptureEntry(pattern="home/**", kind=CaptureKind.WHOLE),
    ),
)
WITH_DATABASE = CaptureList(
    entries=(
        CaptureEntry(pattern=f"home/{DATABASE}*", kind=CaptureKind.NEVER),
        CaptureEntry(pattern=f"home/{HELPER_KEEPS}/**", kind=CaptureKind.NEVER),
        CaptureEntry(pattern=DATABASE, kind=CaptureKind.DATABASE),
        *CAPTURES.entries,
    ),
)
"""The home is the guest's home as well here, so that every program copies the database with it."""
PLAN = ActivationPlan(check=("home/sessions/**/*.jsonl",))
OLD_S = 2.5
"""A file younger than two seconds is read again at the next checkpoint: a home that was just made is left to age."""
MARKS = (10, 100, 1000)
AROUND = 9
"""Turns that are counted up to each of the marks."""
TIME_AIMS = {"cp -a": "a tenth", "restic": "less", "borg": "less"}


class TimedCoordinator(HostCoordinator):
    """Notes for how long the host was held alone."""

    def __init__(self, host_id: UUID, name: str = "") -> None:
        super().__init__(host_id, name)
        self.held_ms = 0.0

    @asynccontextmanager
    async def exclusive(self, holder: str, bound_s: float) -> AsyncIterator[ExclusivePermit]:
        """See :meth:`HostCoordinator.exclusive`."""
        async with super().exclusive(holder, bound_s) as permit:
            began = time.perf_counter()
            yield permit
            self.held_ms = (time.perf_counter() - began) * 1000


class TimedCoordinators(Coordinators):
    """Hands out timed coordinators."""

    def __init__(self) -> None:
        super().__init__()
        self._timed: dict[UUID, TimedCoordinator] = {}

    def for_host(self, host_id: UUID, name: str = "") -> TimedCoordinator:
        """See :meth:`Coordinators.for_host`."""
        return self._timed.setdefault(host_id, TimedCoordinator(host_id, name))


@dataclass(slots=True)
class Figures:
    """What was measured of one change, on one side."""

    took: Laps = field(default_factory=Laps)
    held: Laps = field(default_factory=Laps)
    written: list[float] = field(default_factory=list)
    restored: Laps = field(default_factory=Laps)
    missed: int = 0

    def saved(self, cost: Cost) -> None:
        """Take what a copy cost."""
        self.took.values.append(cost.ms)
        self.written.append(cost.bytes_written / 1024)


class Jam:
    """One host with its provider state, composed as a daemon composes it."""

    def __init__(self, app: Path, store: Store, host: RuntimeHost, session: RuntimeSession) -> None:
        self._app = app
        self._store = store
        self._host = host
        self._session = session
        self.state = app / layout.provider_state(host.id, host.provider)
        self.home = self.state / "home"
        self.captures = CAPTURES
        self.restart()

    def restart(self) -> None:
        """Compose everything anew, as a new daemon does: no index of packs is in memory."""
        clock, ids, crash = SystemClock(), SystemIds(), NoCrash()
        self._coordinators = TimedCoordinators()
        self._generations = generations = Generations(self._app, Files())
        self._broker = CheckpointBroker(
            generations, store=self._store, coordinators=self._coordinators, clock=clock, ids=ids, crash=crash
        )
        self._activator = Activator(
            generations,
            broker=self._broker,
            store=self._store,
            coordinators=self._coordinators,
            clock=clock,
            ids=ids,
            crash=crash,
        )

    async def save(self) -> tuple[Cost, float]:
        """Make a generation; return its cost and for how many milliseconds the host was held."""
        os.sync()
        written, began = written_by(), time.perf_counter()
        await self._broker.capture(
            self._host,
            reason=CheckpointReason.AFTER_TURN,
            state_root=self.state,
            capture_list=self.captures,
            provider_version=VERSION,
            databases=host_databases(self.home),
        )
        took = (time.perf_counter() - began) * 1000
        return Cost(took, written_by() - written), self._coordinators.for_host(self._host.id).held_ms

    async def restore(self, target: Path) -> float:
        """Restore the newest generation where there is no live state, as after a disaster, and move it to ``target``."""
        away = self.state.with_name("away")
        self.home.rename(away)
        os.sync()
        began = time.perf_counter()
        decision = await self._activator.inspect(
            self._session, self._host, accepts_version=lambda captured, now: captured == now, current_version=VERSION
        )
        placement = await self._place(decision)
        if self.captures is WITH_DATABASE and decision.evidence.checkpoint_id:
            await DatabaseActivator(self._generations, coordinators=self._coordinators, ids=SystemIds()).place(
                placement,
                host=self._host.id,
                checkpoint=decision.evidence.checkpoint_id,
                guest=host_databases(self.home),
                captures=self.captures,
                restore_files=lambda why: self._place(decision, why),
            )
        took = (time.perf_counter() - began) * 1000
        self.home.rename(target)
        away.rename(self.home)
        return took

    async def _place(self, decision: ActivationDecision, why_not_live: str = "") -> Placement:
        return await self._activator.place(
            decision,
            self._session,
            state_root=self.state,
            scratch_root=None,
            capture_list=self.captures,
            activation_plan=PLAN,
            why_not_live=why_not_live,
        )


@asynccontextmanager
async def jam(root: Path) -> AsyncIterator[Jam]:
    """Open a store with one host and one session."""
    ids, clock = SystemIds(), SystemClock()
    daemon_id = ids.uuid()
    root.mkdir(mode=0o700)
    agent = Agent(id=ids.uuid(), name="agent", provider="bench", created_at=clock.now())
    host = RuntimeHost(
        id=ids.uuid(),
        agent_id=agent.id,
        provider=agent.provider,
        engine="none",
        cell=SHARED_CELL,
        sandbox="jam-1",
        plan_json="{}",
        state=HostState.ACTIVE,
        daemon_id=daemon_id,
        fence_epoch=1,
        created_at=clock.now(),
    )
    session = RuntimeSession(
        id=ids.uuid(),
        host_id=host.id,
        agent_id=agent.id,
        state=SessionState.LIVE,
        provider_identity="thread-1",
        model=None,
        created_at=clock.now(),
    )
    room = Room(id=ids.uuid(), name="room", agent_id=agent.id, created_at=clock.now())
    async with open_store(root / "jam.db", files=Files(), clock=clock, daemon_id=daemon_id) as store:
        await store.transact(
            lambda repos: (
                repos.agents.insert(agent),
                repos.hosts.insert(host),
                repos.rooms.insert(room),
                repos.sessions.insert(session),
            )
        )
        side = Jam(root, store, host, session)
        side.home.mkdir(parents=True)
        yield side


async def measure_continuity(root: Path, *, rounds: int) -> list[Row]:
    """Copy the same home by Jam and by each program after each change, restore each copy, and compare it with the home.

    Args:
        root: An empty private directory, on a disk: a file system in memory counts no bytes.
        rounds: How often each change is made.
    """
    async with jam(root / "app") as side:
        home = Home(side.home)
        home.make()
        time.sleep(OLD_S)  # noqa: ASYNC251 - nothing else runs
        bench = _Bench(root, side)
        rows = await bench.first()
        for change in home.changes():
            rows += await bench.change(change, rounds)
        change = home.with_database()
        side.captures = WITH_DATABASE
        await bench.first()
        rows += await bench.change(change, rounds)
        return [*rows, *bench.restores()]


class _Bench:
    """Jam and the programs, over one home."""

    def __init__(self, root: Path, side: Jam) -> None:
        self._side = side
        self._root = root
        self._count = 0
        self._programs, self._missing = backups(root)
        self._restored: dict[str, Laps] = {name: Laps() for name in ("Jam", *(program.name for program in self._programs))}

    async def first(self) -> list[Row]:
        """Copy for the first time."""
        figures = await self._round({name: Figures() for name in self._restored})
        return self._rows("the first copy", figures, aims={})

    async def change(self, change: Change, rounds: int) -> list[Row]:
        """Make one change again and again, and copy by each after it."""
        figures = {name: Figures() for name in self._restored}
        for _ in range(rounds):
            change.make()
            figures = await self._round(figures)
        return self._rows(change.name, figures, aims={**TIME_AIMS, "written": f"{change.aim_bytes / 1024:.0f} KiB"})

    def restores(self) -> list[Row]:
        """Return what it took to restore."""
        mine = self._restored["Jam"].values
        return [
            Row("the whole home restored", mine, name, laps.values, aim="2 x cp -a" if name == "cp -a" else "")
            for name, laps in self._restored.items()
            if name != "Jam"
        ]

    async def _round(self, figures: dict[str, Figures]) -> dict[str, Figures]:
        cost, held = await self._side.save()
        figures["Jam"].saved(cost)
        figures["Jam"].held.values.append(held)
        target = self._target()
        self._restored["Jam"].values.append(await self._side.restore(target))
        self._compare("Jam", target, figures)
        for program in self._programs:
            figures[program.name].saved(await to_thread.run_sync(program.save, self._side.home))
            target = self._target()
            self._restored[program.name].values.append((await to_thread.run_sync(program.restore, target)).ms)
            self._compare(program.name, target, figures)
        return figures

    def _target(self) -> Path:
        self._count += 1
        return self._root / f"restored-{self._count}"

    def _compare(self, name: str, target: Path, figures: dict[str, Figures]) -> None:
        differs = first_difference(self._side.home, target)
        emptied(target)
        if differs is not None and name == "Jam":
            raise RuntimeError(f"what Jam restored is not what was captured: {differs}")
        figures[name].missed += differs is not None

    def _rows(self, what: str, figures: dict[str, Figures], *, aims: dict[str, str]) -> list[Row]:
        mine = figures["Jam"]
        rows = [Row(f"{what}: the host held", mine.held.values, aim="100 ms" if aims else "")]
        for program in self._programs:
            theirs = figures[program.name]
            name = program.name + (f", WRONG in {theirs.missed}" if theirs.missed else "")
            rows += [
                Row(what, mine.took.values, name, theirs.took.values, aim=aims.get(program.name, "")),
                Row(f"{what}: written", mine.written, name, theirs.written, unit="KiB", aim=aims.get("written", "")),
            ]
        return rows + [Row(what, mine.took.values, f"{name}: not installed") for name in self._missing]


async def measure_thread(root: Path) -> list[Row]:
    """Make a checkpoint after each of a thousand turns of one thread; at the marks, also by a daemon that has just started.

    Args:
        root: An empty private directory, on a disk.
    """
    took: dict[int, Laps] = {mark: Laps() for mark in MARKS}
    written: dict[int, list[float]] = {mark: [] for mark in MARKS}
    fresh: dict[int, Laps] = {mark: Laps() for mark in MARKS}
    async with jam(root / "app") as side:
        home = Home(side.home)
        turn = home.thread()
        for number in range(1, max(MARKS) + 1):
            turn()
            mark = next(mark for mark in MARKS if number <= mark)
            if number == mark:
                side.restart()
                fresh[mark].values.append((await side.save())[0].ms)
            elif number >= mark - AROUND:
                cost, _ = await side.save()
                took[mark].values.append(cost.ms)
                written[mark].append(cost.bytes_written / 1024)
            else:
                await side.save()
    first = f"turn {MARKS[0]}"
    rows: list[Row] = []
    for mark in MARKS:
        rows += [
            Row(f"a checkpoint at turn {mark}", took[mark].values, first, took[MARKS[0]].values, aim="1 x"),
            Row(f"a checkpoint at turn {mark}: written", written[mark], first, written[MARKS[0]], unit="KiB"),
            Row(f"a checkpoint at turn {mark}, the daemon's first", fresh[mark].values, first, fresh[MARKS[0]].values),
        ]
    return rows
