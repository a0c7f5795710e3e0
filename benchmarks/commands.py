"""What a command of ``jam`` costs, beside an interpreter that does nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.table import Laps, Row
from jamcore.testing.daemon import DaemonChild, running_daemon


async def measure_commands(root: Path, *, rounds: int) -> list[Row]:
    """Time ``jam --help`` and, with a daemon that runs, ``jam ls``; alternately with ``python -c pass``.

    Args:
        root: An empty private directory.
        rounds: How many times each is run.
    """
    jam = Path(sys.executable).parent / "jam"
    if not jam.exists():
        raise SystemExit(f"{jam} is not there: the command is installed with the package")
    commands = {
        "help": (str(jam), "--help"),
        "ls": (str(jam), "ls"),
        "pass": (sys.executable, "-c", "pass"),
    }
    laps = {name: Laps() for name in commands}
    environment = {**os.environ, "JAM_HOME": str(root / "app")}
    daemon = DaemonChild(root / "app", private=root / "private")
    async with running_daemon(daemon):
        for number in range(rounds + 1):
            for name, argv in commands.items():
                with laps[name].lap():
                    subprocess.run(  # noqa: ASYNC221 - nothing else runs meanwhile
                        argv,
                        check=True,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        env=environment,
                    )
                if number == 0:
                    laps[name].values.clear()
    raw = laps["pass"].values
    return [Row("jam --help", laps["help"].values, "python -c pass", raw), Row("jam ls", laps["ls"].values, "python -c pass", raw)]
