"""What OpenCode is known to do with conversations, and what of it has no other test (docs/provider-pitfalls.md)."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from jam_acp.profiles.opencode import DATABASE
from jamcore.api import FileChanged, ProviderEvent, ProviderRefusedError, TurnEnded
from jamcore.testing.providers.case import Case
from jamcore.testing.providers.kills import ProviderKills
from jamcore.testing.providers.pitfalls import LONG_AGO, ProviderPitfalls
from jamcore.testing.providers.turns import DONE

pytestmark = [pytest.mark.needs("opencode"), pytest.mark.unprivileged, pytest.mark.slow]


class TestPitfalls(ProviderPitfalls):
    """OpenCode's."""

    def age(self, case: Case) -> None:
        """Its database has the times of everything in rows."""
        with closing(sqlite3.connect(case.guest.home / DATABASE)) as database, database:
            for table in ("session", "message", "part"):
                database.execute(f"update {table} set time_created = ?, time_updated = ?", (LONG_AGO * 1000,) * 2)
        super().age(case)

    @pytest.mark.guarantee("CONT-1")
    async def test_a_session_that_is_loaded_is_not_loaded_again(self, case: Case) -> None:
        """A second process of it would write beside the first, and the agent says nothing of that; the first goes on."""
        async with case.running(*self.rules()) as (_, runtime):
            identity = await case.begin(runtime)
            await case.turn(runtime, identity, "first")
            with pytest.raises(ProviderRefusedError, match="loaded already"):
                await case.resume(runtime, identity)
            assert (await case.turn(runtime, identity, "second"))[-1] == DONE


class TestKills(ProviderKills):
    """OpenCode's; kills in the middle of a message and of a command are with its resumes.

    At the start nothing is held yet: a turn of it counts as begun when it is sent, so what it was asked may be lost with the kill.
    """

    @pytest.mark.guarantee("CONT-1", "CONT-11")
    @pytest.mark.parametrize("kind", [FileChanged, TurnEnded], ids=lambda kind: str(kind.__name__))
    async def test_a_kill_at_any_event_loses_no_finished_turn_and_no_text_of_the_person(
        self, case: Case, kind: type[ProviderEvent]
    ) -> None:
        """Once it has done something all of it is written down."""
        await super().test_a_kill_at_any_event_loses_no_finished_turn_and_no_text_of_the_person(case, kind)
