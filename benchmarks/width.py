"""Many rooms at once: until all are idle, what one costs while it is idle, and a turn while all speak; beside as many bare programs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread

from benchmarks.model import model_server
from benchmarks.plain import PlainProgram, nothing_left, plain_program
from benchmarks.processes import processor_s, proportional_mib, sandbox_processes
from benchmarks.providers import Subject, subjects
from benchmarks.room import REST_S, MeasuredRoom
from benchmarks.table import Laps, Row
from benchmarks.turns import PROVIDER
from jamcore.domain.cells import Placement
from jamcore.domain.events import RoomEvent
from jamcore.testing.daemon import running_daemon
from jamcore.testing.rooms import managed

WIDTHS = (1, 4, 16)
SETTLE_S = 3.0
"""After rooms were made: programs go on working for a moment after they have answered."""


@dataclass(slots=True)
class Figures:
    """What was measured of so many rooms, or of so many programs without Jam."""

    up: Laps = field(default_factory=Laps)
    turns: Laps = field(default_factory=Laps)
    mine_mib: float = 0.0
    provider_mib: float = 0.0
    daemon_before_mib: float = 0.0
    daemon_mib: float = 0.0
    percent_before: float = 0.0
    percent: float = 0.0


async def measure_width(root: Path, *, rounds: int, idle_s: float) -> list[Row]:
    """Measure each number of rooms, each in a sandbox of its own and all in one, and as many programs by themselves.

    Args:
        root: An empty private directory.
        rounds: How often all speak at once.
        idle_s: For how long they are left alone.
    """
    rows: list[Row] = []
    [subject] = await subjects(frozenset({PROVIDER}))
    with nothing_left(), model_server(root, subject.row.server) as url:
        for count in WIDTHS:
            for placement in (Placement.DEDICATED, Placement.SHARED):
                own = root / f"{placement}-{count}"
                mine = await _rooms(subject, own, url, count, placement, rounds=rounds, idle_s=idle_s)
                raw = await _programs(subject, own, url, count, rounds=rounds)
                rows += _rows(count, placement, mine, raw)
    return rows


def _rows(count: int, placement: Placement, mine: Figures, raw: Figures) -> list[Row]:
    rooms = f"{count} room{'s' if count > 1 else ''}, {placement}"
    bare = f"{count} program{'s' if count > 1 else ''}, no Jam"
    small = "< 15 MiB" if placement is Placement.DEDICATED else ""
    return [
        Row(f"{rooms}: made to all idle", mine.up.values, bare, raw.up.values),
        Row(f"{rooms}: a turn, all at once", mine.turns.values, bare, raw.turns.values, added=True),
        Row(f"{rooms}: Jam's memory, each", [mine.mine_mib], "the provider's", [mine.provider_mib], aim=small, unit="MiB"),
        Row(f"{rooms}: the daemon's memory", [mine.daemon_mib], "without a room", [mine.daemon_before_mib], added=True, unit="MiB"),
        Row(f"{rooms}: idle daemon", [mine.percent], "without a room", [mine.percent_before], added=True, aim="< 1 %", unit="%"),
    ]


# ---------------------------------------------------------------------------------------------------------------- with Jam


async def _rooms(
    subject: Subject, root: Path, url: str, count: int, placement: Placement, *, rounds: int, idle_s: float
) -> Figures:
    found, daemon = Figures(), await subject.daemon(root)
    async with running_daemon(daemon) as client:
        await anyio.sleep(SETTLE_S)
        found.percent_before = await _processor_percent(daemon.pid, idle_s)
        found.daemon_before_mib = proportional_mib([daemon.pid])
        began = time.perf_counter()
        requests = [managed(subject.name, url, model=subject.row.model, placement=placement) for _ in range(count)]
        async with anyio.create_task_group() as tasks:
            for request in requests:
                tasks.start_soon(client.create_room, request)
        found.up.add(began)
        await anyio.sleep(SETTLE_S)
        own, programs = await to_thread.run_sync(sandbox_processes, daemon.pid)
        found.mine_mib, found.provider_mib = proportional_mib(own) / count, proportional_mib(programs) / count
        found.daemon_mib = proportional_mib([daemon.pid])
        found.percent = await _processor_percent(daemon.pid, idle_s)
        await _all_speak([MeasuredRoom(client, str(request.id)) for request in requests], found.turns, rounds)
    return found


async def _processor_percent(pid: int, seconds: float) -> float:
    began, before = time.perf_counter(), processor_s([pid])
    await anyio.sleep(seconds)
    return (processor_s([pid]) - before) / (time.perf_counter() - began) * 100


async def _all_speak(rooms: Sequence[MeasuredRoom], laps: Laps, rounds: int) -> None:
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(aclosing(await room.attached())) for room in rooms]
        for number in range(rounds + 1):
            await anyio.sleep(REST_S)
            took = laps if number else Laps()  # the first turn of a thread is another thing
            async with anyio.create_task_group() as tasks:
                for room, events in zip(rooms, streams, strict=True):
                    tasks.start_soon(_speak, room, events, number, took)


async def _speak(room: MeasuredRoom, events: AsyncIterator[RoomEvent], number: int, laps: Laps) -> None:
    """Take a turn, and read on until it is safe: the next one waits for that."""
    began = time.perf_counter()
    laps.add(began, await room.say(events, number, "turn.ended"))


# ------------------------------------------------------------------------------------------------------------- without it


async def _programs(subject: Subject, root: Path, url: str, count: int, *, rounds: int) -> Figures:
    found, together, began = Figures(), asyncio.Barrier(count), time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for number in range(count):
            plain = partial(plain_program, subject.hooks, subject.tools, root / f"plain-{number}", url, subject.row.model)
            tasks.start_soon(_program, plain, together, began, found, rounds)
    return found


async def _program(
    plain: Callable[[], AbstractAsyncContextManager[PlainProgram]],
    together: asyncio.Barrier,
    began: float,
    found: Figures,
    rounds: int,
) -> None:
    """Have one program from its start to its end in a task of its own, in step with the others."""
    async with plain() as program:
        await program.start()
        if not await together.wait():  # one of them tells when the last one was up
            found.up.add(began)
        await anyio.sleep(SETTLE_S)
        for number in range(rounds + 1):
            await together.wait()
            await anyio.sleep(REST_S)
            took = found.turns if number else Laps()
            times = await program.turn(number)
            took.add(times.written, times.read)
        await together.wait()  # so that the end of one is not in the turn of another
