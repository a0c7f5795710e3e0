"""The simulated sbx against a real one: what is marked as a probe is asked of both, and every difference is printed (LIVE-2)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jamcore.system.ids import random_id
from jamcore.testing.sbx.asking import Program
from jamcore.testing.sbx.probes import Place, compare, version_for
from jamcore.testing.sbx.simulator import Simulator

pytestmark = [
    pytest.mark.live("JAM_LIVE_SBX"),
    pytest.mark.needs("bubblewrap", "variable:JAM_LIVE_SBX_PROGRAM"),
    pytest.mark.timeout(3600),
]


class Real(Program):
    """A person's own sbx, with the person's own environment: signed in, with a policy."""

    def __init__(self) -> None:
        self.program = Path(os.environ["JAM_LIVE_SBX_PROGRAM"])
        self.environment = {name: value for name, value in os.environ.items() if name != "SSH_AUTH_SOCK"}


def test_the_simulator_does_what_the_real_program_does(tmp_path: Path) -> None:
    """One sandbox of its own is made, used and removed; nothing else of the person's is touched."""
    real = Real()
    version = version_for(real.said("version"))
    name = f"jam-probe-{random_id()[:8]}"
    places = []
    for place in (tmp_path / "real", tmp_path / "simulated"):
        for directory in ("ws", "ref"):
            (place / directory).mkdir(parents=True)
        places.append(Place(name, place / "ws", place / "ref"))
    running = real.run("daemon", "status").stdout
    assert b"Status: running" in running, "start the daemon yourself first (sbx daemon start --detach): a test leaves none behind"
    with Simulator(tmp_path / "sbx", version) as simulated:
        simulated.said("ls")
        found = compare(real, simulated, version, (places[0], places[1]))
    for difference in found:
        print(difference)
    assert not found, f"{len(found)} behaviours of {version} are other than the simulator's"
