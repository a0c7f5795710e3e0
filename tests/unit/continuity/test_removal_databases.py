"""The pages of databases are needed as well: they outlive the generation that stored them (WS-9, CONT-10)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jamcore.domain.continuity import ActivationPlan, ResumeSource
from jamcore.testing.databases import Conversation
from tests.unit.continuity.removing import Removals, bytes_on_disk, require_sound, stored_units
from tests.unit.continuity.test_databases import CAPTURES, DATABASE, Chat

if TYPE_CHECKING:
    from tests.unit.continuity.conftest import MakeWorld

pytestmark = [pytest.mark.anyio, pytest.mark.guarantee("WS-9")]


async def test_a_database_comes_back_after_the_generations_that_stored_its_pages_went(
    make_world: MakeWorld, tmp_path: Path
) -> None:
    """Pages that did not change since lie in the packs of generations that are removed; exactly the others are freed."""
    async with make_world(tmp_path / "app", captures=CAPTURES, plan=ActivationPlan()) as world:
        world.log().write_bytes(b"{}\n")
        chat = Chat(world, Conversation(world.home / DATABASE))
        texts = []
        for number in range(4):
            texts.append(f"{number} " + "x" * 9000)
            chat.chat.say(texts[-1])
            await chat.capture()
        made = sorted(world.store.checkpoints.values(), key=lambda row: row.generation)
        removals = Removals(world)
        plan = await removals.plan(*made[:3])
        before = bytes_on_disk(world)
        await removals.run(removals.intent(plan))
        assert before - bytes_on_disk(world) == plan.bytes_freed > 0
        assert plan.bytes_copied > 0
        units = stored_units(world)
        assert len(units) == len(set(units))
        require_sound(world, made[3:])
        chat.lose()
        assert (await chat.place()).source is ResumeSource.GENERATION
        assert chat.chat.texts() == texts
