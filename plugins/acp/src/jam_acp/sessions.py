"""A session of an agent: opened, or brought back exactly, with the mode and the model that it shall have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jam_acp.agent import Agent
from jam_acp.places import Places
from jam_acp.replay import Replay
from jam_acp.stream import Turn
from jam_acp.updates import Updates
from jamcore.api import (
    ApprovalPolicy,
    KeptNotices,
    OpenQuestions,
    ProviderRefusedError,
    ProviderTurn,
    RemoteError,
    ThreadRequest,
    entries,
    member,
    reported_identity,
    text,
)

LOAD = "session/load"
PAGES = 1_000
"""Pages of the agent's list of sessions that are looked through for one."""


@dataclass(eq=False)
class Session:
    """A session that its agent has loaded."""

    identity: str
    agent: Agent
    asks: bool
    """Whether a person is asked what the agent asks; otherwise it is allowed, once each time: the sandbox is the boundary."""
    cwd: str = ""
    turns: int = 0
    """Turns that it holds; an agent has no names for them."""
    busy: bool = False
    turn: Turn | None = None
    updates: Updates = field(default_factory=Updates)
    questions: OpenQuestions = field(default_factory=OpenQuestions)
    notices: KeptNotices = field(default_factory=KeptNotices)
    ran: bool = False
    """Whether a turn ran in it; some agents have a word to say before the first."""
    stray: bool = False
    """Whether the agent spoke after a turn while no other ran."""


async def open_session(agent: Agent, request: ThreadRequest) -> Session:
    """Begin a new session.

    Raises:
        ProviderRefusedError, ProviderGoneError, ProviderTimeoutError, ProviderProtocolError: It did not begin.
    """
    answer = await agent.ask_for_session("session/new", _where(request))
    identity = reported_identity(member(answer, "sessionId"), provider=agent.profile.name)
    await settle(agent, identity, answer, request)
    return Session(identity, agent, asks=request.approvals is ApprovalPolicy.ASK, cwd=request.cwd)


async def resume_session(
    agent: Agent, identity: str, request: ThreadRequest, replay: Replay
) -> tuple[Session, tuple[ProviderTurn, ...]]:
    """Bring a session back; ``replay`` hears what the agent tells again meanwhile.

    Raises:
        ProviderRefusedError: The agent cannot do that, does not know the session, or has it back without its conversation.
        ProviderGoneError, ProviderTimeoutError, ProviderProtocolError: It did not come back.
    """
    profile = agent.profile
    if not agent.can("loadSession"):
        raise ProviderRefusedError(
            provider=profile.name, request=LOAD, detail=f"{profile.title} {agent.version} does not offer to bring sessions back"
        )
    answer = await agent.ask_for_session(LOAD, {"sessionId": identity, **_where(request)})
    await agent.client.caught_up()
    reported = await _reported(agent, identity, answer, replay)
    if profile.keeps_cwd:
        await _require_place(agent, reported, request.cwd)
    await settle(agent, reported, answer, request)
    turns = replay.turns()
    asks = request.approvals is ApprovalPolicy.ASK
    return Session(reported, agent, asks, request.cwd, turns=len(turns)), turns


async def settle(agent: Agent, identity: str, answer: object, request: ThreadRequest) -> None:
    """Put a session into the profile's mode and onto the wanted model, where it is not there by itself: agents forget both.

    Raises:
        ProviderRefusedError: The agent offers no such mode or model.
        ProviderGoneError, ProviderTimeoutError, ProviderProtocolError: It did not answer.
    """
    profile = agent.profile
    model = request.model or profile.default_model
    if model:
        wanted = Places("", "", "", "", model=model).fill(profile.model_value)
        await _choose(agent, identity, answer, "model", wanted)
    if profile.mode:
        await _choose(agent, identity, answer, "mode", profile.mode)


async def _choose(agent: Agent, identity: str, answer: object, category: str, wanted: str) -> None:
    option = next((each for each in entries(member(answer, "configOptions")) if each.get("category") == category), None)
    if option is not None:
        if option.get("currentValue") == wanted:
            return
        method, params = "session/set_config_option", {"configId": option.get("id"), "value": wanted}
    elif member(answer, f"{category}s") is not None:
        if member(answer, f"{category}s", _CURRENT[category]) == wanted:
            return
        method, params = f"session/set_{category}", {f"{category}Id": wanted}
    elif category == "model" and agent.profile.knows_model:
        return  # it was told when it was started, and has no say in it
    else:
        raise ProviderRefusedError(
            provider=agent.profile.name, request=category, detail=f"{agent.profile.title} offers no choice of its {category}"
        )
    try:
        await agent.ask(method, {"sessionId": identity, **params})
    except RemoteError as error:
        raise agent.refused(method, error) from error


_CURRENT: Mapping[str, str] = {"model": "currentModelId", "mode": "currentModeId"}


async def _reported(agent: Agent, identity: str, answer: object, replay: Replay) -> str:
    """Return the session that came back, as the agent says it: in the turns that it told again, or in its list of sessions.

    An agent that says it nowhere may have begun a blank one under the old name, so that is a refusal. What one without a turn of its own
    has to say, a greeting or the old name, is no proof; whether it may be without one is for the core to know, which has the turns.
    """
    if replay.identity:
        said = member(answer, "sessionId")
        return reported_identity(said if isinstance(said, str) else replay.identity, provider=agent.profile.name)
    if await _listed(agent, identity) is not None:
        return identity
    raise ProviderRefusedError(
        provider=agent.profile.name,
        request=LOAD,
        detail="it answered, but neither told the conversation again nor lists the session: it may be a new, blank one",
    )


async def lies_elsewhere(agent: Agent, identity: str, cwd: str) -> bool:
    """Whether an agent lists a session in another directory than it shall have; one that lists none has nothing to move."""
    place = member(await _listed(agent, identity), "cwd")
    return place is not None and place != cwd


async def _require_place(agent: Agent, identity: str, cwd: str) -> None:
    """Refuse a session that would go on in another directory than it shall, whose files are not this session's."""
    place = member(await _listed(agent, identity), "cwd")
    if place != cwd:
        raise ProviderRefusedError(
            provider=agent.profile.name,
            request=LOAD,
            detail=f"it keeps the session's directory, which was {text(place, 200)!r} and is {text(cwd, 200)!r} now",
        )


async def _listed(agent: Agent, identity: str) -> Mapping[str, object] | None:
    """Return the session's entry in the agent's list of sessions, or ``None`` where there is none or no list."""
    if not agent.can("sessionCapabilities", "list"):
        return None
    cursor: str | None = None
    for _ in range(PAGES):
        try:
            page = await agent.ask("session/list", {} if cursor is None else {"cursor": cursor})
        except RemoteError:
            return None
        for entry in entries(member(page, "sessions")):
            if entry.get("sessionId") == identity:
                return entry
        following = member(page, "nextCursor")
        if not isinstance(following, str) or not following or following == cursor:
            return None
        cursor = following
    return None


def _where(request: ThreadRequest) -> dict[str, object]:
    return {"cwd": request.cwd, "mcpServers": []}
