"""What the live test asks a real sbx is asked here of two simulators: it finds what differs, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jamcore.testing.sbx.behaviours import everything
from jamcore.testing.sbx.known import VERSIONS
from jamcore.testing.sbx.probes import BEFORE, DURING, Place, compare, version_for
from jamcore.testing.sbx.simulator import Simulator

Make = Callable[..., Simulator]


@pytest.fixture
def places(tmp_path: Path) -> tuple[Place, Place]:
    """A place for each of two programs."""
    made = []
    for number in ("one", "two"):
        for name in ("ws", "ref"):
            (tmp_path / number / name).mkdir(parents=True)
        made.append(Place(f"jam-probe-{number}", tmp_path / number / "ws", tmp_path / number / "ref"))
    return made[0], made[1]


def test_every_behaviour_that_is_marked_has_a_probe() -> None:
    """And no probe is for one that is not."""
    probed = {ident for probe in (*BEFORE, *DURING) for ident in probe.behaviours}
    assert probed == {each.ident for each in everything() if each.probe}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.needs("bubblewrap")
def test_two_of_one_version_do_not_differ(make: Make, places: tuple[Place, Place]) -> None:
    """Whatever differs by itself between two runs, as ids, paths and names, is taken out; nothing is left behind."""
    one, two = make("0.47"), make("0.47")
    for sbx in (one, two):
        sbx.said("ls")
    assert compare(one, two, "0.47", places) == ()
    assert one.json("ls", "--json") == two.json("ls", "--json") == {"sandboxes": []}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.needs("bubblewrap")
def test_what_differs_is_found_by_the_name_of_its_behaviour(make: Make, places: tuple[Place, Place]) -> None:
    """A real program of 0.43 is not what the simulator of 0.47 is: the differences of those versions are named."""
    real, simulated = make("0.43"), make("0.47")
    for sbx in (real, simulated):
        sbx.said("ls")
    found = compare(real, simulated, "0.47", places)
    named = {ident for difference in found for ident in difference.behaviours}
    assert {"errors.lower-case", "stop.restart-hint", "rm.deleting", "ls.created", "exec.detach", "policy.bare"} <= named
    assert not named & {"exec.streams", "exec.cwd", "guest.user", "policy.table", "version.line"}
    (stop,) = [each for each in found if "stop.restart-hint" in each.behaviours]
    assert "sbx stop {name}\n  real:      [0, \"Sandbox '{name}' stopped; state preserved.\"" in str(stop)


def test_the_version_to_compare_with() -> None:
    """The newest that is not newer than the real one."""
    assert version_for("sbx version: v0.47.3 abc") == version_for("v0.99.0") == VERSIONS[-1]
    assert version_for("sbx version: v0.42.1 abc") == "0.39"
    with pytest.raises(ValueError, match="no simulated version"):
        version_for("Client Version:  v0.31.0")
