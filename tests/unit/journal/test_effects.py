"""Between two boundaries lies one durable or external effect, so that no kill can fall between two effects unseen (WS-12)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from sqlalchemy import Connection, event

from jamcore.journal.runner import Runner
from jamcore.journal.steps import Action, Step

if TYPE_CHECKING:
    from tests.unit.journal.conftest import Lives, Move

EFFECT = "effect"


class Trace:
    """Boundaries and effects in the order in which they happened."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def reach(self, point: str) -> None:
        """Note a boundary."""
        self.seen.append(point)

    def effect(self, *_: object) -> None:
        """Note an effect."""
        self.seen.append(EFFECT)

    def crowded(self) -> list[tuple[str, str]]:
        """Return where two effects follow each other."""
        return [(a, b) for a, b in pairwise(self.seen) if a == b == EFFECT]


@pytest.mark.guarantee("WS-12")
async def test_one_effect_between_two_boundaries(lives: Lives) -> None:
    """Traced through the real database's commits and the acts of a whole run."""
    trace = Trace()
    async with lives.live() as life:
        engine = life.journal._store._engine

        def committed(connection: Connection) -> None:
            if not connection.get_execution_options()["jam_read"]:
                trace.effect()

        event.listen(engine, "commit", committed)
        traced = [_traced(step, trace) for step in lives.world.action().steps]
        await Runner(life.journal, trace).run(Action("move", type(lives.begin), traced), UUID(int=1), lives.begin)
        event.remove(engine, "commit", committed)
    assert trace.crowded() == []
    assert trace.seen.count(EFFECT) == 1 + 3 * 3 + 1


def _traced(step: Step[Move], trace: Trace) -> Step[Move]:
    async def act(record: Move) -> Move:
        trace.effect()
        return await step.act(record)

    return Step(step.name, act, step.on_restart, intend=step.intend, observe=step.observe)
