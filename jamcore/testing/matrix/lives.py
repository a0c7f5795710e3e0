"""The lives of a crash matrix: each is the main function of a process that :class:`jamcore.testing.crash.Lives` forks."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock
from uuid import UUID

from jamcore.daemon import journaled
from jamcore.daemon.services import Services
from jamcore.domain.errors import JamError
from jamcore.domain.kept_exports import ExportState
from jamcore.journal.points import CrashPoints
from jamcore.journal.replay import ActionRegistry
from jamcore.testing.crash import SigkillAt
from jamcore.testing.matrix.effects import Tracing
from jamcore.testing.matrix.scenario import Scenario
from jamcore.testing.matrix.scenarios import PLAYED
from jamcore.testing.parked_world import Rooms, World, install_plugin, living, make_world

PASSED, REGISTERED, OUTCOME, TRACED = "passed", "registered", "outcome", "traced"
"""Files beside a world in which a life leaves what it has seen."""


class Noting:
    """Notes every boundary that a life passes, so that it can be read whatever becomes of the life."""

    def __init__(self, world: World) -> None:
        self._to = world.root.with_name(PASSED)

    def reach(self, point: str) -> None:
        """See :meth:`CrashPoints.reach`."""
        with self._to.open("a") as stream:
            stream.write(f"{point}\n")


async def make(root: Path, rooms: Rooms = Rooms.MANAGED) -> None:
    """Make the world with rooms of a sort, and note what a daemon of it registers."""
    with plugged(root):
        await make_world(World(root), rooms)
        with registering() as actions:
            async with living(World(root)):
                pass
    points = {kind: [point for point in actions.crash_points() if point.startswith(f"{kind}.")] for kind in actions.kinds()}
    root.with_name(REGISTERED).write_text(json.dumps(points))


async def prepare(root: Path, name: str) -> None:
    """Bring the world to where the action of a scenario can be asked for."""
    with plugged(root):
        async with living(World(root)) as services:
            await PLAYED[name].prepare(services, World(root))


async def ask(root: Path, name: str, point: str, count: int) -> None:
    """Ask for the action, and be killed at the ``count``-th passing of a boundary; without one, note what is passed."""
    with plugged(root):
        async with living(World(root), crash=_crash(World(root), point, count)) as services:
            await PLAYED[name].ask(services, World(root))


async def trace(root: Path, name: str) -> None:
    """Ask for the action, and note every boundary and every effect in order."""
    with plugged(root):
        traced = Tracing(root, root.with_name(TRACED))
        traced.begin()
        async with living(World(root), crash=traced) as services:
            await PLAYED[name].ask(services, World(root))


async def start(root: Path, point: str, count: int) -> None:
    """Start, and be killed at a boundary of what the start does; without one, note what is passed."""
    with plugged(root):
        async with living(World(root), crash=_crash(World(root), point, count)):
            pass


async def finish(root: Path, name: str, again: bool) -> None:
    """Start, and require everything that must be true from then on; with ``again`` also of whoever asks again."""
    world, scenario = World(root), PLAYED[name]
    with plugged(root):
        async with living(world) as services:
            assert world.unfinished() == []
            await scenario.check(services, world)
            await require_sound_exports(services)
            if again:
                await require_exact_retries(services, world, scenario)
    root.with_name(OUTCOME).write_text(" ".join(outcome(world)))


async def require_sound_exports(services: Services) -> None:
    """Require that every export that there is can be verified."""
    for row in await services.exports.list(None):
        if row.export.state is ExportState.PUBLISHED:
            assert (await services.exports.verify(str(row.export.id))).sound


async def require_exact_retries(services: Services, world: World, scenario: Scenario) -> None:
    """Require that asking again changes nothing, and that nobody else's request goes by its id.

    The first time it may still do what follows the action in its request, such as bringing the room up.
    """
    answer = await scenario.ask(services, world)
    before = world.digest()
    assert await scenario.ask(services, world) == answer
    require_same(before, world.digest())
    if scenario.has_words:
        await require_refused(services, world, scenario)
        require_same(before, world.digest())
    await scenario.check(services, world)


async def require_refused(services: Services, world: World, scenario: Scenario) -> None:
    """Require that something else under the same id is refused by a typed error."""
    try:
        answer = await scenario.ask_otherwise(services, world)
    except JamError:
        return
    raise AssertionError(f"another request under the same id was answered with {answer}")


def require_same(before: dict[str, str], after: dict[str, str]) -> None:
    """Require that nothing changed; what did is named."""
    assert before == after, sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def outcome(world: World) -> tuple[str, str]:
    """Return state and result of the action that was asked for."""
    ((state, result),) = world.rows(f"SELECT state, result FROM operations WHERE id = '{action_of(world)}'")  # noqa: S608 - an id
    return state, result


def action_of(world: World) -> UUID:
    """Return the id of the action: what was asked for, or for what is begun inside a request, the newest there is."""
    known = world.rows(f"SELECT id FROM operations WHERE id = '{world.asked}'")  # noqa: S608 - an id
    return UUID((known or world.rows("SELECT id FROM operations ORDER BY started_at DESC LIMIT 1"))[0][0])


@contextmanager
def registering() -> Iterator[ActionRegistry]:
    """Yield the registry that the next daemon of this process fills."""
    actions = ActionRegistry()
    with mock.patch.object(journaled, "ActionRegistry", return_value=actions):
        yield actions


def _crash(world: World, point: str, count: int) -> CrashPoints:
    return SigkillAt(point, count=count) if point else Noting(world)


@contextmanager
def plugged(root: Path) -> Iterator[None]:
    """Have the double installed, as in an interpreter that finds it. A life has an interpreter of its own."""
    os.umask(0o077)
    sys.path.append(str(install_plugin(root.with_name("site"))))
    yield
