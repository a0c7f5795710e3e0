"""An agent that has no model of its own: a room that names none is refused before anything of it exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from jamcore.control.failures import RemoteRefusalError
from jamcore.testing.crash import Lives
from jamcore.testing.daemon import DaemonChild, place_toolchain, running_daemon
from jamcore.testing.rooms import managed

pytestmark = [pytest.mark.anyio, pytest.mark.needs("bubblewrap")]


@pytest.mark.parametrize("provider", [pytest.param("copilot", marks=pytest.mark.needs("provider:copilot"))])
async def test_a_room_without_a_model_is_refused_where_the_agent_has_none(provider: str, tmp_path: Path, lives: Lives) -> None:
    """The part that is missing is named, and no room is left whose every turn would fail."""
    app = tmp_path / "app"
    await place_toolchain(app, provider)
    async with running_daemon(DaemonChild(app, private=tmp_path / "private", lives=lives)) as client:
        with pytest.raises(RemoteRefusalError) as refused:
            await client.create_room(managed(provider, "http://127.0.0.1:9"))
        assert refused.value.code == "plan.refused"
        assert refused.value.context()["part"] == "model"
        assert await client.rooms() == ()
