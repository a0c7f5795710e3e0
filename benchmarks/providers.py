"""What Jam adds to each provider: a turn and a resume beside the same program without Jam, and the memory of rooms on one host."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio import to_thread

from benchmarks.model import model_server
from benchmarks.plain import PlainProgram, nothing_left, plain_program
from benchmarks.processes import proportional_mib, sandbox_processes
from benchmarks.room import REST_S, MeasuredRoom, brought_back
from benchmarks.table import Laps, Row
from jamcore.control.client import JamClient
from jamcore.domain.cells import Placement, WorkspaceSource
from jamcore.domain.events import TextDelta
from jamcore.plugins.manager import ProviderManager
from jamcore.plugins.provider import ProviderHooks
from jamcore.testing.daemon import DaemonChild, place_toolchain, running_daemon
from jamcore.testing.rooms import managed
from jamcore.testing.scenario.rows import FILE, ProviderRow, rows_of
from jamcore.testing.scenario.world import settings_of
from jamcore.testing.toolchains import ToolchainUnavailableError, pinned_toolchain

WARM_UP = 3
ROOMS = (1, 2, 8)
"""On one host, each with a turn behind it."""
SETTLE_S = 3.0
"""After the last turn, before memory is read: programs go on working for a moment after they have answered."""
ROOT = Path(__file__).parents[1]
"""The workspace whose plugins are measured."""
PROVIDER_S = 3600.0
"""All of one provider's measurements; what they wait for has narrower bounds of its own."""


class NotMeasurableError(Exception):
    """A provider that was asked for by name cannot be measured here; the text says which."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One provider that is measured, with what its plugin's tests say of it (:mod:`jamcore.testing.scenario.rows`)."""

    row: ProviderRow
    hooks: ProviderHooks
    tools: Path

    @property
    def name(self) -> str:
        """Its name in the daemon."""
        return self.row.provider

    @property
    def placement(self) -> Placement:
        """Shared, where it can be."""
        cells = (cell for cell in self.hooks.description.cells if cell.workspace is WorkspaceSource.MANAGED)
        return max((cell.placement for cell in cells), key=lambda placement: placement is Placement.SHARED)

    async def daemon(self, root: Path) -> DaemonChild:
        """Return a daemon, not started, that has the provider and its program."""
        app = root / "app"
        await place_toolchain(app, self.name, tables=self.row.tables)
        return DaemonChild(app, environment=settings_of(self.row), private=root / "private")

    async def room(self, client: JamClient, url: str, placement: Placement = Placement.DEDICATED) -> MeasuredRoom:
        """Make a room."""
        view = await client.create_room(managed(self.name, url, model=self.row.model, placement=placement))
        return MeasuredRoom(client, str(view.room.id))


@dataclass(slots=True)
class Figures:
    """What was measured of one provider, pair by pair: with Jam, by its plugin alone, and at the program's pipes."""

    jam: Laps = field(default_factory=Laps)
    plugin: Laps = field(default_factory=Laps)
    program: Laps = field(default_factory=Laps)
    away: Laps = field(default_factory=Laps)
    program_away: Laps = field(default_factory=Laps)


@dataclass(frozen=True, slots=True)
class Memory:
    """Of so many idle rooms, all together, in MiB."""

    rooms: int
    jam: float
    provider: float


async def measure_providers(root: Path, *, only: Iterable[str], turns: int, kills: int, rooms: int) -> list[Row]:
    """Measure every installed provider that has a pinned program, one after the other.

    Args:
        root: An empty private directory.
        only: The providers to measure; none: all.
        turns: How many pairs of turns are counted.
        kills: How many times each side is killed.
        rooms: The most rooms of one host, for the memory.

    Raises:
        NotMeasurableError: A provider that was named cannot be measured.
    """
    rows: list[Row] = []
    for subject in await subjects(frozenset(only)):
        with anyio.fail_after(PROVIDER_S), nothing_left():
            place = root / subject.name
            place.mkdir(mode=0o700)
            began = time.monotonic()
            with model_server(place, subject.row.server) as url:
                rows += _rows(subject, await compared(subject, place / "pair", url, turns=turns, kills=kills))
                rows += [_memory_row(subject, one) for one in await _memory(subject, place / "rooms", url, rooms)]
            print(f"  {subject.name}: measured in {time.monotonic() - began:.0f} s", file=sys.stderr)
    return rows


async def subjects(only: frozenset[str] = frozenset()) -> list[Subject]:
    """Return what can be measured, and say what cannot.

    Raises:
        NotMeasurableError: A provider of ``only`` cannot be.
    """
    rows = {row.provider: row for row in await to_thread.run_sync(rows_of, ROOT) if not row.standin}
    manager = ProviderManager()
    await manager.load(tables={name: table for row in rows.values() for name, table in row.tables.items()})
    found: dict[str, Subject] = {}
    why: dict[str, str] = {
        report.name: f"its plugin is {report.state}: {'; '.join(report.violations)}" for report in manager.reports()
    }
    for name in manager.names():
        hooks = manager.provider(name)
        toolchain = hooks.description.toolchain
        if toolchain is None:
            why[name] = "it has no pinned program"
        elif name not in rows:
            why[name] = f"its plugin's tests have no row for it ({FILE})"
        elif not only or name in only:
            try:
                found[name] = Subject(rows[name], hooks, await to_thread.run_sync(pinned_toolchain, toolchain))
            except ToolchainUnavailableError as error:
                why[name] = str(error)
    for name in sorted((only or set(why)) - set(found)):
        print(f"  {name}: not measured: {why.get(name, 'no such provider is installed')}", file=sys.stderr)
    if missing := only - set(found):
        message = f"cannot be measured: {', '.join(sorted(missing))}"
        raise NotMeasurableError(message)
    return list(found.values())


def _rows(subject: Subject, figures: Figures) -> list[Row]:
    named = (
        ("one turn", figures.jam, figures.program),
        ("one turn, of that the plugin", figures.plugin, figures.program),
        ("killed to resumed", figures.away, figures.program_away),
    )
    return [
        Row(f"{subject.name}: {name}", laps.values, "the program alone", alone.values, paired=True)
        for name, laps, alone in named
        if laps.values
    ]


def _memory_row(subject: Subject, memory: Memory) -> Row:
    rooms = "1 room" if memory.rooms == 1 else f"{memory.rooms} rooms"
    where = "on a shared host" if subject.placement is Placement.SHARED else "each on a host of its own"
    each = [memory.jam / memory.rooms], [memory.provider / memory.rooms]
    return Row(f"{subject.name}: {rooms} {where}: Jam's memory, each", each[0], "the provider's", each[1], unit="MiB")


# ------------------------------------------------------------------------------------------------------- turns and resumes


@asynccontextmanager
async def _both(subject: Subject, root: Path, url: str) -> AsyncIterator[tuple[DaemonChild, MeasuredRoom, PlainProgram]]:
    daemon = await subject.daemon(root)
    async with (
        plain_program(subject.hooks, subject.tools, root / "plain", url, subject.row.model) as program,
        running_daemon(daemon) as client,
    ):
        yield daemon, await subject.room(client, url), program


async def compared(subject: Subject, root: Path, url: str, *, turns: int, kills: int = 0, warm_up: int = WARM_UP) -> Figures:
    """Alternate turns, the one side first and then the other; then kill both again and again.

    Args:
        subject: Whose program it is.
        root: A directory that does not exist yet.
        url: Where the model is.
        turns: How many pairs of turns are counted.
        kills: How many times each side is killed.
        warm_up: How many pairs come before those that are counted.
    """
    figures = Figures()
    async with _both(subject, root, url) as (daemon, room, program):
        await program.start()
        async with aclosing(await room.attached()) as events:
            for number in range(turns + warm_up):
                taken = figures if number >= warm_up else Figures()
                for side in ("jam", "plain") if number % 2 else ("plain", "jam"):
                    await anyio.sleep(REST_S)
                    if side == "jam":
                        began = time.perf_counter()
                        taken.jam.add(began, await room.say(events, number, "turn.ended"))
                    else:
                        times = await program.turn(number)
                        taken.plugin.add(times.asked, times.told)
                        taken.program.add(times.written, times.read)
        for number in range(turns + warm_up, turns + warm_up + kills):
            began = time.perf_counter()
            await brought_back(daemon, room)
            async with aclosing(await room.attached()) as events:
                figures.away.add(began, await room.say(events, number, "text.delta"))
            await anyio.sleep(REST_S)
            began = time.perf_counter()
            await program.kill()
            await program.start()
            figures.program_away.add(began, (await program.turn(number, TextDelta)).told)
            await anyio.sleep(REST_S)
    return figures


# ----------------------------------------------------------------------------------------------------------------- memory


async def _memory(subject: Subject, root: Path, url: str, most: int) -> list[Memory]:
    """Make rooms one after the other, each with a turn, and look at what runs when there are so many."""
    daemon, found = await subject.daemon(root), []
    async with running_daemon(daemon) as client:
        for count in range(1, most + 1):
            room = await subject.room(client, url, subject.placement)
            async with aclosing(await room.attached()) as events:
                await room.say(events, count, "turn.ended")
            if count in ROOMS:
                await anyio.sleep(SETTLE_S)
                jam, programs = await to_thread.run_sync(sandbox_processes, daemon.pid)
                found.append(Memory(count, proportional_mib(jam), proportional_mib(programs)))
    return found
