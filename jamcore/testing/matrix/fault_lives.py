"""The lives of a fault matrix: one in which a file-system call fails, and the one after it (see :mod:`jamcore.testing.matrix.lives`)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import UUID

from jamcore.daemon.services import Services
from jamcore.domain.records import Record
from jamcore.testing.matrix.faults import FailingFiles, Fault, Faults
from jamcore.testing.matrix.faulty_lives import DONE, OVER, answered, require_answers, require_over
from jamcore.testing.matrix.lives import plugged, require_exact_retries, require_sound_exports
from jamcore.testing.matrix.scenario import Scenario
from jamcore.testing.matrix.scenarios import SCENARIOS
from jamcore.testing.parked_world import FIRST_ASKED, World, living

CALLED, ANSWERED = "called", "answered"
"""Files beside a world: the calls of a whole run, and what came of a life in which something failed."""
ANEW = UUID(int=90 << 100)
"""The first id of those under which an action is asked for anew that has ended without success."""


class Answers(Record):
    """What requests were answered with: that it was done, or the code of an error; empty for one that was not made.

    Attributes:
        first: While something failed.
        again: In the same words, of the same daemon.
        anew: Of the same daemon, when the action had ended without success.
        asked: The id of the last request.
    """

    first: str
    again: str = ""
    anew: str = ""
    asked: UUID = FIRST_ASKED


async def watch(root: Path, kind: str, delay_s: float) -> None:
    """Ask for the action, and note its calls; each may be late."""
    scenario = SCENARIOS[kind]
    faults = Faults(root, delay_s=delay_s, kind=None if scenario.has_words else kind)
    with plugged(root):
        async with _met(World(root), scenario, faults) as (_, first):
            assert first == DONE, first
    root.with_name(CALLED).write_text("".join(f"{call.line()}\n" for call in faults.calls))


async def fail(root: Path, kind: str, fault: Fault) -> None:
    """Ask for the action while something fails; then see that the daemon lives, and ask again, and anew if it is over."""
    world, scenario = World(root), SCENARIOS[kind]
    faults = Faults(root, fault, kind=None if scenario.has_words else kind)
    with plugged(root):
        async with _met(world, scenario, faults) as (services, first):
            assert faults.met, "the call was not made"
            scenario.holds(world)
            await require_answers(services)
            answers = Answers(first=first, again=await answered(lambda: scenario.ask(services, world)))
            if answers.again in OVER or not scenario.has_words:
                world = replace(world, asked=ANEW)
                anew = await answered(partial(_ask_anew, services, world, scenario))
                answers = answers.model_copy(update={"anew": anew, "asked": ANEW})
            if not fault.state:
                assert DONE in (answers.again, answers.anew), answers
            scenario.holds(world)
            await require_answers(services)
    root.with_name(ANSWERED).write_text(answers.model_dump_json())


async def end(root: Path, kind: str) -> None:
    """Start when nothing fails any more, have it brought to its end, and require everything that must be true from then on."""
    noted, scenario = root.with_name(ANSWERED), SCENARIOS[kind]
    answers = Answers.model_validate_json(noted.read_bytes())
    world = World(root, answers.asked)
    with plugged(root):
        async with living(world) as services:
            again = await answered(lambda: scenario.ask(services, world))
            if again in OVER:
                await require_over(services, world, scenario)
                world = World(root, UUID(int=answers.asked.int + 1))
            if again in OVER or not scenario.has_words:
                await _ask_anew(services, world, scenario)
            assert await answered(lambda: scenario.ask(services, world)) == DONE
            assert world.unfinished() == []
            await scenario.check(services, world)
            await require_sound_exports(services)
            await require_exact_retries(services, world, scenario)
    noted.write_text(answers.model_copy(update={"asked": world.asked}).model_dump_json())


async def _ask_anew(services: Services, world: World, scenario: Scenario) -> None:
    await scenario.look_again(services, world)
    await scenario.ask(services, world)


@asynccontextmanager
async def _met(world: World, scenario: Scenario, faults: Faults) -> AsyncIterator[tuple[Services, str]]:
    """Live and ask, or have the start do what nobody asks for, while the faults are met; yield what lives and its answer."""
    faults.begin()
    with ExitStack() as start:
        if not scenario.has_words:
            start.enter_context(faults.during())
        async with living(world, files=FailingFiles(faults), crash=faults) as services:
            start.close()
            with faults.during() if scenario.has_words else nullcontext():
                first = await answered(lambda: scenario.ask(services, world))
            yield services, first
