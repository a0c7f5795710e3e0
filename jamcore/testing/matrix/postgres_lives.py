"""A life whose rows are in PostgreSQL, and whose server goes away in the middle of an action: a function for a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from sqlalchemy import Engine, event

from jamcore.daemon.services import Services
from jamcore.testing.crash import At
from jamcore.testing.leftovers import left_in
from jamcore.testing.matrix.faulty_lives import ANEW, DONE, OVER, answered, require_answers
from jamcore.testing.matrix.lives import plugged, require_sound_exports
from jamcore.testing.matrix.scenario import Scenario
from jamcore.testing.matrix.scenarios import SCENARIOS
from jamcore.testing.parked_world import SIBLING, World, files_in, living, make_world, replace_tree
from jamcore.testing.postgres import PostgresServer, postgres_server

MADE, PREPARED, PLAYED = "made", "prepared", "played"
"""Databases, and states of the world that belong to them."""


class Going(StrEnum):
    """How the server goes."""

    RESTARTED = "restarted"
    """It is back before the action goes on."""
    AWAY = "away"
    """It is back when the request was answered."""
    CUT = "cut"
    """It is killed and started between a statement and the commit."""


class Goer:
    """Lets a server go in one of the ways, once."""

    def __init__(self, server: PostgresServer, going: Going) -> None:
        self._server = server
        self._going = going
        self._waiting = False
        self.gone = False

    def go(self) -> None:
        """Be at the boundary."""
        if self._going is Going.CUT:
            self._waiting = True
            return
        self.gone = True
        self._server.stop()
        if self._going is Going.RESTARTED:
            self._server.start()

    def executed(self, _connection: object, _cursor: object, statement: str, *_more: object) -> None:
        """Be behind a statement."""
        if self._waiting and statement.startswith(("INSERT", "UPDATE")):
            self._waiting, self.gone = False, True
            self._server.stop(kill=True)
            self._server.start()

    def back(self) -> None:
        """Have it back."""
        if self._going is Going.AWAY:
            self._server.start()


async def restarts(root: Path, kind: str, points: tuple[str, ...]) -> None:
    """Play an action for each boundary and each way of going."""
    world = World(root / "world")
    with plugged(world.root), postgres_server() as server:
        url = server.create(MADE)
        world.root.mkdir()
        await make_world(world, database_url=url)
        # A copy takes other blocks than what was written bit by bit, and how many a clean-up frees is evidence.
        replace_tree(world.root, root / MADE)
        replace_tree(root / MADE, world.root)
        async with living(world, database_url=url) as services:
            await SCENARIOS[kind].prepare(services, world)
        replace_tree(world.root, root / PREPARED)
        sibling = _of_sibling(world)
        for point in points:
            for going in Going:
                replace_tree(root / PREPARED, world.root)
                server.drop(PLAYED)
                said = await _play(world, server, SCENARIOS[kind], point, going)
                print(f"| {kind} | {point} | {going} | {said} |")
                assert left_in(world.app) == ()
                assert _of_sibling(world) == sibling, "the other room was touched"


async def _play(world: World, server: PostgresServer, scenario: Scenario, point: str, going: Going) -> str:
    """Let the server go at a boundary: the answer is typed, the daemon goes on, and the action ends. Return the answers."""
    url, goer = server.create(PLAYED, template=MADE), Goer(server, going)
    with _listening(goer.executed):
        async with living(world, database_url=url, crash=At(point, goer.go)) as services:
            first = await answered(lambda: scenario.ask(services, world))
            assert goer.gone, f"{point}: the server did not go: {first}"
            goer.back()
            scenario.holds(world)
            await require_answers(services)
            again = await answered(lambda: scenario.ask(services, world))
            assert again in {DONE, *OVER}, again
            scenario.holds(world)
    async with living(world, database_url=url) as services:
        assert (await services.operations.list(room=None, host=None, unfinished=True, limit=1)).items == ()
        if again in OVER:
            await _require_over(services, world, scenario)
            world = World(world.root, asked=ANEW)
        await scenario.ask(services, world)
        await scenario.check(services, world)
        await require_sound_exports(services)
        answer = await scenario.ask(services, world)
        assert await scenario.ask(services, world) == answer
        await scenario.check(services, world)
    return f"{first}, then {again}"


async def _require_over(services: Services, world: World, scenario: Scenario) -> None:
    assert await answered(lambda: scenario.ask(services, world)) in OVER


@contextmanager
def _listening(to: Callable[..., None]) -> Iterator[None]:
    event.listen(Engine, "after_cursor_execute", to)
    try:
        yield
    finally:
        event.remove(Engine, "after_cursor_execute", to)


def _of_sibling(world: World) -> dict[str, str]:
    return world.host_digest(SIBLING) | files_in(world.work(SIBLING))
