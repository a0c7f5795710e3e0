"""Gate: an organisation's network denial is authoritative (LIVE-2, NET-3). For engines with network rules of an organisation's policy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jamcore.domain.errors import JamError
from jamcore.domain.requests import EndpointChoice
from jamcore.testing.live_rooms import live_jam

DENIED = "JAM_LIVE_DENIED_HOST"
"""A host with an HTTPS server that the organisation's policy denies, and that this machine itself reaches."""

pytestmark = [
    pytest.mark.live("JAM_LIVE_NETWORK_DENIAL"),
    pytest.mark.needs("engine:network-rules", "variable:JAM_LIVE_DENIED_HOST", "provider:codex", "account:codex"),
    pytest.mark.anyio,
    pytest.mark.timeout(1800),
]


async def test_what_the_organisation_denies_is_reached_by_nobody(tmp_path: Path) -> None:
    """No guest reaches the host, and a room whose model endpoint it is does not come up: Jam asks for no way around, and finds none."""
    denied = os.environ[DENIED]
    look = f"curl --silent --max-time 20 --output /dev/null https://{denied}/ && echo reached || echo not-reached"
    async with live_jam(tmp_path, "codex") as jam:
        room = await jam.open()
        found = await jam.run_command(room, f"({look}) > found.txt 2>&1")
        assert "+not-reached\n" in found
        request = jam.request().model_copy(update={"endpoint": EndpointChoice(origin=f"https://{denied}")})
        with pytest.raises(JamError) as refused:
            await jam.client.create_room(request)
        assert refused.value.hint
        found = await jam.run_command(room, f"({look}) > again.txt 2>&1")
        assert found.count("+not-reached\n") == 2, "what was refused opened the way for others"
