"""What a failing model endpoint does to a room of each provider: its turn ends, by the agent's word or by Jam's, and the room goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from jamcore.domain.events import TurnEnded, TurnOutcome
from jamcore.domain.requests import TurnRequest
from jamcore.domain.sessions import TurnState
from jamcore.testing.crash import Lives
from jamcore.testing.exchanges import Question
from jamcore.testing.rooms import new_id
from jamcore.testing.scenario.rows import ProviderRow
from jamcore.testing.scenario.world import Machine, Told, ended, machine
from jamcore.testing.servers.faults import CutFault, DownFault, Fault, HttpFault, SilentFault
from jamcore.testing.servers.script import Match, Rule, Text

TURN_S, IDLE_S = 60, 15
"""The bounds of the daemon for a turn: some agents try a failing model again for ever, or for minutes."""
FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        "too many requests": HttpFault(status=429),
        "the model is down": DownFault(),
        "a cut stream": CutFault(after_deltas=1),
        "a stalled stream": SilentFault(after_deltas=1),
    }
)


@dataclass(slots=True)
class Faults:
    """One room, and the faults that it meets."""

    here: Machine
    questions: Mapping[str, Question]
    room: Told = field(init=False)

    async def open(self) -> None:
        """Make the room and have a turn."""
        self.room = await self.here.open()
        await self.here.remembers(self.room, self.questions["the opening"])

    async def meet(self, name: str) -> str:
        """Have a turn that never gets its whole answer, then one that does, and return the code with which the first one ended."""
        said = _failing(name)
        turn = await self.here.client.say(self.room.ref, TurnRequest(id=new_id(), text=said))
        await ended(self.here.client, self.room, turn, TurnState.FAILED)
        events = [e.payload async for e in self.here.client.events(self.room.ref, after=0, follow=False) if e.turn_id == turn.id]
        (end,) = [payload for payload in events if isinstance(payload, TurnEnded)]
        assert end.outcome is TurnOutcome.FAILED
        assert end.code in self.here.row.codes_of(name), end
        assert end.detail
        assert [r for r in self.here.model.model_requests if said in r.last_user_text], "the model was not asked"
        assert (await self.here.client.room(self.room.ref)).live
        await self.here.remembers(self.room, self.questions[name])
        return end.code


@asynccontextmanager
async def faults(row: ProviderRow, directory: Path, lives: Lives) -> AsyncIterator[Faults]:
    """Run the machine of a room whose model fails."""
    questions = {name: Question.make(name, f"q{number}x") for number, name in enumerate(("the opening", *FAULTS))}
    failing = [
        Rule(match=Match(last_user_contains=_failing(name)), answer=(Text(deltas=(f"{name}: never ", "whole")),), fault=fault)
        for name, fault in FAULTS.items()
    ]
    rules = (*(rule for question in questions.values() for rule in question.rules()), *failing)
    bounds = {"JAM_TURN_TIMEOUT_S": f"{TURN_S}", "JAM_TURN_IDLE_TIMEOUT_S": f"{IDLE_S}"}
    async with (
        row.model_server(*rules) as model,
        machine(row, directory, model, tuple(questions.values()), lives, **bounds) as here,
    ):
        yield Faults(here, questions)


def _failing(name: str) -> str:
    return f"This meets {name}."
