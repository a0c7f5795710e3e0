"""What a program in a sandbox costs, beside the same program in a fresh bare bwrap and as a bare subprocess."""

from __future__ import annotations

import subprocess
from pathlib import Path

from benchmarks.engine import TRUE, bare_bwrap, creations, run_true
from benchmarks.table import Laps, Row
from jamcore.domain.sandboxes import SandboxSpec
from jamcore.engines.bubblewrap import BubblewrapEnginePlugin
from jamcore.engines.port import EngineContext
from jamcore.system.files import Files


async def measure_sandbox(root: Path, *, rounds: int, created: int) -> list[Row]:
    """Alternate a warm exec with its two rivals, then create sandboxes.

    Args:
        root: An empty private directory.
        rounds: How many times each program is run.
        created: How many sandboxes are made.
    """
    private = Files().make_private(root / "engine")
    bwrap = bare_bwrap()
    warm, fresh, bare = Laps(), Laps(), Laps()
    async with BubblewrapEnginePlugin().open(EngineContext(root=private, runtime=private)) as engine:
        await engine.create(SandboxSpec(name="bench", guest_disk=str(root / "bench")))
        await run_true(engine, "bench")
        for _ in range(rounds):
            with warm.lap():
                await run_true(engine, "bench")
            with fresh.lap():
                subprocess.run(bwrap, check=True, stdin=subprocess.DEVNULL)  # noqa: ASYNC221 - nothing else runs meanwhile
            with bare.lap():
                subprocess.run((TRUE,), check=True, stdin=subprocess.DEVNULL)  # noqa: ASYNC221
        first, _ = await creations(engine, root, created)
    return [
        Row("warm exec of true: start to end", warm.values, "fresh bare bwrap", fresh.values),
        Row("warm exec of true: start to end", warm.values, "bare subprocess", bare.values),
        Row("create to the end of the first exec", first.values, "fresh bare bwrap", fresh.values, aim="60 ms"),
    ]
