"""Programs that are no good agents, or no longer well: every kind of nonsense becomes one typed error, and the process is gone."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import anyio
import pytest

from jam_acp.plugin import plugin_of
from jam_acp.profile import Profile
from jamcore.api import (
    ProviderGoneError,
    ProviderIdentity,
    ProviderProtocolError,
    ProviderRefusedError,
    ProviderRuntime,
    TextDelta,
    ThreadRequest,
    provider_identity,
)
from jamcore.testing.providers.bad_programs import KEPT, LIMIT_S, ProviderBadPrograms, collect
from jamcore.testing.providers.opening import ProviderHooks, hooks_of
from jamcore.testing.providers.standin import Bad, waits_for

pytestmark = [pytest.mark.unprivileged]


class TestBadPrograms(ProviderBadPrograms):
    """In the place of an agent of which only a plain profile is known. Each session has a program of its own."""

    wanted = ThreadRequest(cwd="/")
    nonsense = MappingProxyType(
        {
            "a line that is no JSON": ('send(b"thread main panicked\\n"); continue', ProviderProtocolError),
            "a line of 10 MB": ('send(b"{" + b"x" * 10_000_000 + b"}\\n"); continue', ProviderProtocolError),
            "a wrong id": ('send({"id": 4711, "result": {}}); continue', ProviderProtocolError),
            "an array": ('send(b"[]\\n"); continue', ProviderProtocolError),
            "half a message, then the end": ('send(b\'{"id": 3, "res\'); sys.exit(1)', ProviderGoneError),
            "the end": ("sys.exit(0)", ProviderGoneError),
            "a crash": ("os.kill(os.getpid(), 9)", ProviderGoneError),
        }
    )
    no_thread = MappingProxyType(
        {
            "an answer without a session": ("result({}); continue", ProviderProtocolError),
            "a session's id that is no text": ('result({"sessionId": 7}); continue', ProviderProtocolError),
            "a session's id of a megabyte": ('result({"sessionId": "x" * 1_000_000}); continue', ProviderProtocolError),
            "an error": ('error(-32603, "no"); continue', ProviderRefusedError),
        }
    )
    thread_places = ("new", "load")
    up_place = "initialize"
    not_up = MappingProxyType(
        {
            "an early end": ("sys.exit(3)", ProviderGoneError),
            "a banner": ("send(b'oops\\n')", ProviderProtocolError),
            "another protocol": ('result({"protocolVersion": 2}); continue', ProviderProtocolError),
            "no object": ("result([]); continue", ProviderProtocolError),
            "an error": ('error(-32603, "no"); continue', ProviderRefusedError),
        }
    )
    other_version = "1.2.4"
    version_words = r"1\.2\.3, not 1\.2\.4"
    another = MappingProxyType(
        {"load": 'told("user_message_chunk", session="another", content={"type": "text", "text": "x"}); result({}); continue'}
    )
    stray = (
        'told("agent_message_chunk", session="t", content={"type": "text", "text": "y"}); told("_auth/status_update");'
        'told("usage_update", used=1); told(7); send({"method": "who/knows", "params": {"a": 1}});'
        'send({"method": "session/update", "params": {"sessionId": "s", "update": 7}})'
    )
    kinds = ("turn.started", "text.delta", "message", "turn.ended")

    @pytest.fixture
    async def hooks(self, plain: Profile) -> ProviderHooks:
        """Those of the plain profile."""
        return await hooks_of(plain.name, plugin_of(plain))

    @pytest.fixture
    def bad(self, fake: Bad) -> Bad:
        """The stand-in is that of other tests, too."""
        return fake

    async def look_at_the_hung(self, runtime: ProviderRuntime, identity: ProviderIdentity) -> None:
        """Its turn still runs, as far as anybody knows."""
        with pytest.raises(ProviderRefusedError, match="running"):
            await collect(runtime, identity, [])

    @pytest.mark.guarantee("CONT-7")
    async def test_a_siblings_name_leaves_the_sibling_alone(self, bad: Bad, tmp_path: Path) -> None:
        """A session that comes back under the name of one that is loaded takes nothing from it: the turn there is still its own."""
        came = tmp_path / "came"
        sibling = 'told("user_message_chunk", session="s", content={"type": "text", "text": "x"}); result({}); continue'
        running = f'{waits_for(came)}\nsay("agent_message_chunk", " and more")'
        words = ""
        with anyio.fail_after(LIMIT_S):
            async with bad(load=sibling, running=running) as runtime:
                identity = await self.begin(runtime)
                async with runtime.turn(identity, "hello") as events:
                    async for event in events:
                        words += event.text if isinstance(event, TextDelta) else ""
                        if words == KEPT and not came.exists():
                            assert (await runtime.resume_thread(provider_identity("wanted"), self.wanted)).identity == identity
                            came.touch()
        assert words == f"{KEPT} and more"

    async def test_nonsense_instead_of_a_session_that_comes_back(self, bad: Bad, nonsense_in_turn: str) -> None:
        """A resume raises the typed error, and begins no other session."""
        statements, expected = self.nonsense[nonsense_in_turn]
        with anyio.fail_after(LIMIT_S):
            async with bad(load=statements) as runtime:
                with pytest.raises(expected):
                    await runtime.resume_thread(provider_identity("s"), self.wanted)
