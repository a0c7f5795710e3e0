"""What Jam adds to a turn, and how long a room is away when its daemon dies: each beside the same program spoken to directly."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio import to_thread

from benchmarks.direct import DirectCodex, direct_codex
from benchmarks.model import ANSWER, model_server
from benchmarks.room import REST_S, MeasuredRoom, brought_back, said
from benchmarks.table import Laps, Row
from jamcore.domain import layout
from jamcore.testing.daemon import DaemonChild, place_toolchain, running_daemon
from jamcore.testing.rooms import managed

PROVIDER = "codex"
WARM_UP = 3
FLOOD = 100_000
FIRST_DELTA = "item/agentMessage/delta"


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides, each with a thread open."""

    daemon: DaemonChild
    jam: MeasuredRoom
    direct: DirectCodex


async def measure_turns(root: Path, *, turns: int, kills: int) -> list[Row]:
    """Alternate turns through Jam and directly, then kill both again and again.

    Args:
        root: An empty private directory.
        turns: How many turns on each side are counted.
        kills: How many kills on each side.
    """
    async with both(root) as sides:
        mine, raw = await _alternate(sides, turns)
        away, raw_away = await _kill(sides, kills, first=turns + WARM_UP)
    return [
        Row("one turn: say to turn.ended at the client", mine.values, "the same, no Jam", raw.values, added=True, aim="+15 ms"),
        Row("daemon dead to the first delta of a resumed turn", away.values, "program dead, the same", raw_away.values, added=True),
    ]


async def measure_stream(root: Path, *, floods: int) -> list[Row]:
    """Alternate a turn of a hundred thousand deltas through Jam, stored and read to its end by one client, with the same directly.

    Args:
        root: An empty private directory.
        floods: How many such turns on each side.
    """
    async with both(root, tuple(f"{number:06d} " for number in range(FLOOD))) as sides:
        mine, raw = await _alternate(sides, floods, warm_up=0)
    return [Row(f"a turn of {FLOOD:,} deltas: say to turn.ended", mine.values, "the same, no Jam", raw.values)]


@asynccontextmanager
async def both(root: Path, deltas: tuple[str, ...] = ANSWER) -> AsyncIterator[Sides]:
    """Start model server, daemon with a room, and the program by itself."""
    app = root / "app"
    await place_toolchain(app, PROVIDER)
    program = next((app / layout.TOOLCHAINS / PROVIDER).glob("*/**/bin/codex"))
    daemon = DaemonChild(app, private=root / "private")
    with model_server(root, deltas) as url, direct_codex(program.parents[1], root / "direct", url) as direct:
        async with running_daemon(daemon) as client:
            view = await client.create_room(managed(PROVIDER, url))
            await to_thread.run_sync(direct.start)
            await to_thread.run_sync(direct.open)
            yield Sides(daemon, MeasuredRoom(client, str(view.room.id)), direct)


async def _alternate(sides: Sides, turns: int, warm_up: int = WARM_UP) -> tuple[Laps, Laps]:
    mine, raw = Laps(), Laps()
    async with aclosing(await sides.jam.attached()) as events:
        for number in range(turns + warm_up):
            await anyio.sleep(REST_S)
            began = time.perf_counter()
            ended = await sides.jam.say(events, number, "turn.ended")
            if number >= warm_up:
                mine.add(began, ended)
            await anyio.sleep(REST_S)
            began = time.perf_counter()
            ended = sides.direct.turn(said(number))
            if number >= warm_up:
                raw.add(began, ended)
    return mine, raw


async def _kill(sides: Sides, kills: int, *, first: int) -> tuple[Laps, Laps]:
    away, raw = Laps(), Laps()
    for number in range(first, first + kills):
        began = time.perf_counter()
        await brought_back(sides.daemon, sides.jam)
        async with aclosing(await sides.jam.attached()) as events:
            away.add(began, await sides.jam.say(events, number, "text.delta"))
        began = time.perf_counter()
        sides.direct.kill()
        sides.direct.start()
        sides.direct.resume()
        raw.add(began, sides.direct.turn(said(number), FIRST_DELTA))
    return away, raw
