"""The lives of the matrix of store faults: each is the main function of a process that :class:`jamcore.testing.crash.Lives` forks."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import UUID

from jamcore.daemon.services import Services
from jamcore.domain.errors import JamError
from jamcore.testing.matrix.lives import OUTCOME, plugged, require_exact_retries, require_same, require_sound_exports
from jamcore.testing.matrix.scenario import Scenario
from jamcore.testing.matrix.scenarios import SCENARIOS
from jamcore.testing.matrix.store_faults import Fault, StoreFaults
from jamcore.testing.parked_world import SIBLING, SUBJECT, World, living

CALLED, ANSWERED, KNOWN = "called", "answered", "known"
"""Files beside a world: which calls a whole run makes, what a request with a fault was answered, and the operations before it."""
ANEW = UUID(int=80 << 100)
"""The id of a further request, after the first was given up."""
DONE = "done"
OVER = frozenset({"journal.given_up", "journal.interrupted"})
"""What an exact retry is answered whose action has ended without success."""


async def count(root: Path, kind: str) -> None:
    """Ask for the action, and note every call of the store."""
    faults = StoreFaults(kind)
    with plugged(root):
        faults.begin()
        assert await asked(World(root), SCENARIOS[kind], faults) == DONE
    root.with_name(CALLED).write_text(json.dumps([(call.after, call.what) for call in faults.calls]))


async def fail(root: Path, kind: str, number: int, fault: Fault, again: bool) -> None:
    """Ask for the action while one call of the store fails, and go on living; with ``again`` ask again in the same life."""
    world, faults, scenario = World(root), StoreFaults(kind, number, fault), SCENARIOS[kind]

    async def later(services: Services) -> None:
        await require_answers(services)
        if again:
            await answered(lambda: scenario.ask(services, world))

    note_known(world)
    with plugged(root):
        faults.begin()
        said = await asked(world, scenario, faults, later)
    assert faults.struck, "the call was not made"
    root.with_name(ANSWERED).write_text(said)


async def end(root: Path, kind: str, lost: bool) -> None:
    """Start, ask for what was never begun and anew for what was given up, and require that all is as it must be.

    Of an answer that was ``lost`` the effect may be there although the action was given up: then it is whole, and nothing is asked anew.
    Otherwise it can be asked for anew, as after every failure.
    """
    world, scenario = World(root), SCENARIOS[kind]
    with plugged(root):
        async with living(world) as services:
            assert world.unfinished() == []
            if not operations(world, kind):
                await scenario.ask(services, world)
            state, result = operations(world, kind)[-1]
            await require_sound_exports(services)
            if state != "succeeded":
                scenario.holds(world)
                if scenario.has_words:
                    await require_over(services, world, scenario)
                    scenario.holds(world)
            there = lost and state != "succeeded" and await is_done(services, world, scenario)
            if state != "succeeded" and not there:
                world = World(root, asked=ANEW)
                if lost:  # what has taken effect may be evidence
                    await scenario.look_again(services, world)
                await scenario.ask(services, world)
            if not there:
                await scenario.check(services, world)
                await require_exact_retries(services, world, scenario)
    root.with_name(OUTCOME).write_text(f"{state} {result}".strip())


async def is_done(services: Services, world: World, scenario: Scenario) -> bool:
    """Say whether what a scenario requires in the end is true already."""
    try:
        await scenario.check(services, world)
    except (AssertionError, ValueError, OSError, JamError):
        return False
    return True


async def asked(
    world: World, scenario: Scenario, faults: StoreFaults, later: Callable[[Services], Awaitable[None]] | None = None
) -> str:
    """Live, ask, and do something ``later``; return what the request was answered.

    What nobody asks for a start does; one that cannot says so by type and leaves it to the next.
    """
    async with AsyncExitStack() as stack:
        lives: list[Services] = []

        async def live() -> None:
            lives.append(await stack.enter_async_context(living(world, crash=faults)))

        if scenario.has_words:
            await live()
            with faults.counting():
                said = await answered(lambda: scenario.ask(lives[0], world))
        else:
            with faults.counting():
                said = await answered(live)
        if lives and later is not None:
            await later(lives[0])
    return said


async def answered(ask: Callable[[], Awaitable[object]]) -> str:
    """Return what a request is answered: the code of a typed error, or that it was done. A life is bounded, and with it every answer."""
    try:
        await ask()
    except JamError as error:
        told = error
    else:
        return DONE
    assert told.hint, told
    assert not told.code.startswith("fault."), told
    return told.code


async def require_answers(services: Services) -> None:
    """Require that a daemon answers what others ask."""
    for name in (SUBJECT, SIBLING):
        await services.rooms.get(name)
    assert await services.rooms.turns(SIBLING)


async def require_over(services: Services, world: World, scenario: Scenario) -> None:
    """Require that an action which was given up stays so, and that asking for it again changes nothing."""
    before = world.digest()
    assert await answered(lambda: scenario.ask(services, world)) in OVER
    require_same(before, world.digest())


def note_known(world: World) -> None:
    """Note the operations that there are before the request."""
    known = [str(identifier) for (identifier,) in world.rows("SELECT id FROM operations")]
    world.root.with_name(KNOWN).write_text(json.dumps(known))


def operations(world: World, kind: str) -> list[tuple[str, str]]:
    """Return state and result of the operations of a kind that came after :func:`note_known`, oldest first."""
    known = json.loads(world.root.with_name(KNOWN).read_text())
    rows = world.rows(f"SELECT id, state, result FROM operations WHERE kind = '{kind}' ORDER BY rowid")  # noqa: S608 - a name
    return [(state, result) for identifier, state, result in rows if str(identifier) not in known]
