"""The demo, step by step. Each step ends with what it proved; a proof that does not hold ends the demo."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import anyio
from anyio import to_thread

from jamcore.control.client import JamClient
from jamcore.control.reach import Reach
from jamcore.domain.cells import WorkspaceSource
from jamcore.domain.changes import ChangeRequest
from jamcore.domain.continuity import ObservationOutcome
from jamcore.domain.requests import EndpointChoice, Health, RoomRequest, RoomView, TurnRequest
from jamcore.domain.sessions import Turn, TurnState
from jamcore.system.ids import SystemIds
from jamcore.testing.daemon import DaemonChild, gone, kill, parked, victims
from jamcore.testing.demo.report import Report
from jamcore.testing.demo.script import DAEMON_GATE, PROVIDER_GATE, Exchange, Play, prove_history
from jamcore.testing.demo.world import DemoFailedError, git, make_repository
from jamcore.testing.guards import Process
from jamcore.testing.servers.history import contains_in_order, conversation
from jamcore.testing.servers.responses import ResponsesServer, held_at

PROVIDER = "codex"
STEP_LIMIT_S = 60.0


@dataclass(slots=True)
class Story:
    """One run of the demo. Owns nothing but what its caller gave it."""

    app: Path
    repository: Path
    play: Play
    server: ResponsesServer
    daemon: DaemonChild
    report: Report
    room: str = ""
    change: ChangeRequest | None = None

    async def tell(self) -> None:
        """Run every step.

        Raises:
            DemoFailedError: A proof did not hold.
            JamError: The daemon refused or failed.
        """
        await self._step("repository", "a small real Git repository", self._make_repository)
        await self._step("daemon", "the daemon in a private app directory", self._start_daemon)
        await self._step("provider", "the pinned real Codex program", self._install)
        await self._step("room", "a sandbox with a workspace that Jam owns", self._open_room)
        await self._step("first turn", "Codex changes files through its tools", self._first_turn)
        await self._step("kill the provider", "SIGKILL in the middle of a turn", self._kill_provider)
        await self._step("resume", "the exact thread", self._resume)
        await self._step("kill the daemon", "SIGKILL in the middle of a turn", self._kill_daemon)
        await self._step("start again", "the daemon and the exact thread", self._start_again)
        await self._step("proof", "what the model received after the last kill", self._prove)
        await self._step("change request", "patch, transcript and evidence", self._build_change)
        await self._step("park", "nothing is left running", self._park)

    async def _step(self, name: str, about: str, run: Callable[[], Awaitable[str]]) -> None:
        self.report.begin(f"{name}: {about}")
        started = time.monotonic()
        with anyio.fail_after(STEP_LIMIT_S if name != "provider" else 600.0):
            proven = await run()
        self.report.done(name, proven, time.monotonic() - started)

    def _client(self) -> JamClient:
        return JamClient(Reach(self.app, environ={}))

    async def _make_repository(self) -> str:
        make_repository(self.repository)
        return f"one commit, {git(self.repository, 'rev-parse', '--short', 'HEAD').strip()}"

    async def _start_daemon(self) -> str:
        health = await self._daemon_up()
        _require(health.pid == self.daemon.pid, "another daemon answers")
        return f"process {health.pid}, version {health.version}"

    async def _install(self) -> str:
        installed = await self._client().install(PROVIDER)
        return f"version {installed.version}, SHA-256 of its vendor's wheel checked ({installed.digest[:12]}…)"

    async def _open_room(self) -> str:
        request = RoomRequest(
            id=SystemIds().uuid(),
            name="demo",
            provider=PROVIDER,
            workspace=WorkspaceSource.PRIVATE_HOST_CLONE,
            path=str(self.repository),
            endpoint=EndpointChoice(origin=self.server.base_url, credential="demo"),
        )
        view = await self._client().create_room(request)
        self.room = str(view.room.id)
        _require(view.live, "the room is not live")
        return f"{view.host.engine} sandbox {view.host.sandbox}, private clone at {view.workspace.guest_path}"

    async def _first_turn(self) -> str:
        turn = await self._say(self.play.exchanges[0])
        done = await self._wait(turn.id, TurnState.CAPTURED)
        sent = {request.header("authorization") for request in self.server.model_requests}
        _require(sent == {f"Bearer {self.play.secret}"}, "the credential did not reach the model's server")
        _require("helo" in (self.repository / "greeting.py").read_text(), "the original repository was changed")
        return (
            f"three tool calls ran, the turn is in checkpoint {str(done.checkpoint_id)[-12:]}; the key was added outside the guest"
        )

    async def _kill_provider(self) -> str:
        turn = await self._say(self.play.exchanges[1])
        await self._held(PROVIDER_GATE)
        found = victims(self.daemon.pid)
        if found is None or found.provider is None:
            raise DemoFailedError("no provider process was found below the daemon")
        await to_thread.run_sync(kill, (found.provider,))
        self.server.release(PROVIDER_GATE)
        await parked(self._client(), self.room)
        return f"process {found.provider.pid} killed after the first delta; turn {str(turn.id)[-12:]} is in doubt, not lost"

    async def _resume(self) -> str:
        view = await self._client().resume(self.room)
        cut = next(t for t in await self._client().turns(self.room) if t.text == self.play.exchanges[1].said)
        _require(cut.state is TurnState.CUT, f"the killed turn reads {cut.state}")
        return f"thread {await self._observed(view)} reported by Codex itself; the killed turn is reported as cut"

    async def _kill_daemon(self) -> str:
        await self._say(self.play.exchanges[2])
        await self._held(DAEMON_GATE)
        family = self.daemon.family()
        self.daemon.kill()
        await self._ended(family)
        self.server.release(DAEMON_GATE)
        return f"the daemon is dead, and all {len(family)} processes below it died with it"

    async def _start_again(self) -> str:
        await self._daemon_up()
        view = await self._client().resume(self.room)
        return f"thread {await self._observed(view)}, proven to extend the last checkpoint"

    async def _prove(self) -> str:
        before = conversation(self.server.model_requests[-1].body)
        turn = await self._say(self.play.exchanges[3])
        await self._wait(turn.id, TurnState.CAPTURED)
        last = conversation(self.server.model_requests[-1].body)
        missing = [check.what for check in prove_history(self.play, last) if not check.found]
        _require(not missing, f"missing in the last request: {missing}")
        _require(contains_in_order(before, last) is None, "an item of the request before the kill is missing")
        checks = len(prove_history(self.play, last))
        return f"{checks} of {checks} user texts, tool calls and tool results of this run are there, in order"

    async def _build_change(self) -> str:
        client = self._client()
        self.change = await client.build_change(self.room, SystemIds().uuid())
        patch = self.app / "change-requests" / str(self.change.id) / "change.patch"
        git(self.repository, "apply", "--check", str(patch))
        text = patch.read_text()
        wanted = [self.play.tokens[i] for i in (1, 2, 5, 7)]
        _require(all(token in text for token in wanted), "the patch lacks a file that Codex wrote")
        _require(self.change.complete, "the patch does not reproduce the work tree")
        package = b"".join(file.read_bytes() for file in patch.parent.iterdir())
        _require(self.play.secret.encode() not in package, "the credential is in the package")
        return f"{len(self.change.paths)} files; it applies to the original repository, and nothing in it is the key"

    async def _park(self) -> str:
        family = self.daemon.family()
        stopped = await self._client().stop(self.room)
        await self._ended(family)
        await to_thread.run_sync(self.daemon.stop)
        return f"{stopped.outcome}; {len(family)} processes ended; the files stay"

    async def _daemon_up(self) -> Health:
        """Start the daemon and wait until it answers."""
        self.daemon.start()
        return await self.daemon.up()

    async def _ended(self, family: frozenset[Process]) -> None:
        left = await to_thread.run_sync(gone, family)
        _require(not left, f"still running: {', '.join(str(process.pid) for process in left)}")

    async def _say(self, exchange: Exchange) -> Turn:
        return await self._client().say(self.room, TurnRequest(id=SystemIds().uuid(), text=exchange.said))

    async def _held(self, gate: str) -> None:
        """Wait until the answer stands still after its first delta, and that delta has reached the room."""
        await self.server.wait_for(held_at(gate), timeout_s=STEP_LIMIT_S)
        async for event in self._client().events(self.room, after=0, follow=True):
            if event.payload.kind == "text.delta" and "never announced" not in event.payload.text:
                exchange = next(e for e in self.play.exchanges if e.gate == gate)
                if event.payload.text == exchange.answer[0]:
                    return

    async def _wait(self, turn: UUID, state: TurnState) -> Turn:
        async for event in self._client().events(self.room, after=0, follow=True):
            if event.turn_id == turn and event.payload.kind == "turn.state":
                if event.payload.state == state:
                    break
                _require(
                    event.payload.state not in ("failed", "cut", "interrupted"),
                    f"the turn ended as {event.payload.state}: {event.payload.detail}",
                )
        return next(t for t in await self._client().turns(self.room) if t.id == turn)

    async def _observed(self, view: RoomView) -> str:
        inspection = await self._client().inspect(self.room)
        latest = max(inspection.observations, key=lambda o: o.observed_at)
        _require(latest.outcome is ObservationOutcome.SUCCEEDED, f"the observation reads {latest.outcome}: {latest.detail}")
        _require(latest.reported_identity == view.session.provider_identity, "Codex reported another thread")
        return str(latest.reported_identity)[-12:]


def _require(condition: bool, failure: str) -> None:
    if not condition:
        raise DemoFailedError(failure)
