"""Copilot with a real account, on whichever engine (LIVE-2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from jamcore.testing.live_rooms import turn_and_exact_resume

pytestmark = [
    pytest.mark.live("JAM_LIVE_COPILOT"),
    pytest.mark.needs("provider:copilot", "account:copilot", "variable:JAM_LIVE_MODEL", "engine:any"),
    pytest.mark.anyio,
    pytest.mark.timeout(3600),
]


async def test_a_turn_and_exact_resume_with_the_real_account(tmp_path: Path) -> None:
    """A turn changes a file, everything is killed, and the same conversation answers without looking into a file."""
    await turn_and_exact_resume(tmp_path, "copilot")
