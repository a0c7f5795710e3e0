"""Any history of kills and retries, found by Hypothesis, on a real database: nothing is lost, nothing is paid for twice."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import anyio
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from jamcore.domain.errors import ConflictError
from jamcore.journal.replay import ActionRegistry
from jamcore.system.files import StorageFullError
from jamcore.testing.crash import CrashPoints, KillAt, Killed, NoCrash

if TYPE_CHECKING:
    from tests.unit.journal.conftest import Lives


class JournalMachine(RuleBasedStateMachine):
    """Lives that die at drawn boundaries, by a request or in start-up's replay, between retries and failures of the steps."""

    first: ClassVar[Lives]
    """Set by the test: makes daemons."""

    @initialize()
    def start(self) -> None:
        """A daemon that has done nothing yet."""
        self.directory = tempfile.TemporaryDirectory()
        self.lives = self.first.another(Path(self.directory.name))
        self.world = self.lives.world
        self.action = self.world.action()
        self.begun, self.finished = False, False

    @rule(data=st.data())
    def ask(self, data: st.DataObject) -> None:
        """A client asks, and the daemon may die."""
        self.begun = True
        self._live(data, self._request)

    @rule(data=st.data())
    def start_up(self, data: st.DataObject) -> None:
        """The daemon starts and replays, and may die."""
        self._live(data, self._replay)

    @precondition(lambda self: self.begun)
    @rule()
    def ask_for_something_else(self) -> None:
        """Another record under the id is refused."""

        async def go() -> None:
            async with self.lives.live() as life:
                with pytest.raises(ConflictError):
                    await life.runner.run(self.action, self.lives.identifier, self.lives.begin.model_copy(update={"what": "other"}))

        anyio.run(go)

    @rule(step=st.sampled_from(["copy", "pay", "remove"]))
    def break_something(self, step: str) -> None:
        """From now on a step fails."""
        self.world.fails[step] = OSError(errno.ENOSPC, "no space")

    @rule()
    def mend_everything(self) -> None:
        """From now on no step fails."""
        self.world.fails.clear()

    @invariant()
    def nothing_is_lost(self) -> None:
        """Nothing is removed before it is copied and paid for, nothing is paid for twice, and what has finished stays so."""
        if hasattr(self, "world"):
            self.world.check()
            assert not (self.finished and self.world.present)

    def teardown(self) -> None:
        """In the end, mended and asked once more, it is done."""
        if hasattr(self, "world"):
            self.mend_everything()
            anyio.run(self._request, NoCrash())
            self.nothing_is_lost()
            self.directory.cleanup()

    def _live(self, data: st.DataObject, what: Callable[[CrashPoints], Awaitable[None]]) -> None:
        point = data.draw(st.sampled_from([*self.action.crash_points(), "never"]))
        before, was_finished = list(self.world.acts), self.finished
        with suppress(Killed, StorageFullError):
            anyio.run(what, KillAt(point))
        assert not was_finished or self.world.acts == before

    async def _request(self, crash: CrashPoints) -> None:
        async with self.lives.live(crash) as life:
            assert await life.runner.run(self.action, self.lives.identifier, self.lives.begin) == self.lives.finished
            self.finished = True

    async def _replay(self, crash: CrashPoints) -> None:
        registry = ActionRegistry()
        registry.register(self.action)
        async with self.lives.live(crash) as life:
            await registry.replay(life.journal, life.runner)


@pytest.mark.guarantee("WS-11", "WS-12")
def test_any_history(lives: Lives) -> None:
    """Twenty histories of up to fifteen events each; a failing one is printed as the shortest that fails."""
    JournalMachine.first = lives
    checks = settings(max_examples=20, stateful_step_count=15, deadline=None, derandomize=True)
    run_state_machine_as_test(JournalMachine, settings=checks)
