"""A sandbox stands still also while its threads start programs all the time: the caller of ``vfork`` cannot stop by itself."""

from __future__ import annotations

import time
from pathlib import Path

import anyio
import pytest

from jamcore.domain.sandboxes import ExecSpec, SandboxSpec
from jamcore.engines.bubblewrap.engine import open_engine
from jamcore.engines.port import EngineContext
from jamcore.system.files import Files

STARTING = """
import os, subprocess, sys, threading
def start():
    while True:
        subprocess.run(["/bin/true"], close_fds=False)
for _ in range(4):
    threading.Thread(target=start, daemon=True).start()
os.write(1, b"ready")
threading.Event().wait()
"""
FREEZES = 40
EACH_S = 3.0
"""Below the engine's own limit, and far above the few milliseconds that one takes."""


@pytest.mark.anyio
@pytest.mark.crash
@pytest.mark.needs("bubblewrap")
@pytest.mark.guarantee("CONT-2")
async def test_freezing_threads_that_start_programs(tmp_path: Path) -> None:
    """Forty freezes in a row succeed, whatever moment of a program's start they meet."""
    root = Files().make_private(tmp_path / "engine")
    slowest = 0.0
    async with open_engine(EngineContext(root=root, runtime=root)) as engine:
        await engine.create(SandboxSpec(name="jam-v", guest_disk=str(Files().make_private(tmp_path / "disk"))))
        process = await engine.exec("jam-v", ExecSpec(argv=("python3", "-c", STARTING), cwd="/"))
        assert await process.stdout.receive() == b"ready"
        for _ in range(FREEZES):
            started = time.monotonic()
            with anyio.fail_after(EACH_S):
                async with engine.frozen("jam-v"):
                    slowest = max(slowest, time.monotonic() - started)
        await process.kill_tree()
        await process.aclose()
    print(f"the slowest of {FREEZES} freezes: {slowest * 1000:.1f} ms")
