"""What Jam costs, all in one run, each figure beside the same thing without Jam: ``python -m benchmarks``.

Nothing here is asserted: the figures are read by people, on a machine that they know.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

import anyio

from benchmarks.commands import measure_commands
from benchmarks.continuity import measure_continuity, measure_thread
from benchmarks.exports import measure_exports
from benchmarks.providers import ROOMS, NotMeasurableError, measure_providers
from benchmarks.sandbox import measure_sandbox
from benchmarks.store import measure_start, measure_transitions
from benchmarks.table import Row, render
from benchmarks.turns import measure_stream, measure_turns
from benchmarks.width import measure_width
from jamcore.plugins.families import FAMILIES
from jamcore.plugins.manager import PROVIDERS
from jamcore.system.distributions import installed

Measure = Callable[[Path, argparse.Namespace], Awaitable[list[Row]]]
PARTS: Mapping[str, Measure] = MappingProxyType(
    {
        "sandbox": lambda root, asked: measure_sandbox(root, rounds=asked.rounds, created=max(5, asked.rounds // 3)),
        "turns": lambda root, asked: measure_turns(root, turns=asked.turns, kills=asked.kills),
        "stream": lambda root, asked: measure_stream(root, floods=max(2, asked.turns // 15)),
        "width": lambda root, asked: measure_width(root, rounds=max(3, asked.turns // 10), idle_s=asked.idle),
        "providers": lambda root, asked: measure_providers(
            root, only=asked.only, turns=asked.rounds, kills=asked.kills, rooms=asked.rooms
        ),
        "commands": lambda root, asked: measure_commands(root, rounds=max(5, asked.rounds // 3)),
        "checkpoints": lambda root, asked: measure_continuity(root, rounds=asked.copies),
        "thread": lambda root, _: measure_thread(root),
        "exports": lambda root, asked: anyio.to_thread.run_sync(lambda: measure_exports(root, rounds=asked.copies)),
        "store": lambda root, asked: measure_transitions(root, operations=asked.rounds * 4, rounds=5),
        "start": lambda root, asked: measure_start(root, rounds=max(3, asked.rounds // 10)),
    }
)
"""What can be measured, in the order in which it is."""


def compiled() -> None:
    """Compile what is measured, as an installer does: a working tree may be kept from doing so, and pays for it at each start."""
    for package in sorted({"jamcore"} | {entry.module.partition(".")[0] for entry in installed((PROVIDERS, FAMILIES))}):
        spec = find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            compileall.compile_dir(place, quiet=2)


async def measure(parts: tuple[str, ...], asked: argparse.Namespace) -> list[Row]:
    """Measure the chosen parts, one after the other."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="jam-bench-") as directory:
        for part in parts:
            root = Path(directory).resolve() / part
            root.mkdir(mode=0o700)
            began = time.monotonic()
            rows += await PARTS[part](root, asked)
            print(f"{part}: measured in {time.monotonic() - began:.0f} s", file=sys.stderr)
    return rows


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"what to measure: {', '.join(PARTS)}; default: all")
    parser.add_argument(
        "--rounds",
        type=int,
        default=50,
        help="how many programs are run in a sandbox, and beside it; how many turns of each provider",
    )
    parser.add_argument("--turns", type=int, default=50, help="how many turns are counted on each side")
    parser.add_argument("--kills", type=int, default=8, help="how many times each side is killed")
    parser.add_argument(
        "--only", action="append", default=[], metavar="PROVIDER", help="measure this provider of all, as often as wanted"
    )
    parser.add_argument(
        "--rooms", type=int, default=max(ROOMS), help=f"the most rooms of a provider's host, of {', '.join(map(str, ROOMS))}"
    )
    parser.add_argument(
        "--idle", type=float, default=20.0, metavar="S", help="for how many seconds rooms are left alone and watched"
    )
    parser.add_argument("--copies", type=int, default=3, help="how often a home is changed, copied by each program, and restored")
    parser.add_argument("--json", action="store_true", help="print data instead of a table")
    chosen = parser.parse_args()
    if unknown := set(chosen.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    parts = tuple(part for part in PARTS if not chosen.parts or part in chosen.parts)
    compiled()
    began = os.getloadavg()[0]
    try:
        rows = anyio.run(measure, parts, chosen)
    except NotMeasurableError as error:
        parser.error(str(error))
    machine = {
        "python": platform.python_version(),
        "system": platform.platform(),
        "processors": len(os.sched_getaffinity(0)),
        "load before and after": [round(began, 2), round(os.getloadavg()[0], 2)],
    }
    if chosen.json:
        print(json.dumps({"machine": machine, "rows": [row.as_data() for row in rows]}, indent=2))
        return
    print(", ".join(f"{name}: {value}" for name, value in machine.items()))
    print(render(rows))


if __name__ == "__main__":
    main()
