"""What each test of the provider suite gets: one provider and one guest, and the steps that tests are made of."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from jamcore.domain.approvals import ApprovalAnswer, ApprovalPolicy
from jamcore.domain.continuity import ActivationPlan, CaptureKind, CaptureList
from jamcore.domain.events import ApprovalRequested, CommandStarted, ProviderEvent
from jamcore.domain.ids import ProviderIdentity, provider_identity
from jamcore.domain.providers import ProviderDescription, ThreadRequest, ThreadState
from jamcore.plugins.provider import ProviderHooks
from jamcore.plugins.runtime import ProviderRuntime
from jamcore.testing.guards import Process, descendants
from jamcore.testing.local_guest import LocalGuest
from jamcore.testing.provider_turns import run_turn
from jamcore.testing.providers.opening import opened
from jamcore.testing.providers.subject import ProviderUnderTest
from jamcore.testing.servers.history import Item
from jamcore.testing.servers.script import Call, Match, Rule, say
from jamcore.testing.servers.server import ModelServer

POLL_S = 0.02
"""How often to look for what no event announces."""
SLEEP = "sleep 97"
"""How the commands begin that a test's model leaves running, so that they are found among the program's descendants."""


@dataclass(frozen=True, slots=True)
class Case:
    """One provider in one guest. ``capture`` and ``activation`` are what it declares, empty where it keeps nothing."""

    provider: ProviderUnderTest
    guest: LocalGuest
    hooks: ProviderHooks
    capture: CaptureList
    activation: ActivationPlan

    @property
    def work(self) -> Path:
        """The session's directory."""
        return self.guest.work

    @property
    def description(self) -> ProviderDescription:
        """What the plugin says of itself."""
        return self.hooks.description

    @property
    def limit_s(self) -> float:
        """How long anything here may take."""
        return self.provider.limit_s

    def at(self, guest: LocalGuest) -> Case:
        """Return the same provider in another guest."""
        return replace(self, guest=guest)

    def server(self, *rules: Rule) -> ModelServer:
        """Return a server of the provider's API with these rules; a context manager."""
        return self.provider.model_server(*rules)

    def opened(self, model: ModelServer | str) -> AbstractAsyncContextManager[ProviderRuntime]:
        """Open the runtime over the pinned program, with a server or its address as the model."""
        url = model if isinstance(model, str) else model.base_url
        return opened(self.hooks, self.guest, url, self.provider.tools, self.provider.version)

    @asynccontextmanager
    async def running(self, *rules: Rule) -> AsyncIterator[tuple[ModelServer, ProviderRuntime]]:
        """Run a server with these rules, and the runtime."""
        async with self.server(*rules) as model, self.opened(model) as runtime:
            yield model, runtime

    def request(
        self, *, cwd: Path | None = None, model: str | None = None, approvals: ApprovalPolicy = ApprovalPolicy.NEVER
    ) -> ThreadRequest:
        """Return what a session asks for: the guest's working directory and the usual model, unless others are named."""
        return ThreadRequest(cwd=str(cwd or self.work), model=model or self.provider.model, approvals=approvals)

    async def begin(
        self, runtime: ProviderRuntime, *, cwd: Path | None = None, approvals: ApprovalPolicy = ApprovalPolicy.NEVER
    ) -> ProviderIdentity:
        """Open a thread and return its identity."""
        return provider_identity((await runtime.open_thread(self.request(cwd=cwd, approvals=approvals))).identity)

    async def resume(self, runtime: ProviderRuntime, identity: str, *, cwd: Path | None = None) -> ThreadState:
        """Bring a thread back."""
        return await runtime.resume_thread(provider_identity(identity), self.request(cwd=cwd))

    async def turn(self, runtime: ProviderRuntime, identity: str, text: str) -> list[ProviderEvent]:
        """Run a turn to its end."""
        return await run_turn(runtime, identity, text, timeout_s=self.limit_s)

    async def answered(self, runtime: ProviderRuntime, identity: str, answer: ApprovalAnswer, text: str) -> list[ProviderEvent]:
        """Run a turn, answer every question in it in the same way, and return all events."""
        seen: list[ProviderEvent] = []
        with anyio.fail_after(self.limit_s):
            async with runtime.turn(provider_identity(identity), text) as events:
                async for event in events:
                    seen.append(event)
                    if isinstance(event, ApprovalRequested):
                        await runtime.answer(provider_identity(identity), event.request, answer)
        return seen

    def shell(self, call_id: str, command: str, match: Match, *, times: int | None = 1) -> Rule:
        """Return the rule by which the model calls the shell."""
        return Rule(match=match, answer=(self.provider.shell(call_id, command),), times=times)

    def write(self, call_id: str, name: str, content: str) -> Call:
        """Return the model's call that makes a file in the session's directory."""
        return self.provider.write(call_id, self.work, name, content)

    async def kill_at(self, kind: type[ProviderEvent], runtime: ProviderRuntime, identity: str, text: str) -> None:
        """Run a turn and kill the program with SIGKILL at its first event of this kind.

        Raises:
            ProviderGoneError: The program was killed before the turn had ended.
        """
        with anyio.fail_after(self.limit_s):
            async with runtime.turn(provider_identity(identity), text) as events:
                async for event in events:
                    if isinstance(event, kind):
                        await self.kill()

    async def kill(self) -> None:
        """Kill the program that was started last with SIGKILL."""
        await self.guest.processes[-1].signal(signal.SIGKILL)

    async def sleepers(self, count: int = 1) -> frozenset[Process]:
        """Wait until the program has ``count`` descendants that sleep (:data:`SLEEP`), and return them."""
        with anyio.fail_after(self.limit_s):
            while True:
                found = frozenset(p for p in descendants(self.guest.processes[-1].pid) if p.command.startswith(SLEEP))
                if len(found) >= count:
                    return found
                await anyio.sleep(POLL_S)

    async def asleep(self, event: ProviderEvent, count: int = 1) -> frozenset[Process]:
        """Return the commands that sleep when this event is the start of one, else none."""
        return await self.sleepers(count) if isinstance(event, CommandStarted) else frozenset()

    def captured(self, patterns: Iterable[str] | None = None) -> list[Path]:
        """Return the files of the state root that the plugin captures, or those that match these patterns."""
        wanted = [entry.pattern for entry in self.capture.entries if entry.kind in KEPT] if patterns is None else patterns
        return sorted({path for pattern in wanted for path in self.guest.state.glob(pattern)})

    def databases(self) -> list[Path]:
        """Return the databases in the guest's home that the plugin captures."""
        patterns = [entry.pattern for entry in self.capture.entries if entry.kind is CaptureKind.DATABASE]
        return sorted({path for pattern in patterns for path in self.guest.home.glob(pattern)})

    def restore_to(self, target: Case, patterns: Iterable[str] | None = None) -> None:
        """Place what the plugin captures into another guest, as the core does, and remove everything here."""
        for path in self.captured(patterns):
            place = target.guest.state / path.relative_to(self.guest.state)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
        for path in self.databases():
            place = target.guest.home / path.relative_to(self.guest.home)
            place.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(path)) as old, closing(sqlite3.connect(place)) as new:
                old.backup(new)
        for directory in (self.guest.state, self.guest.home):
            shutil.rmtree(directory)


KEPT = frozenset({CaptureKind.APPEND_ONLY, CaptureKind.WHOLE})
"""The kinds of files that are captured and lie in the state root."""


def told(model: ModelServer) -> tuple[Item, ...]:
    """Return the conversation in the last request that the model got, without what the provider declares that it writes itself."""
    return model.model_requests[-1].conversation


def one_after_another(calls: Sequence[Call], *words: str) -> tuple[Rule, ...]:
    """Return the rules of a model that makes these calls, each when it has the output of the one before, and then says words."""
    matches = [Match(nth=1), *(Match(tool_output=call.call_id) for call in calls)]
    steps = [Rule(match=match, answer=(call,), times=1) for match, call in zip(matches, calls, strict=False)]
    return (*steps, say(*words, match=matches[-1]))


__all__ = ["KEPT", "POLL_S", "SLEEP", "Case", "one_after_another", "told"]
