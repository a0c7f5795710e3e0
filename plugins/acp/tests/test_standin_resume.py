"""Coming back, of agents that are a few lines of Python: what is told again, what is blank, what another says."""

from __future__ import annotations

import anyio
import pytest
from pydantic import ValidationError

from jam_acp.agent import Agent
from jam_acp.plugin import plugin_of
from jam_acp.profile import Profile, Resume
from jam_acp.runtime import AcpRuntime
from jamcore.api import (
    ProviderEvent,
    ProviderRefusedError,
    ProviderTimeoutError,
    TextDelta,
    ThreadRequest,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    provider_identity,
)
from jamcore.testing.local_guest import LocalGuest
from jamcore.testing.provider_turns import run_turn
from jamcore.testing.providers.bad_programs import collect
from jamcore.testing.providers.standin import Bad

pytestmark = [pytest.mark.unprivileged]

QUIET = ThreadRequest(cwd="/")


async def test_what_is_told_again_is_not_shown(fake: Bad) -> None:
    """The old answer is in no turn's events; the turns that it makes are known."""
    seen: list[ProviderEvent] = []
    async with fake() as runtime:
        again = await runtime.resume_thread(provider_identity("s"), QUIET)
        await collect(runtime, "s", seen, "next")
    assert (again.identity, [turn.outcome for turn in again.turns]) == ("s", [TurnOutcome.COMPLETED])
    assert [event.text for event in seen if isinstance(event, TextDelta)] == ["kept"]
    assert isinstance(seen[0], TurnStarted)
    assert seen[0].provider_turn.startswith("2-")


@pytest.mark.guarantee("CONT-1")
@pytest.mark.parametrize(
    ("places", "words"),
    [
        ({"load": "result({}); continue"}, "a new, blank one"),
        ({"load": "result({}); continue", "list": 'error(-32603, "no"); continue'}, "a new, blank one"),
        ({"load": "result({}); continue", "list": 'result({"sessions": [{"sessionId": "t"}]}); continue'}, "a new, blank one"),
        ({"load": 'result({"sessionId": "s"}); continue'}, "a new, blank one"),
        ({"load": 'say("agent_message_chunk", "Welcome!"); result({"sessionId": "s"}); continue'}, "a new, blank one"),
        ({"load": 'error(-32002, "Resource not found"); continue'}, "Resource not found"),
        ({"initialize": "CAPABLE = {}"}, "does not offer to bring sessions back"),
        ({"initialize": 'CAPABLE = {"loadSession": False}'}, "does not offer to bring sessions back"),
    ],
    ids=[
        "blank",
        "blank and no list",
        "blank and not listed",
        "blank under its name",
        "blank and polite",
        "unknown",
        "cannot",
        "says no",
    ],
)
async def test_a_session_that_is_not_the_old_one_is_refused(fake: Bad, places: dict[str, str], words: str) -> None:
    """An existing name that begins blank, a name that nobody knows, an agent that cannot: a refusal, and no turn in anything else."""
    async with fake(**places) as runtime:
        with pytest.raises(ProviderRefusedError, match=words):
            await runtime.resume_thread(provider_identity("s"), QUIET)
        with pytest.raises(ProviderRefusedError, match="not loaded"):
            await run_turn(runtime, "s", "hello")


async def test_an_agent_is_never_asked_for_a_session_that_it_does_not_tell_again(plain: Profile, fake: Bad) -> None:
    """Nobody could tell the old one from a blank one: a profile cannot say so, and one that offers nothing else is refused."""
    with pytest.raises(ValidationError, match="resume"):
        Profile.model_validate({**plain.model_dump(), "resume": "resume"})
    async with fake(initialize='CAPABLE = {"sessionCapabilities": {"list": {}, "resume": {}}}') as runtime:
        with pytest.raises(ProviderRefusedError, match="does not offer to bring sessions back"):
            await runtime.resume_thread(provider_identity("s"), QUIET)


async def test_a_session_without_a_turn_is_proven_by_the_list(fake: Bad) -> None:
    """There is nothing to tell again; the list of sessions, page by page, says that it is there."""
    pages = (
        'page = asked["params"].get("cursor")\n'
        'result({"sessions": [{"sessionId": "s"}]} if page else {"sessions": [{"sessionId": "t"}], "nextCursor": "2"})\n'
        "continue"
    )
    async with fake(load="result({}); continue", list=pages) as runtime:
        again = await runtime.resume_thread(provider_identity("s"), QUIET)
    assert (again.identity, again.turns) == ("s", ())


@pytest.mark.guarantee("CONT-1")
@pytest.mark.parametrize(
    ("listed", "accepted"),
    [('[{"sessionId": "s", "cwd": "/"}]', True), ('[{"sessionId": "s", "cwd": "/old"}]', False), ("[]", False)],
    ids=["the same", "another", "not said"],
)
async def test_an_agent_that_keeps_a_sessions_directory_must_have_the_right_one(
    plain: Profile, fake: Bad, listed: str, *, accepted: bool
) -> None:
    """It would go on in files that are not this session's."""
    profile = plain.model_copy(update={"keeps_cwd": True})
    async with fake(profile, list=f'result({{"sessions": {listed}}}); continue') as runtime:
        if accepted:
            assert (await runtime.resume_thread(provider_identity("s"), QUIET)).identity == "s"
            return
        with pytest.raises(ProviderRefusedError, match="directory"):
            await runtime.resume_thread(provider_identity("s"), QUIET)


@pytest.mark.guarantee("CONT-1")
@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("echo no such session; exit 3", r"could not be changed: 'no such session\\n', ended with 3"),
        ("exit 0", "keeps the session's directory"),
    ],
    ids=["it fails", "it does nothing"],
)
async def test_a_session_that_could_not_be_moved_is_refused(plain: Profile, fake: Bad, command: str, words: str) -> None:
    """Whatever the command says of itself: where the session is, the agent says."""
    profile = plain.model_copy(update={"keeps_cwd": True, "move": ("/bin/sh", "-c", command)})
    async with fake(profile, list='result({"sessions": [{"sessionId": "s", "cwd": "/old"}]}); continue') as runtime:
        with pytest.raises(ProviderRefusedError, match=words):
            await runtime.resume_thread(provider_identity("s"), QUIET)


@pytest.mark.guarantee("CONT-1")
async def test_an_agent_that_cannot_bring_sessions_back_is_never_asked_to(plain: Profile, fake: Bad, guest: LocalGuest) -> None:
    """Its plugin declares no continuity, and a resume is refused before anything is started."""
    forgetful = plain.model_copy(update={"capture": None, "resume": Resume.NONE})
    plugin = plugin_of(forgetful)
    assert not plugin.jam_describe_provider().continuity
    assert not any(hasattr(plugin, hook) for hook in ("jam_declare_capture", "jam_declare_activation", "jam_accepts_version"))
    async with fake(forgetful) as runtime:
        started = len(guest.processes)
        with pytest.raises(ProviderRefusedError, match="cannot bring a session back"):
            await runtime.resume_thread(provider_identity("s"), QUIET)
        assert len(guest.processes) == started
        await runtime.open_thread(QUIET)
        assert (await run_turn(runtime, "s", "hello"))[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)


@pytest.mark.parametrize(
    "error", [ProviderTimeoutError(provider="plain", request="session/list", limit_s=1.0), anyio.ClosedResourceError()]
)
async def test_an_agent_that_does_not_say_where_a_session_lies_is_left(
    plain: Profile, fake: Bad, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Else each try to bring a session back would leave a process behind that serves nobody."""

    async def fails(agent: Agent, identity: str, cwd: str) -> bool:
        raise error

    monkeypatch.setattr("jam_acp.runtime.lies_elsewhere", fails)
    async with fake(plain.model_copy(update={"keeps_cwd": True, "move": ("true",)})) as runtime:
        assert isinstance(runtime, AcpRuntime)
        with pytest.raises(type(error)):
            await runtime.resume_thread(provider_identity("s"), QUIET)
        assert runtime._agents == []
