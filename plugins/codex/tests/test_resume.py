"""Bringing a thread of the real Codex back: exactly, from the captured files alone, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from jamcore.testing.providers.case import Case
from jamcore.testing.providers.kills import ProviderKills
from jamcore.testing.providers.resume import ProviderResume

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
        await self.let_go_of_and_back(case)


class TestKills(ProviderKills):
    """Codex's."""
