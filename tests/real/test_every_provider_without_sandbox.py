"""Every provider in the engine that isolates nothing: other places, an endpoint behind a word of its own, and an agent that asks."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from jamcore.domain import layout
from jamcore.domain.approvals import ApprovalAnswer, DecisionRequest
from jamcore.domain.events import ApprovalRequested
from jamcore.testing.crash import Lives
from jamcore.testing.exchanges import LOG, Exchange, Question
from jamcore.testing.rooms import new_id
from jamcore.testing.scenario.rows import ProviderRow, rows_of
from jamcore.testing.scenario.world import Machine, Told, machine, modelled
from jamcore.testing.sources import workspace_root

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
ROWS = rows_of(workspace_root(Path(__file__)))


@pytest.mark.guarantee("CONT-1", "PLAN-5")
@pytest.mark.parametrize("row", [pytest.param(row, marks=pytest.mark.needs(*row.own_needs), id=row.provider) for row in ROWS])
async def test_a_room_works_and_comes_back(row: ProviderRow, tmp_path: Path, lives: Lives) -> None:
    """Its requests reach the model through the relay, an allowed turn changes a file, and resumed it is the same conversation."""
    work = Exchange.make("work", "t0x", shell=row.shell)
    questions = [Question.make(name, f"q{number}x") for number, name in enumerate(("first", "second"))]
    parts: tuple[Exchange | Question, ...] = (work, *questions)
    async with modelled(row, parts) as model, machine(row, tmp_path, model, parts, lives) as here:
        told = await here.open(engine="local")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(allow, here, told)
            await here.turn(told, work)
            tasks.cancel_scope.cancel()
        [log] = (here.app / layout.HOST_NATIVE).rglob(LOG)
        assert log.read_text() == f"{work.token}\n"
        await here.remembers(told, questions[0])
        await here.client.stop(told.ref)
        await here.come_back(told)
        await here.remembers(told, questions[1])


async def allow(here: Machine, told: Told) -> None:
    """Allow what the agent of a room asks for, as a person would."""
    async for event in here.client.events(told.ref, after=0, follow=True):
        if isinstance(event.payload, ApprovalRequested):
            yes = DecisionRequest(id=new_id(), decision=ApprovalAnswer.ALLOW)
            await here.client.approvals.decide(event.payload.request, yes)
