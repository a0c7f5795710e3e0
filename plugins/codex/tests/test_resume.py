"""Bringing a thread of the real Codex back: exactly, from the captured files alone, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from jamcore.api import ProviderRefusedError, ReleasesThreads, provider_identity
from jamcore.testing.providers.case import Case
from jamcore.testing.providers.kills import ProviderKills
from jamcore.testing.providers.resume import ProviderResume
from jamcore.testing.providers.turns import DONE

pytestmark = [pytest.mark.needs("codex"), pytest.mark.unprivileged]


class TestResume(ProviderResume):
    """Codex's."""

    refused_by = frozenset({"thread/resume"})
    cut_output = "aborted"

    def hostile_files(self, case: Case, identity: str, mark: Path) -> Mapping[Path, str]:
        """Configuration that is broken in the repository, and leads elsewhere in Codex's home."""
        (case.work / ".git").mkdir()
        elsewhere = 'model_provider = "other"\n[model_providers.jam]\nbase_url = "http://127.0.0.1:9"\n'
        return {case.work / ".codex" / "config.toml": "garbage [[[\n", case.guest.state / "config.toml": elsewhere}

    @pytest.mark.guarantee("CONT-7")
    async def test_a_thread_that_was_let_go_of_takes_no_turn_and_comes_back(self, case: Case) -> None:
        """In the same program, which serves other threads meanwhile."""
        async with case.server(*self.rules(case)) as model, case.opened(model) as runtime:
            assert isinstance(runtime, ReleasesThreads)
            identity = await case.begin(runtime)
            await case.turn(runtime, identity, "first")
            await runtime.release_thread(provider_identity(identity))
            with pytest.raises(ProviderRefusedError, match="not loaded"):
                await case.turn(runtime, identity, "fourth")
            await runtime.release_thread(provider_identity(identity))
            again = await case.resume(runtime, identity)
            assert (again.identity, len(again.turns)) == (identity, 1)
            assert (await case.turn(runtime, identity, "fourth"))[-1] == DONE


class TestKills(ProviderKills):
    """Codex's."""
