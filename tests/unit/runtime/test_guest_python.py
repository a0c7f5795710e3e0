"""A sandbox that is started for the database helper alone is stopped again, and holds nobody's end up (CONT-5, START-4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from jamcore.domain.sandboxes import ExecSpec, SandboxGoneError
from jamcore.runtime import databases
from jamcore.runtime.databases import GuestPython

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

NAME = "jam-a"
HANG_S = 20.0
"""Nothing here takes a second; what hangs fails by this."""


@dataclass
class Sandbox:
    """Engine, owner and calls of one sandbox in one, scripted: what is done with it, in order, is in ``said``."""

    stops: bool = True
    proven: bool = True
    runs: bool = False
    said: list[str] = field(default_factory=list)

    @property
    def engine(self) -> Sandbox:
        """It is its own."""
        return self

    @property
    def calls(self) -> Sandbox:
        """They are its own."""
        return self

    def verify_record(self, _plan: object) -> tuple[object, None]:
        """See :meth:`Ownership.verify_record`."""
        return SimpleNamespace(nonce="n"), None

    async def prove(self, _name: str, _nonce: str) -> None:
        """See :meth:`Ownership.prove`."""
        if not self.proven:
            raise SandboxGoneError(sandbox=NAME)
        self.said.append("proven")

    async def start(self, _name: str) -> None:
        """See the calls."""
        self.said.append("started")
        self.runs = True

    async def stop(self, _name: str) -> None:
        """See the calls."""
        await anyio.lowlevel.checkpoint()
        self.said.append("stopping")
        if not self.stops:
            await anyio.sleep_forever()
        self.runs = False
        self.said.append("stopped")

    async def exec(self, _name: str, _spec: ExecSpec) -> object:
        """See the port."""
        if not self.runs:
            raise SandboxGoneError(sandbox=NAME)
        self.said.append("run")
        return SimpleNamespace(aclose=anyio.lowlevel.checkpoint)


def python(sandbox: Sandbox, *, may_wake: bool = True) -> GuestPython:
    """Return the way into it."""
    return GuestPython(cast("Any", sandbox), cast("Any", SimpleNamespace(name=NAME)), may_wake=may_wake)


@pytest.mark.guarantee("CONT-5")
async def test_it_is_started_proven_used_and_stopped() -> None:
    """In this order; one that is not proven runs nothing and is stopped; and only where no provider can be meant to run."""
    sandbox = Sandbox()
    async with python(sandbox).run(("-c", "")):
        assert sandbox.said == ["started", "proven", "run"]
    assert sandbox.said[3:] == ["stopping", "stopped"]

    foreign = Sandbox(proven=False)
    with pytest.raises(SandboxGoneError):
        async with python(foreign).run(("-c", "")):
            pass
    assert foreign.said == ["started", "stopping", "stopped"]

    asleep = Sandbox()
    with pytest.raises(SandboxGoneError):
        async with python(asleep, may_wake=False).run(("-c", "")):
            pass
    assert asleep.said == []


@pytest.mark.guarantee("CONT-5", "START-4")
@pytest.mark.parametrize("stops", [True, False])
async def test_whoever_has_no_time_left_is_not_held_up(monkeypatch: pytest.MonkeyPatch, stops: bool) -> None:
    """It is stopped all the same where the engine does it; one that does not answer is left to the park at the host's end."""
    monkeypatch.setattr(databases, "STOP_S", 0.05)
    sandbox = Sandbox(stops=stops)
    with anyio.fail_after(HANG_S), anyio.CancelScope() as scope:
        async with python(sandbox).run(("-c", "")):
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert sandbox.said[3:] == (["stopping", "stopped"] if stops else ["stopping"])
