"""Gate: the guest cannot escape its boundary, on the engine that ``JAM_LIVE_ENGINE`` names (LIVE-2, ENG-5)."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import ClassVar

import pytest

from jamcore.domain.sandboxes import Isolation
from jamcore.engines.bubblewrap.machine import look
from jamcore.engines.port import EnginePlugin
from jamcore.testing.engines.battery import EscapeTests, Host
from jamcore.testing.engines.box import Box, Python
from jamcore.testing.engines.escapes import ATTEMPTS, Attempt
from jamcore.testing.live_rooms import live_jam, look_around, place

pytestmark = [
    pytest.mark.live("JAM_LIVE_BOUNDARY"),
    pytest.mark.needs("engine:any"),
    pytest.mark.anyio,
    pytest.mark.timeout(1800),
]

DEFAULT = "bubblewrap"
SECRET = "sk-boundary-" + "5e1d" * 10


def plugin() -> type[EnginePlugin]:
    """Return the class of the engine under test."""
    [entry] = entry_points(group="jam.engines", name=place().engine or DEFAULT)
    found: type[EnginePlugin] = entry.load()
    return found


def guest_python() -> Python:
    """Return how Python is called in a guest: this engine's guests have the one that runs process 1; in an image it is on the path."""
    machine = look() if (place().engine or DEFAULT) == DEFAULT else None
    if machine is None:
        return Python()
    libraries = (("LD_LIBRARY_PATH", machine.library_path),) if machine.library_path else ()
    return Python(argv=(machine.python,), environment=libraries)


class TestBoundary(EscapeTests):
    """The battery of escapes that every engine of the suite is put to, with no attempt left out."""

    plugin: ClassVar[type[EnginePlugin]] = (
        plugin() if entry_points(group="jam.engines", name=place().engine or DEFAULT) else EnginePlugin
    )
    python: ClassVar[Python] = guest_python()
    test_what_works_unconfined_is_refused_inside = None  # type: ignore[assignment] # below, with the marks of a live test

    @pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.name)
    async def test_an_attempt_that_works_on_the_host_is_refused_inside(
        self, attempt: Attempt, box: Box, host: Host, tmp_path: Path
    ) -> None:
        """The same program: on the host it escapes, in the sandbox it does not."""
        assert self.plugin.isolation > Isolation.NONE, f"{self.plugin.name} isolates nothing"
        await EscapeTests.test_what_works_unconfined_is_refused_inside(self, attempt, box, host, tmp_path)


@pytest.mark.needs("provider:codex", "account:codex")
async def test_what_a_real_agent_runs_finds_nothing_of_the_host(tmp_path: Path) -> None:
    """This very file and the daemon's keys: looked for by a command of the agent, in the sandbox that Jam made for it."""
    async with live_jam(tmp_path, "codex", JAM_CREDENTIAL_BOUNDARY=SECRET) as jam:
        room = await jam.open()
        assert room.isolation not in {"none", "unknown"}
        found = await jam.run_command(room, look_around(Path(__file__)))
    assert "+looked-everywhere\n" in found
    assert "the guest cannot escape its boundary" not in found
    assert SECRET not in found
