"""OpenCode with a real account, on whichever engine (LIVE-2). It has no endpoint of its own, so a person names one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jamcore.testing.live_rooms import EndpointChoice, turn_and_exact_resume

CHOSEN = "JAM_LIVE_OPENCODE_ENDPOINT"

pytestmark = [
    pytest.mark.live("JAM_LIVE_OPENCODE"),
    pytest.mark.needs("provider:opencode", "variable:JAM_LIVE_OPENCODE_ENDPOINT", "variable:JAM_LIVE_MODEL", "engine:any"),
    pytest.mark.anyio,
    pytest.mark.timeout(3600),
]


async def test_a_turn_and_exact_resume_with_the_real_account(tmp_path: Path) -> None:
    """A turn changes a file, everything is killed, and the same conversation answers without looking into a file."""
    endpoint = EndpointChoice(origin=os.environ[CHOSEN], credential="opencode")
    await turn_and_exact_resume(tmp_path, "opencode", endpoint=endpoint)
