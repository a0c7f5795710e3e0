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
from jamcore.testing.providers.case import Case
from jamcore.testing.providers.resume import ProviderResume

pytestmark = [pytest.mark.needs("opencode"), pytest.mark.unprivileged, pytest.mark.slow]


def sessions_in(case: Case) -> int:
    """Return how many sessions the database holds."""
    with closing(sqlite3.connect(case.guest.home / DATABASE)) as database:
        found: tuple[int] = database.execute("select count(*) from session").fetchone()
    return found[0]


class TestResume(ProviderResume):
    """OpenCode's."""

    refused_by = frozenset({"session/load"})
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
    async def test_a_session_whose_directory_is_another_one_is_refused(self, case: Case) -> None:
        """OpenCode would go on in the old directory, which is another workspace's or nobody's."""
        async with case.running(*self.rules(case)) as (_, runtime):
            identity = await case.begin(runtime)
            elsewhere = case.work / "elsewhere"
            elsewhere.mkdir()
            with pytest.raises(ProviderRefusedError, match="keeps the session's directory"):
                await case.resume(runtime, identity, cwd=elsewhere)

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
