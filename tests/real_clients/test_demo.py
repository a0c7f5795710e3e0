"""``jam demo`` as a person runs it: the installed command, the real program from its vendor's wheel, the real sandbox, two kills."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

STEPS = {
    "repository",
    "daemon",
    "provider",
    "room",
    "first turn",
    "kill the provider",
    "resume",
    "kill the daemon",
    "start again",
    "proof",
    "change request",
    "park",
}


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.unprivileged
@pytest.mark.timeout(900)
@pytest.mark.needs("codex", "bubblewrap", "git")
@pytest.mark.guarantee("CONT-1", "RUN-1", "ENV-4", "SEC-4")
def test_the_demo_proves_every_step(tmp_path: Path) -> None:
    """Every proof holds, as data: the history after the last kill, the patch on the original repository, the key outside the guest."""
    jam = Path(sys.executable).with_name("jam")
    done = subprocess.run(
        (jam, "demo", "--json", "--directory", tmp_path / "demo"), capture_output=True, text=True, timeout=800, check=False
    )
    told = json.loads(done.stdout)
    assert told["failure"] == ""
    assert told["ok"] is True
    assert done.returncode == 0
    assert {step["name"] for step in told["steps"]} == STEPS
    assert len(told["next"]) == 3
    assert all(Path(path).exists() for path in told["paths"].values())
