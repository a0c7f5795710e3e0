"""Gate: an organisation's network denial is authoritative (LIVE-2, NET-3)."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from jamcore.domain.errors import JamError
from jamcore.testing.live_rooms import EndpointChoice, live_jam, try_to_reach

DENIED = "JAM_LIVE_DENIED_HOST"
"""``HOST:PORT`` of an HTTPS server that the organisation's policy denies to sandboxes, and that this machine itself reaches."""

pytestmark = [
    pytest.mark.live("JAM_LIVE_NETWORK_DENIAL"),
    pytest.mark.needs("variable:JAM_LIVE_DENIED_HOST", "provider:codex", "account:codex", "engine:any"),
    pytest.mark.anyio,
    pytest.mark.timeout(1800),
]


def require_denied(found: str) -> None:
    """Read what the command of :func:`try_to_reach` wrote: neither directly nor through a proxy."""
    assert "+tcp-denied\n" in found, found
    assert "tcp-reached" not in found
    assert "+curl-0\n" not in found


async def test_no_guest_reaches_what_the_organisation_denies(tmp_path: Path) -> None:
    """The same address that this machine reaches: not from the sandbox, whatever stands between."""
    host, _, port = os.environ[DENIED].rpartition(":")
    async with await anyio.connect_tcp(host, int(port)):
        pass  # without this a typing error would read as a denial
    async with live_jam(tmp_path, "codex") as jam:
        room = await jam.open()
        require_denied(await jam.run_command(room, try_to_reach(host, port)))


@pytest.mark.needs("engine:network-rules")
async def test_a_denied_endpoint_is_refused_and_opens_nothing(tmp_path: Path) -> None:
    """Jam asks for no way around: a room whose model endpoint it is does not come up, and afterwards it is as closed as before."""
    host, _, port = os.environ[DENIED].rpartition(":")
    async with live_jam(tmp_path, "codex") as jam:
        request = jam.request().model_copy(update={"endpoint": EndpointChoice(origin=f"https://{host}:{port}")})
        with pytest.raises(JamError) as refused:
            await jam.client.create_room(request)
        assert refused.value.hint
        room = await jam.open()
        require_denied(await jam.run_command(room, try_to_reach(host, port)))
