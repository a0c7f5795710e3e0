"""What a process that was killed at a known place leaves: nothing that stays, nothing half, and a room that goes on.

A daemon is told by ``JAM_CRASH_POINT`` at which of its own boundaries it ends itself by SIGKILL; the names come from the code that passes
them, so a new boundary is a new test.
"""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from jamcore.continuity.generations.publish import POINTS as PUBLISH_POINTS
from jamcore.continuity.resuming.restore import RESTORE_POINTS
from jamcore.control.client import JamClient
from jamcore.daemon.crash import VARIABLE
from jamcore.domain import layout
from jamcore.domain.cells import WorkspaceSource
from jamcore.domain.continuity import CheckpointReason, ObservationOutcome, ResumeSource
from jamcore.domain.errors import JamError
from jamcore.domain.limits import FINALISE_TIMEOUT_S
from jamcore.domain.requests import EndpointChoice, RoomRequest, TurnRequest
from jamcore.domain.sessions import Turn, TurnState
from jamcore.runs.change_action import CHANGE_POINTS
from jamcore.sandbox.ensure import CREATE_POINTS
from jamcore.system.ids import SystemIds
from jamcore.testing.crash import Lives
from jamcore.testing.daemon import DaemonChild, gone, kill, parked, place_toolchain, room_event, running_daemon, until, victims
from jamcore.testing.exchanges import Exchange, Place, Question, repeated, said_in
from jamcore.testing.guards import Process, descendants, settle
from jamcore.testing.leftovers import left_in
from jamcore.testing.servers.history import contains_in_order
from jamcore.testing.servers.responses import ResponsesServer, Script, held_at

LIMIT_S = 30.0
SECRET = "sk-test-" + "1" * 32
ENDED = ("captured", "failed", "cut", "interrupted")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.crash,
    pytest.mark.anyio,
    pytest.mark.needs("codex", "bubblewrap", "git"),
]


@dataclass(slots=True)
class Stage:
    """A daemon, its model, one exchange and one question for it."""

    daemon: DaemonChild
    client: JamClient
    server: ResponsesServer
    exchange: Exchange
    question: Question
    before: frozenset[Process]

    @property
    def app(self) -> Path:
        """The app directory."""
        return self.daemon.app

    def request(self, repository: Path | None = None) -> RoomRequest:
        """Ask for a room, with a private clone of a repository where one is given."""
        return RoomRequest(
            id=SystemIds().uuid(),
            provider="codex",
            endpoint=EndpointChoice(origin=self.server.base_url, credential="test"),
            workspace=WorkspaceSource.PRIVATE_HOST_CLONE if repository else WorkspaceSource.MANAGED,
            path=str(repository) if repository else None,
        )

    async def room(self) -> str:
        """Make a room and return how clients name it."""
        return str((await self.client.create_room(self.request())).room.id)

    async def say(self, room: str, text: str) -> Turn:
        """Hand in a turn."""
        return await self.client.say(room, TurnRequest(id=SystemIds().uuid(), text=text))

    async def done(self, room: str, turn: Turn) -> Turn:
        """Wait for the end of a turn and return it."""
        await room_event(
            self.client, room, lambda e: e.turn_id == turn.id and e.payload.kind == "turn.state" and e.payload.state in ENDED
        )
        return next(t for t in await self.client.turns(room) if t.id == turn.id)

    async def dead(self) -> None:
        """Wait for the daemon's end at its boundary, then for everything below it."""
        await until("the daemon's end", lambda: self.daemon.returncode is not None)
        assert self.daemon.returncode == -signal.SIGKILL, self.daemon.last_words()
        left = await to_thread.run_sync(settle, descendants() - self.before, 5.0)
        assert not left, f"they outlived the daemon: {left}"

    async def again(self) -> None:
        """Start an ordinary daemon; once it answers nothing temporary is there."""
        self.daemon.start()
        await self.daemon.up()
        assert not left_in(self.app)

    async def proven(self, room: str, turn: Turn | None) -> Turn | None:
        """Bring the room back, ask, and require that what was acknowledged is told again and nothing twice; returns the turn."""
        view = await self.client.resume(room)
        identity = view.session.provider_identity
        now = next((t for t in await self.client.turns(room) if turn and t.id == turn.id), None)
        question = await self.done(room, await self.say(room, self.question.said))
        assert question.state is TurnState.CAPTURED, question
        heard = said_in(self.server.model_requests[-1], (self.exchange.token,))
        if identity is not None and now is not None:
            kept = now.state is TurnState.CAPTURED
            expected = self.exchange.items() if kept else self.exchange.acknowledged(self.server.model_requests)
            assert contains_in_order(expected, heard) is None
            assert self.server.model_requests[-1].header("thread-id") == identity
            latest = max((await self.client.inspect(room)).observations, key=lambda o: o.observed_at)
            assert (latest.outcome, latest.reported_identity) == (ObservationOutcome.SUCCEEDED, identity)
        assert not repeated(heard)
        assert not self.server.unmatched
        return now


@asynccontextmanager
async def stage(directory: Path, lives: Lives, holds: Place = "nowhere", *, ends_at: str = "") -> AsyncIterator[Stage]:
    """Start everything, the daemon's first life to end at a boundary; in the end nothing may be left in or beside its app directory."""
    exchange, question = Exchange.make("the work", "a1b2c3", holds), Question.make("the end", "d4e5f6")
    before = descendants()
    app, private = directory / "app", directory / "private"
    await place_toolchain(app, "codex")
    daemon = DaemonChild(app, environment={"JAM_CREDENTIAL_TEST": SECRET}, private=private, lives=lives)
    script = Script(rules=(*question.rules(), *exchange.rules()))
    async with ResponsesServer(script) as server, running_daemon(daemon, **{VARIABLE: ends_at}) as client:
        yield Stage(daemon, client, server, exchange, question, before)
    assert not left_in(app, private / "run", private / "tmp")
    assert SECRET.encode() not in b"".join(p.read_bytes() for p in app.rglob("*") if p.is_file() and "toolchains" not in p.parts)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit."""
    path = tmp_path / "repository"
    path.mkdir()
    (path / "README").write_text("one\n")
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.invalid", "-c", "commit.gpgSign=false")
    for command in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "One")):
        subprocess.run(("git", *identity, "-C", str(path), *command), check=True, capture_output=True, timeout=30)
    return path


@pytest.mark.guarantee("CONT-1", "CONT-11")
async def test_the_sandbox_s_outermost_process_killed(tmp_path: Path, lives: Lives) -> None:
    """The process that the daemon holds is not the sandbox: when it is killed everything inside ends too, and the room goes on."""
    async with stage(tmp_path, lives, "request-2") as s:
        room = await s.room()
        turn = await s.say(room, s.exchange.said)
        await s.server.wait_for(held_at(s.exchange.gate), LIMIT_S)
        family, found = s.daemon.family(), victims(s.daemon.pid)
        assert found is not None
        assert found.outer != found.init
        await to_thread.run_sync(kill, (found.outer,))
        assert not await to_thread.run_sync(gone, family)
        await parked(s.client, room)
        now = await s.proven(room, turn)
        assert now is not None
        assert now.state is TurnState.CUT


@pytest.mark.guarantee("CONT-11")
@pytest.mark.parametrize("holds", ["request-1", "delta-1", "tool-call", "request-2", "last-delta"])
async def test_an_orderly_end_in_the_middle_of_a_turn(holds: Place, tmp_path: Path, lives: Lives) -> None:
    """SIGTERM ends the turn as interrupted, checkpoints, leaves nothing, and the next daemon brings back the exact thread."""
    async with stage(tmp_path, lives, holds) as s:
        room = await s.room()
        turn = await s.say(room, s.exchange.said)
        await s.server.wait_for(held_at(s.exchange.gate), LIMIT_S)
        family, started = s.daemon.family(), anyio.current_time()
        s.daemon.terminate()
        code = await to_thread.run_sync(s.daemon.reap, FINALISE_TIMEOUT_S)
        took = anyio.current_time() - started
        print(f"{holds}: ended after {took:.2f} s")
        assert code == 0, s.daemon.last_words()
        assert not await to_thread.run_sync(gone, family)
        assert not left_in(s.app, tmp_path / "private" / "run", tmp_path / "private" / "tmp")
        await s.again()
        (now,) = await s.client.turns(room)
        assert now.state is TurnState.INTERRUPTED, now
        checkpoints = (await s.client.inspect(room)).checkpoints
        assert checkpoints[-1].reason is CheckpointReason.BEFORE_STOP
        await s.proven(room, turn)


@pytest.mark.guarantee("OWN-5", "START-1")
@pytest.mark.parametrize("point", CREATE_POINTS)
@pytest.mark.parametrize("source", ["managed", "clone"])
async def test_killed_while_a_sandbox_is_created(point: str, source: str, tmp_path: Path, lives: Lives, repository: Path) -> None:
    """No kill leaves a sandbox that nobody knows: the start-up clears it away, and the same request makes the room."""
    async with stage(tmp_path, lives, ends_at=point) as s:
        request = s.request(repository if source == "clone" else None)
        with pytest.raises(JamError):
            await s.client.create_room(request)
        await s.dead()
        await s.again()
        view = await s.client.create_room(request)
        assert view.live
        assert len(await s.client.rooms()) == 1
        assert len(list((s.app / "engines" / "bubblewrap").glob("*.json"))) == 1
        await s.proven(str(view.room.id), None)


@pytest.mark.guarantee("CONT-7", "CONT-11", "START-1")
@pytest.mark.parametrize("point", PUBLISH_POINTS)
async def test_killed_while_the_first_generation_is_published(point: str, tmp_path: Path, lives: Lives) -> None:
    """The first turn had not reached the model: it is reported as cut, is never sent by itself, and the room goes on."""
    async with stage(tmp_path, lives, ends_at=point) as s:
        room = await s.room()
        turn = await s.say(room, s.exchange.said)
        await s.dead()
        await s.again()
        now = await s.proven(room, turn)
        assert now is not None
        assert now.state is TurnState.CUT
        assert not s.exchange.requests(s.server.model_requests)


@pytest.mark.guarantee("CONT-1", "CONT-11", "START-1")
@pytest.mark.parametrize("point", PUBLISH_POINTS)
async def test_killed_while_a_turn_is_captured(point: str, tmp_path: Path, lives: Lives) -> None:
    """The provider had finished the turn: it is kept, whole, whichever boundary of its capture was the last."""
    async with stage(tmp_path, lives, ends_at=f"{point}#2") as s:  # the first passing is the first turn's own generation
        room = await s.room()
        turn = await s.say(room, s.exchange.said)
        await s.dead()
        await s.again()
        now = await s.proven(room, turn)
        assert now is not None
        assert now.state is TurnState.CAPTURED, now


@pytest.mark.guarantee("CONT-1", "CONT-11", "CONT-12")
@pytest.mark.parametrize("point", RESTORE_POINTS)
async def test_killed_while_a_generation_is_restored(point: str, tmp_path: Path, lives: Lives) -> None:
    """A restore that was interrupted is begun anew: the room comes back from the generation, never from the half of it."""
    async with stage(tmp_path, lives, ends_at=point) as s:
        view = await s.client.create_room(s.request())
        room = str(view.room.id)
        turn = await s.done(room, await s.say(room, s.exchange.said))
        assert turn.state is TurnState.CAPTURED, turn
        await s.client.stop(room)
        (rollout,) = (s.app / layout.provider_state(view.host.id, "codex")).glob("sessions/**/rollout-*.jsonl")
        data = rollout.read_bytes()
        rollout.write_bytes(data[: len(data) // 2])  # it no longer extends the generation
        with pytest.raises(JamError):
            await s.client.resume(room)
        await s.dead()
        s.daemon.start()
        await s.daemon.up()
        now = await s.proven(room, turn)
        assert now is not None
        assert now.state is TurnState.CAPTURED
        latest = max((await s.client.inspect(room)).observations, key=lambda o: o.observed_at)
        whole = point == RESTORE_POINTS[-1]
        assert latest.source is (ResumeSource.LIVE if whole else ResumeSource.GENERATION)
        assert not left_in(s.app)


@pytest.mark.guarantee("START-1")
@pytest.mark.parametrize("point", CHANGE_POINTS)
async def test_killed_while_a_change_request_is_built(point: str, tmp_path: Path, lives: Lives, repository: Path) -> None:
    """A package is there whole or not at all, nothing of a half one stays, and the same request gives exactly one."""
    async with stage(tmp_path, lives, ends_at=point) as s:
        view = await s.client.create_room(s.request(repository))
        room = str(view.room.id)
        await s.done(room, await s.say(room, s.exchange.said))
        identifier = SystemIds().uuid()
        with pytest.raises(JamError):
            await s.client.build_change(room, identifier)
        await s.dead()
        await s.again()
        change = await s.client.build_change(room, identifier)
        assert [c.id for c in await s.client.changes()] == [identifier]
        package = s.app / layout.change(identifier)
        for file in change.files:
            assert hashlib.sha256((package / file.name).read_bytes()).hexdigest() == file.sha256
        assert s.exchange.token.encode() in (package / "change.patch").read_bytes()
        assert change.complete


@pytest.mark.guarantee("PREP-4")
async def test_the_program_killed_while_it_comes_up(tmp_path: Path, lives: Lives) -> None:
    """A bring-up that fails says so by type and leaves the sandbox parked; the environment never lay in a file."""
    async with stage(tmp_path, lives) as s:
        room = await s.room()
        turn = await s.done(room, await s.say(room, s.exchange.said))
        await s.client.stop(room)
        refused: list[JamError] = []

        async def resume() -> None:
            try:
                await s.client.resume(room)
            except JamError as error:
                refused.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(resume)
            await until("the program", lambda: (v := victims(s.daemon.pid)) is not None and v.provider is not None)
            found = victims(s.daemon.pid)
            assert found is not None
            assert found.provider is not None
            family = s.daemon.family()
            await to_thread.run_sync(kill, (found.provider,))
        await parked(s.client, room)
        assert not await to_thread.run_sync(gone, family)
        assert not left_in(s.app)
        await s.proven(room, turn)


@pytest.mark.guarantee("START-1")
async def test_a_damaged_record_blocks_no_other(tmp_path: Path, lives: Lives) -> None:
    """Start-up reports what it cannot read, keeps it as it is, and does everything else."""
    async with stage(tmp_path, lives, "delta-3") as s:
        room = await s.room()
        turn = await s.say(room, s.exchange.said)
        await s.server.wait_for(held_at(s.exchange.gate), LIMIT_S)
        await to_thread.run_sync(s.daemon.kill)
        damaged = s.app / layout.pending_cleanup("jam-0123456789abcdef")
        damaged.write_text(json.dumps({"schema_version": 1}))
        s.daemon.start()
        await s.daemon.up()
        findings = [f for f in (await s.client.doctor()).findings if f.subject == "start-up"]
        assert ["jam-0123456789abcdef" in f.detail for f in findings] == [True]
        assert damaged.exists()
        now = await s.proven(room, turn)
        assert now is not None
        assert now.state is TurnState.CUT
        damaged.unlink()
