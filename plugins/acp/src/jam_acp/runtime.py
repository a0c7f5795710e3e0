"""The running agent: sessions and turns. One process serves one session, so that one agent's trouble is one session's."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup

from jam_acp.agent import Agent
from jam_acp.failures import ended_with, failed_with, is_unknown_session
from jam_acp.places import Places
from jam_acp.profile import GUARD, Profile, Resume
from jam_acp.questions import CANCELLED, reply
from jam_acp.replay import Replay, digest_of, turn_id
from jam_acp.sessions import LOAD, Session, lies_elsewhere, open_session, resume_session
from jam_acp.stream import Turn
from jam_acp.updates import SPOKEN, Updates
from jamcore.api import (
    ApprovalAnswer,
    GuestLauncher,
    JamError,
    Notice,
    ProgramRuntime,
    ProviderEvent,
    ProviderGoneError,
    ProviderIdentity,
    ProviderRefusedError,
    ProviderTimeoutError,
    RemoteError,
    RuntimeRequest,
    ThreadRequest,
    ThreadState,
    TurnEnded,
    TurnOutcome,
    UsageReported,
    identifier,
    member,
    not_offered,
    number,
    was_refused,
)

VERSION_S = 60.0
"""Until the program has printed its version, or moved a session: seconds on a busy machine."""
STOP_S = 10.0
"""Until a cancelled turn ends: 0.2 s when all is well."""
AGAIN_S = 1.0
"""Then it is cancelled again: one that was sent before the agent had begun with the turn is passed over."""
STRAY = "The agent went on by itself after the last turn; that is not shown here."

_VERSION = re.compile(r"\d+\.\d+[0-9A-Za-z.+-]*")


class AcpRuntime(ProgramRuntime):
    """See :class:`jamcore.api.ProviderRuntime`. Made by :func:`jam_acp.opening.open_acp`, which owns its tasks."""

    def __init__(self, profile: Profile, request: RuntimeRequest, launcher: GuestLauncher, tasks: TaskGroup) -> None:
        super().__init__(profile.name)
        self._profile = profile
        self._request = request
        self._launcher = launcher
        self._tasks = tasks
        self._agents: list[Agent] = []
        self._spare: Agent | None = None
        self._sessions: dict[str, Session] = {}
        self._replays: dict[Agent, Replay] = {}

    async def begin(self) -> None:
        """Learn the program's version, from its own command or from the agent that will serve the first session.

        Raises:
            ProviderRefusedError: It is not the expected version, or the agent will not speak with Jam.
            SandboxGoneError, ExecRefusedError, ProviderGoneError, ProviderTimeoutError, ProviderProtocolError: It did not come up.
        """
        if self._profile.version_argv:
            version = await self._printed_version()
        else:
            agent = await self._start(ThreadRequest(cwd=self._request.start_directory))
            version = agent.version
            if self._profile.starts_for_thread:
                await self._leave_agent(agent)
            else:
                self._spare = agent
        self.require_version(version, self._request.expected_version, "initialize")

    async def close(self) -> None:
        """End every process."""
        for agent in tuple(self._agents):
            await agent.leave()

    # ------------------------------------------------------------------------------------------------------------ threads

    async def open_thread(self, request: ThreadRequest) -> ThreadState:
        """See :class:`jamcore.api.ProviderRuntime`."""
        agent = await self._agent_for(request)
        try:
            session = await open_session(agent, request)
        except BaseException:
            await self._leave_agent(agent)
            raise
        self._sessions[session.identity] = session
        return ThreadState(identity=session.identity)

    async def resume_thread(self, identity: ProviderIdentity, request: ThreadRequest) -> ThreadState:
        """See :class:`jamcore.api.ProviderRuntime`. Nothing here ever begins a session (CONT-1)."""
        if self._profile.resume is Resume.NONE:
            detail = f"{self._profile.title} cannot bring a session back, so its conversations end with its process"
            raise ProviderRefusedError(provider=self._profile.name, request=LOAD, detail=detail)
        if identity in self._sessions:
            # Another process of it would be a second writer, and agents let both go on.
            raise ProviderRefusedError(provider=self._profile.name, request=LOAD, detail="it is loaded already")
        agent = await self._agent_for(request)
        if self._profile.move and await self._lies_elsewhere(agent, identity, request.cwd):
            await self._leave_agent(agent)
            await self._move(identity, request.cwd)
            agent = await self._agent_for(request)
        replay = self._replays[agent] = Replay()
        try:
            session, turns = await resume_session(agent, identity, request, replay)
        except BaseException:
            await self._leave_agent(agent)
            raise
        finally:
            del self._replays[agent]
        if session.identity == identity:
            self._sessions[identity] = session
        else:
            await self._leave_agent(agent)  # it is only named: it may be a sibling's
        return ThreadState(identity=session.identity, turns=turns)

    # -------------------------------------------------------------------------------------------------------------- turns

    @asynccontextmanager
    async def turn(self, identity: ProviderIdentity, text: str) -> AsyncIterator[AsyncIterator[ProviderEvent]]:
        """See :class:`jamcore.api.ProviderRuntime`.

        Raises:
            ProviderRefusedError: The session is not loaded, or a turn runs in it.
        """
        session = self._idle_session(identity)
        turn = session.turn = Turn(turn_id(session.turns + 1, digest_of(text)))
        session.updates, session.busy, session.ran = Updates(session.cwd), True, True
        try:
            async with turn.running(partial(self._stop, session, turn), self.end):
                if session.stray:
                    session.stray = False
                    session.notices.keep(Notice(level="warning", text=STRAY))
                await session.notices.show_in(turn)
                self._tasks.start_soon(self._prompt_to_the_end, session, turn, text)
                yield turn
        finally:
            session.turn = None

    async def interrupt(self, identity: ProviderIdentity) -> None:
        """See :class:`jamcore.api.ProviderRuntime`. When it returns, the turn is over: agents end their commands with it.

        Raises:
            ProviderTimeoutError: The agent did not end the turn in time.
        """
        session = self._sessions.get(identity)
        if session is not None and (turn := session.turn) is not None:
            await turn.stop(partial(self._stop, session, turn))

    async def answer(self, identity: ProviderIdentity, request: str, answer: ApprovalAnswer) -> None:
        """See :class:`jamcore.api.ProviderRuntime`."""
        if session := self._sessions.get(identity):
            session.questions.answer(request, answer)

    def _idle_session(self, identity: str) -> Session:
        session = self._sessions.get(identity)
        if session is not None and not session.busy:
            return session
        # A second prompt is queued into the running turn by some agents, and both are then answered as one.
        problem = "the session is not loaded" if session is None else "a turn is running in this session"
        raise ProviderRefusedError(provider=self._profile.name, request="session/prompt", detail=problem)

    async def _prompt_to_the_end(self, session: Session, turn: Turn, words: str) -> None:
        """Hear the end of a turn also when its owner is cancelled and interrupts it. It ends with the process at the latest."""
        with anyio.CancelScope(shield=True):
            await self._prompt(session, turn, words)

    async def _prompt(self, session: Session, turn: Turn, words: str) -> None:
        """Send a person's text and wait for the answer, which is the end mark. Runs whoever reads the events, or does not."""
        client = session.agent.client
        sent = f"{GUARD}{words}" if self._profile.guard and words.lstrip().startswith("/") else words
        prompt = {"sessionId": session.identity, "prompt": [{"type": "text", "text": sent}]}
        try:
            if self._profile.kept_at_once and client.error is None:
                await turn.start()
            answer = await client.request("session/prompt", prompt, timeout_s=math.inf, answered=turn.answered)
            await client.caught_up()
            await self._say(turn, (*session.updates.finish(), *_usage(answer)))
            await turn.start()
            end = ended_with(member(answer, "stopReason"))
        except RemoteError as error:
            await client.caught_up()
            await self._say(turn, session.updates.finish())
            end = failed_with(error, self._profile)
            if is_unknown_session(error, self._profile):
                # No end of a turn: what the agent has now is without the session, and must not be captured as what follows the turn.
                del self._sessions[session.identity]
                self.end(self._without(end.detail), turn)
                return
        except JamError as error:
            await client.caught_up()
            session.busy = False  # what is asked next is refused by the connection, which says why
            turn.fail(error)
            return
        session.turns += turn.started
        session.busy = False
        if turn.stopping.is_set():
            # A turn that is cancelled while the agent waits to ask a model again is answered as if it had come to its end.
            end = TurnEnded(outcome=TurnOutcome.INTERRUPTED)
        await turn.finish(end)

    def _without(self, detail: str) -> ProviderGoneError:
        return ProviderGoneError(provider=self._profile.name, detail=f"it does not know the session any more: {detail}")

    async def _say(self, turn: Turn, events: tuple[ProviderEvent, ...]) -> None:
        for event in events:
            await turn.take(event)

    async def _stop(self, session: Session, turn: Turn) -> None:
        turn.stopping.set()
        with anyio.move_on_after(STOP_S):
            while not turn.over.is_set():
                await session.agent.client.notify("session/cancel", {"sessionId": session.identity})
                with anyio.move_on_after(AGAIN_S):
                    await turn.over.wait()
        if not turn.over.is_set():
            raise ProviderTimeoutError(provider=self._profile.name, request="session/cancel", limit_s=STOP_S)

    # ---------------------------------------------------------------------------------------------------------- processes

    async def _printed_version(self) -> str:
        places = Places(
            tools_root=self._request.tools_root,
            state_root=self._request.state_root,
            home=self._request.home,
            relay_url=self._request.relay_url,
        )
        argv = tuple(places.fill(part) for part in self._profile.version_argv)
        code, printed = await self._launcher.run(argv, cwd=self._request.start_directory, timeout_s=VERSION_S)
        found = _VERSION.search(printed.decode(errors="replace")) if code == 0 else None
        if found is None:
            detail = f"it did not print its version, and ended with {code}"
            raise ProviderRefusedError(provider=self._profile.name, request="version", detail=detail)
        return found[0]

    async def _lies_elsewhere(self, agent: Agent, identity: str, cwd: str) -> bool:
        try:
            return await lies_elsewhere(agent, identity, cwd)
        except BaseException:
            await self._leave_agent(agent)
            raise

    async def _move(self, identity: str, cwd: str) -> None:
        """Say in the agent's state that a session is in another directory now. Whether it is, is seen when it comes back."""
        if set("'\"\\") & set(identity + cwd):
            detail = f"the session's directory cannot be changed to {cwd[:200]!r}"
            raise ProviderRefusedError(provider=self._profile.name, request="move", detail=detail)
        places = Places(
            tools_root=self._request.tools_root,
            state_root=self._request.state_root,
            home=self._request.home,
            relay_url=self._request.relay_url,
            cwd=cwd,
            identity=identity,
        )
        environment = (f"{name}={places.fill(value)}" for name, value in self._profile.environment)
        argv = ("/usr/bin/env", *environment, *(places.fill(part) for part in self._profile.move))
        code, printed = await self._launcher.run(argv, cwd=self._request.start_directory, timeout_s=VERSION_S)
        if code != 0:
            detail = f"the session's directory could not be changed: {printed.decode(errors='replace')[-200:]!r}, ended with {code}"
            raise ProviderRefusedError(provider=self._profile.name, request="move", detail=detail)

    async def _agent_for(self, request: ThreadRequest) -> Agent:
        agent, self._spare = self._spare, None
        return agent if agent is not None else await self._start(request)

    async def _start(self, request: ThreadRequest) -> Agent:
        agent = await Agent.start(self._profile, self, self._tasks, self._request, self._launcher, request)
        self._agents.append(agent)
        return agent

    async def _leave_agent(self, agent: Agent) -> None:
        with anyio.CancelScope(shield=True):
            await agent.leave()
        self._agents.remove(agent)

    # --------------------------------------------------------------------------------------------------------- connection

    async def told(self, agent: Agent, method: str, params: Mapping[str, Any]) -> None:
        """Take a notification: pass a turn's updates on, listen to what is told again, and keep from a person what is neither."""
        update = params.get("update")
        if method != "session/update" or not isinstance(update, Mapping):
            return
        identity = identifier(params.get("sessionId"))
        if (replay := self._replays.get(agent)) is not None:
            replay.take(identity, update)
            return
        session = self._sessions.get(identity)
        if session is None or session.agent is not agent:
            return
        if session.turn is None or session.turn.ended:
            session.stray = session.stray or (session.ran and update.get("sessionUpdate") in SPOKEN)
            return
        if update.get("sessionUpdate") in SPOKEN:
            await session.turn.start()
        await self._say(session.turn, session.updates.take(update))

    async def asked(self, agent: Agent, method: str, params: Mapping[str, Any]) -> object:
        """Answer a request of the agent: a question by a person or by Jam, a known request politely, and all else with an error.

        Raises:
            RemoteError: It is not offered.
        """
        session = self._sessions.get(identifier(params.get("sessionId")))
        if method == "session/request_permission":
            return await self._permission(session, agent, params)
        extension = self._profile.extension(method)
        if extension is None or extension.told:
            await self._notice(session or self._only(agent), was_refused(self._profile.title, method))
        if extension is None:
            raise not_offered(method)
        return extension.answer

    async def ended(self, agent: Agent, error: JamError) -> None:
        """Learn that a process is of no use any more. What waits for its answers is told by the connection itself."""
        if not agent.leaving.is_set():
            self.end(error)

    async def _permission(self, session: Session | None, agent: Agent, params: Mapping[str, Any]) -> object:
        about, options = params.get("toolCall"), params.get("options")
        turn = session.turn if session is not None and session.agent is agent else None
        if session is None or turn is None or turn.ended or turn.stopping.is_set() or not isinstance(about, Mapping):
            return CANCELLED
        call = session.updates.call(about)
        await turn.start()
        await self._say(turn, session.updates.flush())  # what was said stands before what is asked
        if not session.asks:
            said = reply(options, ApprovalAnswer.ALLOW)
            if said is CANCELLED:
                await self._notice(
                    session, Notice(level="warning", text=f"{self._profile.title} offers no way to allow this once: {call.title}")
                )
            return said
        return reply(options, await session.questions.ask(turn, call.question(self._profile), turn.stopping))

    async def _notice(self, session: Session | None, notice: Notice) -> None:
        """Show a person something, now or in the next turn."""
        if session is not None:
            await session.notices.say(notice, session.turn)

    def _only(self, agent: Agent) -> Session | None:
        """Return the agent's session, for a request that names none."""
        return next((session for session in self._sessions.values() if session.agent is agent), None)


def _usage(answer: object) -> tuple[UsageReported, ...]:
    usage = member(answer, "usage")
    if not isinstance(usage, Mapping):
        return ()
    read, written, total = (number(usage.get(name)) for name in ("inputTokens", "outputTokens", "totalTokens"))
    return (UsageReported(input_tokens=read, output_tokens=written, total_tokens=total),) if total else ()
