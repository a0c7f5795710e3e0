"""Any history of turns, checkpoints, crashes, restores, removals and damage, found by Hypothesis (CONT-1, CONT-4, CONT-11, WS-9).

More of it: ``pytest tests/unit/continuity/test_machine.py --hypothesis-profile=long``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from jamcore.continuity.generations.publish import POINTS
from jamcore.continuity.resuming.restore import RESTORE_POINTS
from jamcore.continuity.retention.deletion import REMOVAL_POINTS
from jamcore.domain.continuity import ActivationPlan
from tests.unit.continuity.conftest import World
from tests.unit.continuity.crashing import Ids
from tests.unit.continuity.model import Modelled

if TYPE_CHECKING:
    from tests.unit.continuity.conftest import MakeWorld

settings.register_profile("long", max_examples=1000, stateful_step_count=60, deadline=None)

HOSTS = st.sampled_from([0, 0, 0, 1])
"""Mostly one, so that much happens to it."""
LOGS = st.sampled_from(["sessions/a.jsonl", "sessions/2/b.jsonl"])
FILES = st.sampled_from(["config/a", "config/d/b"])
DATA = st.binary(max_size=60) | st.integers(0, 200_000).map(lambda size: b"%d" % size * (size // 6))


class ContinuityMachine(RuleBasedStateMachine):
    """Two hosts of one daemon. Every rule draws a host; every action is real, on real files and a real store."""

    make_world: ClassVar[MakeWorld]
    """Set by the test."""

    @initialize()
    def start(self) -> None:
        """Two hosts that nothing was done with."""
        self.stack = ExitStack()
        directory = self.stack.enter_context(tempfile.TemporaryDirectory())
        portal = self.stack.enter_context(start_blocking_portal())
        first = self.stack.enter_context(portal.wrap_async_context_manager(self.make_world(Path(directory) / "app")))
        second = World(first.app, first.store._store, clock=first.clock, name="-2")

        def run(work: Callable[[], Awaitable[object]]) -> object:
            return portal.call(work)

        self.hosts = [Modelled(world, run) for world in (first, second)]
        self.turns = 0
        for number, host in enumerate(self.hosts):
            host.world.ids, host.world.plan = Ids(number), ActivationPlan(delete=("home/*.sqlite*",))
            host.restart()

    # ------------------------------------------------------------------------------------------------------ the provider

    @rule(host=HOSTS, log=LOGS)
    def finish_a_turn(self, host: int, log: str) -> None:
        """A turn ends; its line is in one of the threads' logs."""
        self.turns += 1
        self.hosts[host].finish_turn(log, self.turns)

    @rule(host=HOSTS, log=LOGS)
    def finish_a_turn_and_capture(self, host: int, log: str) -> None:
        """What happens most."""
        self.finish_a_turn(host, log)
        self.hosts[host].capture()

    @rule(host=HOSTS, log=LOGS)
    def begin_a_line(self, host: int, log: str) -> None:
        """Half a line is in a log, as in the middle of a turn."""
        path = self.hosts[host].home / log
        self.hosts[host].write(log, (path.read_bytes() if path.exists() else b"") + b"half")

    @rule(host=HOSTS, name=FILES, data=DATA)
    def write_a_file(self, host: int, name: str, data: bytes) -> None:
        """A file is written whole."""
        self.hosts[host].write(name, data)

    @rule(host=HOSTS, name=FILES)
    def rewrite_a_file_unseen(self, host: int, name: str) -> None:
        """The same size and the same modification time, other bytes."""
        if (self.hosts[host].home / name).is_file():
            self.hosts[host].rewrite_unseen(name)

    @rule(host=HOSTS, name=FILES, new=FILES)
    def move_a_file(self, host: int, name: str, new: str) -> None:
        """A file gets another's name."""
        home = self.hosts[host].home
        if (home / name).is_file():
            (home / new).parent.mkdir(parents=True, exist_ok=True)
            (home / name).replace(home / new)

    @rule(host=HOSTS, name=FILES)
    def delete_a_file(self, host: int, name: str) -> None:
        """A file goes."""
        (self.hosts[host].home / name).unlink(missing_ok=True)

    @rule(host=HOSTS, log=LOGS)
    def archive_a_log(self, host: int, log: str) -> None:
        """A thread is archived: its log moves, under its name."""
        home = self.hosts[host].home
        target = home / "archived" / Path(log).name
        if (home / log).is_file() and not target.exists():
            target.parent.mkdir(exist_ok=True)
            (home / log).rename(target)

    @rule(host=HOSTS, log=LOGS, keep=st.sampled_from([0, 5, 5000]))
    def lose_a_log(self, host: int, log: str, keep: int) -> None:
        """A log is cut or goes, as by a guest that removes what it said; turns that were in it alone are cut."""
        path = self.hosts[host].home / log
        if path.is_file():
            if keep:
                os.truncate(path, min(path.stat().st_size, keep))
            else:
                path.unlink()
            self.hosts[host].settle()

    @rule(old=st.booleans())
    def time_passes(self, old: bool) -> None:
        """Files are old enough to be left unread if they look unchanged, or not."""
        self.hosts[0].world.clock.ahead = timedelta(days=old)
        self.hosts[1].world.clock.ahead = timedelta(days=old)

    # --------------------------------------------------------------------------------------------------------- the daemon

    @rule(host=HOSTS)
    def capture(self, host: int) -> None:
        """A checkpoint is made, or refused."""
        self.hosts[host].capture()

    @rule(host=HOSTS, point=st.sampled_from(POINTS))
    def crash_in_a_capture(self, host: int, point: str) -> None:
        """The daemon is killed at a boundary of a publication."""
        self.hosts[host].crash_in_capture(point)

    @rule(host=HOSTS)
    def retry_a_capture(self, host: int) -> None:
        """The newest checkpoint is asked for again."""
        if not self.hosts[host].hurt:
            self.hosts[host].retry()

    @rule(host=HOSTS)
    def restart(self, host: int) -> None:
        """The daemon starts anew."""
        self.hosts[host].restart()

    @rule(host=HOSTS, fresh=st.booleans())
    def inspect(self, host: int, fresh: bool) -> None:
        """Somebody asks how the session may start."""
        self.hosts[host].look(fresh=fresh)

    @rule(host=HOSTS)
    def resume(self, host: int) -> None:
        """The session comes back."""
        self.hosts[host].resume()

    @rule(host=HOSTS, point=st.sampled_from(RESTORE_POINTS))
    def crash_in_a_restore(self, host: int, point: str) -> None:
        """The daemon is killed at a boundary of a restore, if one is needed."""
        self.hosts[host].crash_in_restore(point)

    @rule(host=HOSTS, chosen=st.frozensets(st.integers(0, 8), min_size=1, max_size=5), point=st.sampled_from(("", *REMOVAL_POINTS)))
    def remove_payloads(self, host: int, chosen: frozenset[int], point: str) -> None:
        """A person removes the payload of checkpoints, and the daemon may be killed in it."""
        if min(chosen) < len(self.hosts[host].world.store.checkpoints):
            self.hosts[host].remove(chosen, point)

    # --------------------------------------------------------------------------------------------------------- the damage

    @precondition(lambda self: self.turns > 2)
    @rule(
        host=HOSTS,
        places=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1 << 20), st.integers(0, 9)), min_size=1, max_size=4),
    )
    def damage(self, host: int, places: list[tuple[int, int, int]]) -> None:
        """Bits of packs and of roots are flipped, or the files are cut or gone."""
        for which, where, bit in places:
            self.hosts[host].damage(which, where, bit)

    @rule(host=HOSTS)
    def find_damage_and_heal(self, host: int) -> None:
        """Damage is found, and the next checkpoint is whole whatever was damaged before."""
        self.hosts[host].look(fresh=True)
        self.hosts[host].capture()

    @invariant()
    def everything_holds(self) -> None:
        """See :meth:`Modelled.check`; what is done to one host changes nothing of the other."""
        for host in getattr(self, "hosts", ()):
            host.check()

    def teardown(self) -> None:
        """In the end both hosts resume, unless they were damaged."""
        if hasattr(self, "hosts"):
            try:
                for host in self.hosts:
                    host.restart()
                    assert host.resume() or host.hurt or host.newest() is None
                    host.check()
            finally:
                self.stack.close()


@pytest.mark.guarantee("CONT-1", "CONT-4", "CONT-11", "WS-9", "WS-12")
@pytest.mark.slow
@pytest.mark.timeout(7200)  # the long profile
def test_any_history(make_world: MakeWorld) -> None:
    """Histories of turns, captures, crashes and damage; a failing one is printed as the shortest that fails."""
    ContinuityMachine.make_world = staticmethod(make_world)
    long = settings.get_current_profile_name() == "long"
    checks = settings() if long else settings(max_examples=50, stateful_step_count=40, deadline=None, derandomize=True)
    run_state_machine_as_test(ContinuityMachine, settings=checks)
