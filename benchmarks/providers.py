"""What Jam adds to each provider: a turn and a resume beside the same program without Jam, and the memory of rooms on one host."""

from __future__ import annotations

import sys
import time
import tomllib
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

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
from jamcore.testing.toolchains import ToolchainUnavailableError, pinned_toolchain

WARM_UP = 3
ROOMS = (1, 2, 8)
"""On one host, each with a turn behind it."""
SETTLE_S = 3.0
"""After the last turn, before memory is read: programs go on working for a moment after they have answered."""
PROVIDER_S = 3600.0
"""All of one provider's measurements; what they wait for has narrower bounds of its own."""


class NotMeasurableError(Exception):
    """A provider that was asked for by name cannot be measured here; the text says which."""


@dataclass(frozen=True, slots=True)
class Peculiar:
    """What is peculiar to one provider here.

    Attributes:
        api: The model server that its program speaks to, by its name in :data:`jamcore.testing.servers.apis.SERVERS`.
        model: What both sides ask for; absent: the provider's own default.
    """

    api: str
    model: str | None = None


PECULIAR: Mapping[str, Peculiar] = MappingProxyType(
    {
        "codex": Peculiar("responses"),
        "claude_code": Peculiar("messages"),
        "copilot": Peculiar("responses", "mock-model"),
        "opencode": Peculiar("chat", "mock-model"),
        "codex_acp": Peculiar("responses"),
    }
)
CONFIGURATION = Path(__file__).parents[1] / "plugins" / "acp" / "examples" / "codex-acp.toml"
"""One more provider, which no code was written for."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One provider that is measured."""

    name: str
    hooks: ProviderHooks
    tools: Path

    @property
    def peculiar(self) -> Peculiar:
        """What is peculiar to it."""
        return PECULIAR[self.name]

    @property
    def placement(self) -> Placement:
        """Shared, where it can be."""
        cells = (cell for cell in self.hooks.description.cells if cell.workspace is WorkspaceSource.MANAGED)
        return max((cell.placement for cell in cells), key=lambda placement: placement is Placement.SHARED)

    async def daemon(self, root: Path) -> DaemonChild:
        """Return a daemon, not started, that has the provider and its program."""
        app, tables = root / "app", _tables()
        await place_toolchain(app, self.name, tables=tables)
        if self.name in tables:
            (app / "config.toml").write_text(CONFIGURATION.read_text())
        return DaemonChild(app, private=root / "private")

    async def room(self, client: JamClient, url: str, placement: Placement = Placement.DEDICATED) -> MeasuredRoom:
        """Make a room."""
        view = await client.create_room(managed(self.name, url, model=self.peculiar.model, placement=placement))
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
            with model_server(place, api=subject.peculiar.api) as url:
                rows += _rows(subject, await _compared(subject, place / "pair", url, turns, kills))
                rows += [_memory_row(subject, one) for one in await _memory(subject, place / "rooms", url, rooms)]
            print(f"  {subject.name}: measured in {time.monotonic() - began:.0f} s", file=sys.stderr)
    return rows


async def subjects(only: frozenset[str] = frozenset()) -> list[Subject]:
    """Return what can be measured, and say what cannot.

    Raises:
        NotMeasurableError: A provider of ``only`` cannot be.
    """
    manager = ProviderManager()
    await manager.load(tables=_tables())
    found: dict[str, Subject] = {}
    why: dict[str, str] = {
        report.name: f"its plugin is {report.state}: {'; '.join(report.violations)}" for report in manager.reports()
    }
    for name in manager.names():
        hooks = manager.provider(name)
        toolchain = hooks.description.toolchain
        if toolchain is None:
            why[name] = "it has no pinned program"
        elif name not in PECULIAR:
            why[name] = "the bench's table does not name it"
        elif not only or name in only:
            try:
                found[name] = Subject(name, hooks, await to_thread.run_sync(pinned_toolchain, toolchain))
            except ToolchainUnavailableError as error:
                why[name] = str(error)
    for name in sorted((only or set(why)) - set(found)):
        print(f"  {name}: not measured: {why.get(name, 'no such provider is installed')}", file=sys.stderr)
    if missing := only - set(found):
        message = f"cannot be measured: {', '.join(sorted(missing))}"
        raise NotMeasurableError(message)
    return list(found.values())


def _tables() -> Mapping[str, Mapping[str, object]]:
    tables: Mapping[str, Mapping[str, object]] = tomllib.loads(CONFIGURATION.read_text())["providers"]
    return tables


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
        plain_program(subject.hooks, subject.tools, root / "plain", url, subject.peculiar.model) as program,
        running_daemon(daemon) as client,
    ):
        yield daemon, await subject.room(client, url), program


async def _compared(subject: Subject, root: Path, url: str, turns: int, kills: int) -> Figures:
    """Alternate turns, the one side first and then the other; then kill both again and again."""
    figures = Figures()
    async with _both(subject, root, url) as (daemon, room, program):
        await program.start()
        async with aclosing(await room.attached()) as events:
            for number in range(turns + WARM_UP):
                taken = figures if number >= WARM_UP else Figures()
                for side in ("jam", "plain") if number % 2 else ("plain", "jam"):
                    await anyio.sleep(REST_S)
                    if side == "jam":
                        began = time.perf_counter()
                        taken.jam.add(began, await room.say(events, number, "turn.ended"))
                    else:
                        times = await program.turn(number)
                        taken.plugin.add(times.asked, times.told)
                        taken.program.add(times.written, times.read)
        for number in range(turns + WARM_UP, turns + WARM_UP + kills):
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
