"""Whatever is asked for and killed, in whatever order: a room has one session, a host is the source of one reset (CONT-9, CONT-13)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jamcore.continuity.resets.action import RESET_POINTS
from jamcore.domain.errors import JamError
from jamcore.domain.sessions import HostState
from jamcore.store import Repos
from jamcore.testing.crash import KillAt, Killed

if TYPE_CHECKING:
    from tests.unit.resets.conftest import Stage

pytestmark = [pytest.mark.unprivileged, pytest.mark.slow]

POINTS = st.sampled_from((*RESET_POINTS, "nowhere"))
LIVES = st.lists(st.tuples(st.sampled_from(("start", "ask", "ask twice", "damage again")), POINTS, st.integers(5, 7)), max_size=6)
"""What each life of the daemon is asked for, where it is killed, and under which id."""


def invariants(stage: Stage, repos: Repos) -> None:
    """Hold at every moment, in the middle of everything."""
    for room in stage.rooms:
        session, host, workspace = repos.sessions.bound_to(room.room.id)  # raises for none, and for two
        assert host.state is not HostState.ARCHIVED
        assert (session.host_id, workspace.session_id) == (host.id, session.id)
    for host in repos.hosts.list():
        reset = repos.continuity_resets.of_source(host.id)
        made = repos.continuity_resets.that_made(host.id)
        assert (host.state is HostState.ARCHIVED) <= (reset is not None)
        assert made is not None or host.id == stage.host.id
        for session in repos.sessions.of_host(host.id):
            bound = repos.bindings.of_session(session.id)
            assert bound.live is (host.state is not HostState.ARCHIVED)
            assert {turn.session_id for turn in repos.turns.of_session(session.id)} <= {session.id}


async def live_through(stage: Stage, lives: list[tuple[str, str, int]]) -> None:
    """Live all of it, then once more without a kill."""
    room = stage.rooms[0].room.id
    for what, point, number in (*lives, ("start", "nowhere", 5)):
        async with stage.living(KillAt(point)) as life:
            with suppress(Killed, JamError):
                await life.start_up()
                view = await life.resets.inspect(str(room))
                if what == "damage again":
                    stage.corrupt()
                elif what != "start":
                    await life.start_fresh(room, view.digest, action=UUID(int=number))
                if what == "ask twice":
                    await life.start_fresh(room, view.digest, action=UUID(int=number + 1))
            await life.store.read(partial(invariants, stage))
    async with stage.living() as life:
        assert await life.start_up() == []
        await life.store.read(partial(invariants, stage))


@pytest.mark.guarantee("CONT-9", "CONT-13")
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(lives=LIVES)
def test_a_room_is_bound_to_one_session_at_every_moment(
    lives: list[tuple[str, str, int]], new_stage: Callable[[Path], Awaitable[Stage]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """And what was begun is finished by the next start that is not killed."""

    async def run() -> None:
        stage = await (await new_stage(tmp_path_factory.mktemp("any"))).make()
        stage.corrupt()
        await live_through(stage, lives)

    anyio.run(run)
