"""Two rooms of a provider at once, and kills at boundaries of their turns that are drawn: each comes back as exactly itself.

Where the provider's rooms can share a host they do; otherwise each has its own. After every kill both rooms are brought back and asked, and
the requests that the model then gets are the proof.
"""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
from anyio import to_thread

from jamcore.domain.cells import Placement
from jamcore.domain.sessions import Turn, TurnState
from jamcore.testing.crash import Lives
from jamcore.testing.daemon import kill, parked, victims
from jamcore.testing.exchanges import LOG, Exchange, Question
from jamcore.testing.scenario.rows import PLACES, ProviderRow
from jamcore.testing.scenario.world import Machine, Told, ended, machine, modelled

ROOMS = 2
MARK = re.compile(r"room(\d+)x[0-9a-f]+")
"""What everything that is said, done or answered in a room carries."""
Victim = Literal["daemon", "sandbox", "provider"]


@dataclass(frozen=True, slots=True)
class Round:
    """One kill: where each room's model stands still then, ``None`` for one that is idle, and what each is asked afterwards."""

    victim: Victim
    exchanges: tuple[Exchange | None, ...]
    questions: tuple[Question, ...]

    def __str__(self) -> str:
        """Name the moment."""
        return f"{self.victim} killed at {', '.join(each.holds if each else 'rest' for each in self.exchanges)}"


def victims_of(row: ProviderRow) -> tuple[Victim, ...]:
    """Return what can be killed: a sandbox of its own among several, and a stand-in's program, are not told apart from outside."""
    if not row.shared:
        return ("daemon",)
    return ("daemon", "sandbox") if row.standin else ("daemon", "sandbox", "provider")


def draw(row: ProviderRow, random_: random.Random, rounds: int) -> tuple[Round, ...]:
    """Draw rounds: every victim in turn, and for one room or both a boundary of a turn."""

    def token(room: int) -> str:
        return f"room{room}x{random_.getrandbits(40):010x}"

    possible = victims_of(row)
    made = []
    for number in range(rounds):
        busy = set(random_.sample(range(ROOMS), random_.randint(1, ROOMS)))
        exchanges = tuple(
            Exchange.make(f"task {number}", token(room), random_.choice(PLACES), row.shell) if room in busy else None
            for room in range(ROOMS)
        )
        questions = tuple(Question.make(f"round {number}", token(room)) for room in range(ROOMS))
        made.append(Round(possible[number % len(possible)], exchanges, questions))
    return tuple(made)


@dataclass(slots=True)
class Kills:
    """Both rooms and the rounds that are played with them."""

    here: Machine
    rounds: tuple[Round, ...]
    openings: tuple[Question, ...]
    rooms: tuple[Told, ...] = ()

    async def open(self) -> None:
        """Make the rooms and say something in each, so that each has a thread of its own."""
        placement = Placement.SHARED if self.here.row.shared else Placement.DEDICATED
        self.rooms = tuple([await self.here.open(placement=placement) for _ in range(ROOMS)])
        assert len({told.view.host.id for told in self.rooms}) == (1 if self.here.row.shared else ROOMS)
        await self._each(self.openings, self.here.remembers)
        assert len({told.identity for told in self.rooms}) == ROOMS

    async def play(self, round_: Round) -> None:
        """Play one round."""
        turns: dict[int, Turn] = {}
        for number, exchange in enumerate(round_.exchanges):
            if exchange is not None:
                turns[number] = await self.here.say(self.rooms[number], exchange)
        struck = await self._strike(round_)
        for number, exchange in enumerate(round_.exchanges):
            if exchange is not None and number not in struck:  # its own program lives, and its turn ends as if nothing had been
                await ended(self.here.client, self.rooms[number], turns[number], TurnState.CAPTURED)
                self.rooms[number].expected.extend(exchange.items())
        for told in self.rooms:  # one after the other: the first brings a shared host up, the others join it
            await self.here.come_back(told)
        for number, exchange in enumerate(round_.exchanges):
            if exchange is not None and number in struck:
                turn = await self.here.state(self.rooms[number], turns[number])
                if exchange.holds == "item-done" and turn.state is TurnState.CAPTURED:
                    # Its last word was whole, and some agents tell of no other end when they tell a conversation again.
                    self.rooms[number].expected.extend(exchange.items())
                    continue
                assert turn.state is TurnState.CUT, f"its answer never ended: {turn}"
                self.here.cut(self.rooms[number], exchange, turn, outlived=round_.victim != "daemon")
        await self._each(round_.questions, self.here.remembers)

    async def end(self) -> None:
        """Look at what each room's commands wrote, and at what each was told: nothing of the other one."""
        for number, told in enumerate(self.rooms):
            self.here.sound(told)
            events = [event.payload.model_dump_json() async for event in self.here.client.events(told.ref, after=0, follow=False)]
            for words in (" ".join(self.here.log(told)), "".join(events), str(told.expected)):
                assert {int(found) for found in MARK.findall(words)} <= {number}, "something of another room"
            assert not (self.here.work(told).parent / LOG).exists()

    async def _strike(self, round_: Round) -> frozenset[int]:
        """Kill, and return whose program died: of programs that serve one room each only the first room's is killed."""
        held = [exchange for exchange in round_.exchanges if exchange is not None]
        if round_.victim == "daemon":
            await self.here.kill(*held)
            return frozenset(range(ROOMS))
        found = victims(self.here.daemon.pid)
        assert found is not None
        target = found.init if round_.victim == "sandbox" else found.provider
        assert target is not None
        await to_thread.run_sync(kill, (target,))
        struck = frozenset({0} if round_.victim == "provider" and self.here.row.own_process else range(ROOMS))
        for number in struck:
            await parked(self.here.client, self.rooms[number].ref)
        for exchange in held:
            self.here.model.release(exchange.gate)
        return struck

    async def _each(self, questions: tuple[Question, ...], ask: Callable[[Told, Question], Coroutine[Any, Any, None]]) -> None:
        async with anyio.create_task_group() as tasks:
            for told, question in zip(self.rooms, questions, strict=True):
                tasks.start_soon(ask, told, question)


@asynccontextmanager
async def kills(row: ProviderRow, directory: Path, lives: Lives, random_: random.Random, rounds: int) -> AsyncIterator[Kills]:
    """Draw the rounds, and run the machine on which they are played."""
    drawn = draw(row, random_, rounds)
    openings = tuple(Question.make("the opening", f"room{number}x0") for number in range(ROOMS))
    parts: list[Exchange | Question] = [*openings]
    for round_ in drawn:
        parts += [*(exchange for exchange in round_.exchanges if exchange is not None), *round_.questions]
    async with modelled(row, parts) as model, machine(row, directory, model, parts, lives) as here:
        yield Kills(here, drawn, openings)
