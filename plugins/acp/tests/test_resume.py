"""Bringing a session of the real OpenCode back: exactly, from the captured database alone, or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType

import pytest

from jam_acp.profiles.opencode import DATABASE, OPENCODE
from jamcore.api import ProviderGoneError, ProviderRefusedError, ThreadRequest
from jamcore.testing.providers.case import Case, told
from jamcore.testing.providers.resume import ProviderResume
from jamcore.testing.servers.history import contains_in_order
from jamcore.testing.servers.script import Match, say

pytestmark = [pytest.mark.needs("opencode"), pytest.mark.unprivileged, pytest.mark.slow]


def sessions_in(case: Case) -> int:
    """Return how many sessions the database holds."""
    with closing(sqlite3.connect(case.guest.home / DATABASE)) as database:
        found: tuple[int] = database.execute("select count(*) from session").fetchone()
    return found[0]


class TestResume(ProviderResume):
    """OpenCode's."""

    refused_by = frozenset({"session/load"})
    every_digest = True
    damage = MappingProxyType({"garbage": lambda _: b"garbage" * 1_000})
    damage_error = ProviderGoneError  # it ends before it answers, and says why
    damage_words = "not a database"

    def hostile_files(self, case: Case, identity: str, mark: Path) -> Mapping[Path, str]:
        """Broken configuration, and some that leads elsewhere, wherever OpenCode looks for any."""
        elsewhere = '{"model": "other/x", "provider": {"jam": {"options": {"baseURL": "http://127.0.0.1:9/v1"}}}}'
        own = case.guest.state / "config" / "opencode"
        return {
            case.work / "opencode.json": "garbage [[[",
            case.work / ".opencode" / "opencode.json": "garbage [[[",
            case.guest.home / ".opencode" / "opencode.json": "garbage [[[",
            own / "opencode.json": elsewhere,
            own / "config.json": "garbage [[[",
        }

    def look_untouched(self, case: Case) -> None:
        """The database is there, and empty."""
        assert sessions_in(case) == 0

    def look_at_the_state(self, case: Case) -> None:
        """The one session is in the database; the state root holds configuration alone, and no library was fetched for plugins."""
        assert sessions_in(case) == 1
        prepared = {file.path for file in OPENCODE.prepared}
        lying = {str(path.relative_to(case.guest.state)) for path in case.guest.state.rglob("*") if path.is_file()}
        assert lying - prepared <= {"config/opencode/.gitignore"}
        assert not list(case.guest.home.rglob("*.npm*"))

    @pytest.mark.guarantee("CONT-1")
    async def test_a_session_goes_on_in_another_directory(self, case: Case) -> None:
        """OpenCode alone would go on in the old one, which is another workspace's or nobody's. Moved, it knows all and works in the new."""
        write = case.shell("moved", "pwd > here.txt", Match(last_user_contains="move", last_is_tool_output=False))
        elsewhere = case.guest.home.parent / "else where"
        elsewhere.mkdir()
        async with case.server(write, say("done", match=Match(last_user_contains="move")), *self.rules(case)) as model:
            async with case.opened(model) as runtime:
                identity = await case.begin(runtime)
                await case.turn(runtime, identity, "second")
                before = told(model)
            async with case.opened(model) as runtime:
                again = await case.resume(runtime, identity, cwd=elsewhere)
                await case.turn(runtime, identity, "move")
            after = told(model)
        assert (again.identity, len(again.turns)) == (identity, 1)
        assert contains_in_order(before, after) is None
        assert (elsewhere / "here.txt").read_text() == f"{elsewhere}\n"
        assert not (case.work / "here.txt").exists()

    @pytest.mark.guarantee("CONT-1")
    @pytest.mark.parametrize("name", ["it's", 'a "b"', "a\\b"])
    async def test_a_directory_whose_name_no_command_can_hold_is_refused(self, case: Case, name: str) -> None:
        """And the session is where it was."""
        (case.work / name).mkdir()
        async with case.server(*self.rules(case)) as model:
            async with case.opened(model) as runtime:
                identity = await case.begin(runtime)
            async with case.opened(model) as runtime:
                with pytest.raises(ProviderRefusedError, match="cannot be changed"):
                    await case.resume(runtime, identity, cwd=case.work / name)
            async with case.opened(model) as runtime:
                assert (await case.resume(runtime, identity)).identity == identity

    async def test_another_model_is_used_when_it_comes_back_with_one(self, case: Case) -> None:
        """OpenCode remembers the model of the last message; the one that a person chose since then wins."""
        async with case.server(*self.rules(case)) as model:
            async with case.opened(model) as runtime:
                identity = await case.begin(runtime)
                await case.turn(runtime, identity, "second")
            async with case.opened(model) as runtime:
                await runtime.resume_thread(identity, ThreadRequest(cwd=str(case.work), model="another/model"))
                await case.turn(runtime, identity, "fourth")
            names = [request.body["model"] for request in model.model_requests if isinstance(request.body, dict)]
        assert names == [case.provider.model, "another/model"]
