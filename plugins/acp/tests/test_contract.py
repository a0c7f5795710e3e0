"""What the pinned OpenCode says of itself, and what the plugin reads of it: a new pin that differs is noticed here first."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import anyio
import pytest

from jam_acp.failures import is_unknown_session
from jam_acp.profiles.opencode import OPENCODE, VERSION
from jam_acp.runtime import AcpRuntime
from jamcore.api import ProviderRuntime, RemoteError, ThreadRequest, entries, member
from jamcore.testing.local_guest import LocalGuest
from jamcore.testing.servers.chat import ChatServer
from jamcore.testing.servers.script import Script
from jamcore.testing.servers.server import ModelServer

pytestmark = [pytest.mark.needs("opencode"), pytest.mark.anyio, pytest.mark.slow]

OpenRuntime = Callable[[LocalGuest, ModelServer], AbstractAsyncContextManager[ProviderRuntime]]
UNKNOWN = "ses_dd42c930cffe9QnJMC2uY5hKY7"


async def test_it_offers_what_the_profile_uses(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Sessions can be loaded and listed; one has a mode and the model that was asked for, each as an option."""
    async with ChatServer(Script()) as model, open_runtime(guest, model) as runtime:
        assert isinstance(runtime, AcpRuntime)
        assert runtime.version == VERSION
        await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model="some/model"))
        [agent] = runtime._agents
        assert agent.version == VERSION
        assert agent.can("loadSession")
        assert agent.can("sessionCapabilities", "list")
        answer = await agent.ask("session/new", {"cwd": str(guest.work), "mcpServers": []})
        listed = await agent.ask("session/list", {})
    options = {str(option.get("category")): option.get("currentValue") for option in entries(member(answer, "configOptions"))}
    assert options == {"model": "jam/some/model", "mode": "build"}
    assert member(answer, "sessionId") in [entry.get("sessionId") for entry in entries(member(listed, "sessions"))]
    assert len(entries(member(listed, "sessions"))) == 2


@pytest.mark.parametrize(
    ("method", "more"),
    [("session/load", {"mcpServers": []}), ("session/prompt", {"prompt": [{"type": "text", "text": "x"}]})],
    ids=["load", "prompt"],
)
async def test_a_session_that_it_does_not_know_has_a_form_that_is_known(
    guest: LocalGuest, open_runtime: OpenRuntime, method: str, more: dict[str, object]
) -> None:
    """Another one for each request, and none is the protocol's own."""
    async with ChatServer(Script()) as model, open_runtime(guest, model) as runtime:
        assert isinstance(runtime, AcpRuntime)
        await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model="some/model"))
        [agent] = runtime._agents
        with anyio.fail_after(60), pytest.raises(RemoteError) as caught:
            await agent.ask(method, {"sessionId": UNKNOWN, "cwd": str(guest.work), **more})
    assert is_unknown_session(caught.value, OPENCODE)
