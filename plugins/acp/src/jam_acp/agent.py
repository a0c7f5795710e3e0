"""One running agent process: the connection, what it said of itself, and the requests that are not turns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup, TaskStatus

from jam_acp.failures import AUTH_REQUIRED, details
from jam_acp.places import Places
from jam_acp.profile import Authentication, Profile
from jamcore.api import (
    GuestLauncher,
    JamError,
    LineClient,
    ProviderProtocolError,
    ProviderRefusedError,
    RemoteError,
    RuntimeRequest,
    ThreadRequest,
    member,
    speaking,
    text,
)

PROTOCOL = 1
REQUEST_S = 120.0
"""An answer that is not a turn: loading a session of 42 turns took 1.4 s."""
AUTHENTICATE_S = 45.0
"""An agent that wants a person to log in waits for them for ever."""

CLIENT: Mapping[str, object] = {
    "protocolVersion": PROTOCOL,
    # The agent works in the guest by itself; nothing is read, written or run for it from outside.
    "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
    "clientInfo": {"name": "jam", "title": "Jam", "version": "0.1"},
}


class Owner(Protocol):
    """What an agent's process tells to whoever started it."""

    async def told(self, agent: Agent, method: str, params: Mapping[str, Any]) -> None:
        """Take a notification."""

    async def asked(self, agent: Agent, method: str, params: Mapping[str, Any]) -> object:
        """Answer a request."""

    async def ended(self, agent: Agent, error: JamError) -> None:
        """Learn that the process is of no use any more."""


@dataclass(eq=False)
class Agent:
    """One process. It runs in a task of its own until :meth:`leave`."""

    profile: Profile
    owner: Owner
    client: LineClient = field(init=False)
    version: str = ""
    capabilities: Mapping[str, object] = field(default_factory=dict)
    model: str = ""
    leaving: anyio.Event = field(default_factory=anyio.Event)
    gone: anyio.Event = field(default_factory=anyio.Event)

    @classmethod
    async def start(
        cls,
        profile: Profile,
        owner: Owner,
        tasks: TaskGroup,
        request: RuntimeRequest,
        launcher: GuestLauncher,
        thread: ThreadRequest,
    ) -> Agent:
        """Start the agent and introduce Jam.

        Raises:
            SandboxGoneError, ExecRefusedError: The program could not be started.
            ProviderRefusedError, ProviderGoneError, ProviderTimeoutError, ProviderProtocolError: It did not come up.
        """
        agent = cls(profile, owner)
        agent.model = thread.model or profile.default_model
        await tasks.start(agent._run, request, launcher, thread)
        return agent

    async def leave(self) -> None:
        """End the process, and wait until it is gone."""
        self.leaving.set()
        await self.gone.wait()

    def can(self, *path: str) -> bool:
        """Whether the agent said that it can do something: it names it, with true or with an object."""
        found = member(self.capabilities, *path)
        return found is True or isinstance(found, Mapping)

    async def ask(self, method: str, params: Mapping[str, Any], timeout_s: float = REQUEST_S) -> object:
        """Ask, and return the result; what the agent refuses is raised as it is.

        Raises:
            RemoteError, ProviderGoneError, ProviderTimeoutError, ProviderProtocolError: It did not answer as asked.
        """
        answer: object = await self.client.request(method, params, timeout_s=timeout_s)
        return answer

    async def ask_for_session(self, method: str, params: Mapping[str, Any]) -> object:
        """Ask for a session; where the profile says so, authenticate once when the agent demands it, and ask again.

        Raises:
            ProviderRefusedError: It refused; its words are in the error.
            ProviderGoneError, ProviderTimeoutError, ProviderProtocolError: It did not answer.
        """
        try:
            return await self.ask(method, params)
        except RemoteError as error:
            if error.number != AUTH_REQUIRED:
                raise self.refused(method, error) from error
            if self.profile.authentication is Authentication.NEVER:
                raise self._unauthorised(method, error) from error
        try:
            await self.ask("authenticate", {"methodId": self.profile.auth_method}, AUTHENTICATE_S)
            return await self.ask(method, params)
        except RemoteError as error:
            raise self._unauthorised(method, error) from error

    def refused(self, method: str, error: RemoteError) -> ProviderRefusedError:
        """Return the error for a request that the agent refused."""
        return ProviderRefusedError(provider=self.profile.name, request=method, detail=details(error))

    def nonsense(self, problem: str) -> ProviderProtocolError:
        """Return the error for an answer that is not what the protocol says."""
        return ProviderProtocolError(provider=self.profile.name, problem=problem)

    def _unauthorised(self, method: str, error: RemoteError) -> ProviderRefusedError:
        credential = self.profile.credential
        names = " or ".join(credential.environment_names) if credential is not None else ""
        hint = f"; set {names} in the daemon's environment" if names else ""
        return ProviderRefusedError(
            provider=self.profile.name, request=method, detail=f"it wants to be logged in{hint}; it said: {details(error)}"
        )

    async def _run(
        self, request: RuntimeRequest, launcher: GuestLauncher, thread: ThreadRequest, *, task_status: TaskStatus[None]
    ) -> None:
        places = Places(
            tools_root=request.tools_root,
            state_root=request.state_root,
            home=request.home,
            relay_url=request.relay_url,
            cwd=thread.cwd,
            model=self.model,
        )
        environment = tuple((name, places.fill(value)) for name, value in self.profile.environment)
        try:
            # It starts in a fixed guest directory; its session brings its own (SHARE-5).
            argv = tuple(places.fill(part) for part in self.profile.argv)
            process = await launcher.start(argv, cwd=request.start_directory, environment=environment)
            self.client = LineClient.over(
                process, provider=self.profile.name, notified=self._told, asked=self._asked, ended=self._ended, jsonrpc=True
            )
            async with speaking(process, self.client, shutdown_s=request.shutdown_s):
                await self._introduce()
                task_status.started()
                # Whoever runs a turn is cancelled together with this, and has to end the turn first.
                with anyio.CancelScope(shield=True):
                    await self.leaving.wait()
        finally:
            self.gone.set()

    async def _introduce(self) -> None:
        try:
            answer = await self.ask("initialize", CLIENT)
        except RemoteError as error:
            raise self.refused("initialize", error) from error
        spoken = member(answer, "protocolVersion")
        if spoken != PROTOCOL:
            raise self.nonsense(f"it speaks version {str(spoken)[:40]} of the protocol, and Jam {PROTOCOL}")
        capabilities = member(answer, "agentCapabilities")
        self.capabilities = capabilities if isinstance(capabilities, Mapping) else {}
        self.version = text(member(answer, "agentInfo", "version"), 64)

    async def _told(self, method: str, params: Mapping[str, Any]) -> None:
        await self.owner.told(self, method, params)

    async def _asked(self, method: str, params: Mapping[str, Any]) -> object:
        return await self.owner.asked(self, method, params)

    async def _ended(self, error: JamError) -> None:
        await self.owner.ended(self, error)
