"""The disk of the app directory is full, at each stage: a typed error, a daemon that lives, nothing lost, and work goes on with room.

The app directory is a small file system of its own; a file that takes all of its free space is what fills it.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from uuid import UUID

import anyio
import pytest
from anyio import to_thread

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.domain.errors import JamError
from jamcore.domain.requests import RoomView, TurnRequest
from jamcore.domain.sessions import TurnState
from jamcore.testing.daemon import DaemonChild, place_toolchain, room_event, running_daemon
from jamcore.testing.rooms import ENDED, ask, managed, new_id, refused, said_in_room
from jamcore.testing.servers.history import said_in
from jamcore.testing.servers.responses import Hold, Match, ResponsesServer, Rule, Script, Text, held_at, say

pytestmark = [pytest.mark.anyio, pytest.mark.needs("codex", "bubblewrap", "git", "root")]
MIB = 1 << 20
SIZE = 24 * MIB
LOOK_S, FULL_LOOKS = 0.05, 6
"""A disk is full once it was so at each of these looks."""


class SmallDisk:
    """A file system of 24 MiB, mounted at a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._filler = root / "filler"

    def fill(self, leave: int = 0) -> None:
        """Take all free space but ``leave`` bytes, and what others give back for a while after that."""
        self.free()
        full = 0
        with self._filler.open("ab", buffering=0) as file:
            for _ in range(200):  # others write at the same time
                stat = os.statvfs(self.root)
                too_much = stat.f_bavail * stat.f_frsize - leave
                if too_much > stat.f_frsize:
                    full = 0
                    with suppress(OSError):
                        file.write(bytes(too_much))
                elif full == FULL_LOOKS:
                    return
                else:
                    full += 1
                    time.sleep(LOOK_S)
        raise AssertionError("the disk does not become full")

    def free(self) -> None:
        """Give it back."""
        self._filler.unlink(missing_ok=True)


def mount(*argv: str) -> None:
    subprocess.run(("mount", *argv), check=True, timeout=30, capture_output=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """The small file system; the provider's program, which is larger, lies elsewhere and is only mounted into it."""
    app, program = tmp_path / "app", tmp_path / "program"
    anyio.run(place_toolchain, program, "codex")
    app.mkdir(mode=0o700)
    mount("-t", "tmpfs", "-o", f"size={SIZE},mode=0700", "jam-test", str(app))
    try:
        (app / layout.TOOLCHAINS).mkdir(mode=0o700)
        mount("--bind", str(program / layout.TOOLCHAINS), str(app / layout.TOOLCHAINS))
        try:
            yield SmallDisk(app)
        finally:
            subprocess.run(("umount", str(app / layout.TOOLCHAINS)), check=True, timeout=30)
    finally:
        subprocess.run(("umount", str(app)), check=True, timeout=30)


@pytest.fixture
def full_daemon(disk: SmallDisk, tmp_path: Path) -> DaemonChild:
    """A daemon on that disk; its socket and temporary files are elsewhere."""
    return DaemonChild(disk.root, private=tmp_path / "private")


@asynccontextmanager
async def model_with(*rules: Rule) -> AsyncIterator[ResponsesServer]:
    async with ResponsesServer(Script(rules=(*rules, say("Hello ", "there.")))) as server:
        yield server


@contextmanager
def only_typed() -> Iterator[None]:
    """Let an error of the daemon pass by, and fail on one that does not say what is wrong."""
    try:
        yield
    except JamError as error:
        print(f"{error.code}: {error.context()}")
        if error.code.startswith("fault.") or not error.hint:
            raise AssertionError(f"not typed: {error}") from error


async def lives(client: JamClient, daemon: DaemonChild) -> None:
    """The daemon answers questions as if nothing had happened."""
    daemon.require_alive()
    await client.health()
    await client.rooms()
    await client.doctor()


async def remembers(client: JamClient, model: ResponsesServer, room: RoomView, *said: str) -> None:
    """A further turn is captured, and the model is told of all that was said before."""
    turn = await ask(client, room, "and now?")
    assert turn.state is TurnState.CAPTURED, turn
    heard = said_in(model.model_requests[-1].body)
    assert [text for text in heard if text in said] == list(said), heard


async def test_a_daemon_that_starts_on_a_full_disk(disk: SmallDisk, full_daemon: DaemonChild) -> None:
    """It does not start, says that the disk is full, and starts when there is room, on a new and on a used directory."""
    for life in ("new", "used"):
        for leave in (0, 64 << 10):
            disk.fill(leave)
            full_daemon.start()
            try:
                await full_daemon.up(limit_s=20)
            except Exception:  # noqa: BLE001 - whichever: what it said is looked at
                code = await to_thread.run_sync(full_daemon.reap)
                words = full_daemon.last_words()
                assert code in (3, 4), (life, leave, code, words)
                last = words.splitlines()[-1]
                assert last.startswith("jamd: "), last
                assert "No space left" in last or "store.full" in last or "ENOSPC" in last, last
            else:
                # A used directory may need nothing: then it serves, and says of each change that there is no room.
                await lives(full_daemon.client(), full_daemon)
                await to_thread.run_sync(full_daemon.stop)
        disk.free()
        async with running_daemon(full_daemon) as client:
            await lives(client, full_daemon)


async def test_a_room_is_made_on_a_full_disk(disk: SmallDisk, full_daemon: DaemonChild) -> None:
    """Refused by type, however much room there was; the same request makes the room when there is space, once."""
    async with model_with() as model, running_daemon(full_daemon) as client:
        for leave in (0, 8 << 10, 48 << 10, 128 << 10, 512 << 10):
            request = managed("codex", model.base_url)
            disk.fill(leave)
            made: list[UUID] = []
            with only_typed():
                made.append((await client.create_room(request)).session.id)
            await lives(client, full_daemon)
            disk.free()
            room = await client.create_room(request)
            assert made in ([], [room.session.id])
            assert (await ask(client, room, f"hello {leave}")).state is TurnState.CAPTURED
            await client.stop(str(room.room.id))
        hosts = {view.host.id for view in await client.rooms()}
        assert {path.name for path in (disk.root / layout.HOSTS).iterdir()} == {str(host) for host in hosts}


@pytest.mark.parametrize("leave", [0, 16 << 10, 64 << 10, 256 << 10])
async def test_a_first_turn_on_a_full_disk(disk: SmallDisk, full_daemon: DaemonChild, leave: int) -> None:
    """The message is refused, or its turn ends in a state that says why; with room the same message runs, and the room lives."""
    async with model_with() as model, running_daemon(full_daemon) as client:
        room = await client.create_room(managed("codex", model.base_url))
        ref, turn = str(room.room.id), TurnRequest(id=new_id(), text="the first")
        disk.fill(leave)
        accepted = False
        with only_typed():
            await client.say(ref, turn)
            accepted = True
        await lives(client, full_daemon)
        if accepted:
            await settled_or_parked(client, ref, turn)
        disk.free()
        await client.resume(ref)
        await client.say(ref, turn)
        await settled(client, ref, turn)
        state = next(t for t in await client.turns(ref) if t.id == turn.id)
        assert state.state is TurnState.CAPTURED or (accepted and state.detail), state
        await remembers(client, model, room, *(("the first",) if state.state is TurnState.CAPTURED else ()))


async def test_the_disk_fills_in_the_middle_of_a_turn(disk: SmallDisk, full_daemon: DaemonChild) -> None:
    """Between the first delta and the end: what was captured before stays, the cut turn says so, and the thread is the same."""
    held = Rule(
        match=Match(last_user_contains="hold"), answer=(Text(deltas=("one ", "two."), hold=Hold(gate="full", after=1)),), times=1
    )
    async with model_with(held) as model, running_daemon(full_daemon) as client:
        room = await client.create_room(managed("codex", model.base_url))
        ref = str(room.room.id)
        assert (await ask(client, room, "safe before")).state is TurnState.CAPTURED
        identity = (await client.room(ref)).session.provider_identity
        turn = await client.say(ref, TurnRequest(id=new_id(), text="please hold"))
        await model.wait_for(held_at("full"), timeout_s=20)
        disk.fill()
        model.release("full")
        await settled_or_parked(client, ref, turn)
        await lives(client, full_daemon)
        disk.free()
        view = await client.resume(ref)
        assert view.session.provider_identity == identity
        await settled(client, ref, turn)
        await remembers(client, model, room, "safe before")


async def test_a_checkpoint_on_a_full_disk(disk: SmallDisk, full_daemon: DaemonChild) -> None:
    """A room that is stopped without room for its last checkpoint is parked, and comes back with everything that was said."""
    async with model_with() as model, running_daemon(full_daemon) as client:
        room = await client.create_room(managed("codex", model.base_url))
        ref = str(room.room.id)
        for said in ("first", "second"):
            assert (await ask(client, room, said)).state is TurnState.CAPTURED
        held = TurnRequest(id=new_id(), text="third")
        await client.say(ref, held)
        await room_event(client, ref, lambda e: e.turn_id == held.id and e.payload.kind == "turn.ended")
        disk.fill()
        with only_typed():
            await client.stop(ref)
        await lives(client, full_daemon)
        assert not (await client.room(ref)).live
        assert not full_daemon.family(), "its sandbox runs on"
        disk.free()
        if (await client.room(ref)).safety.unsaved is not None:
            await client.stop(ref)  # the last checkpoint is made now
        await client.resume(ref)
        third = next(t for t in await client.turns(ref) if t.id == held.id)
        assert third.state in (TurnState.CAPTURED, TurnState.CUT, TurnState.INTERRUPTED), third
        await remembers(client, model, room, "first", "second")
        assert "session.resumed" in [code for code, _ in await said_in_room(client, room)]


@pytest.mark.guarantee("CONT-8")
async def test_a_last_checkpoint_on_a_full_disk_is_made_later(disk: SmallDisk, full_daemon: DaemonChild) -> None:
    """The room says so, does not start before it was made, in the daemon's next life either, and has lost nothing."""
    async with model_with() as model, running_daemon(full_daemon) as client:
        room = await client.create_room(managed("codex", model.base_url))
        ref = str(room.room.id)
        assert (await ask(client, room, "first")).state is TurnState.CAPTURED
        await client.stop(ref)
        await client.resume(ref)
        (log,) = (disk.root / layout.provider_state(room.host.id, "codex")).rglob("rollout-*.jsonl")
        log.with_name("rollout-large.jsonl").write_text(os.urandom(2 * MIB).hex())
        disk.fill()
        stopped = await client.stop(ref)
        assert (stopped.room.live, stopped.checkpoint) == (False, None)
        assert (await client.room(ref)).safety.unsaved is not None
        for again in (client.resume, client.stop):
            with pytest.raises(JamError) as refusal:
                await again(ref)
            assert refusal.value.code in ("continuity.unsaved", "store.full"), refusal.value
        await lives(client, full_daemon)
        disk.free()
        with refused("continuity.unsaved"):
            await client.resume(ref)
        await to_thread.run_sync(full_daemon.stop)
        full_daemon.start()
        await full_daemon.up()
        with refused("continuity.unsaved"):
            await client.resume(ref)
        settled = (await client.stop(ref)).settled
        assert settled is not None
        assert settled.settlement == "checkpoint"
        await client.resume(ref)
        await remembers(client, model, room, "first")


async def test_a_change_request_on_a_full_disk(disk: SmallDisk, full_daemon: DaemonChild) -> None:
    """Nothing half is ever listed; the same id builds it when there is room; the room lives through it."""
    async with model_with() as model, running_daemon(full_daemon) as client:
        room = await client.create_room(managed("codex", model.base_url))
        ref = str(room.room.id)
        assert (await ask(client, room, "hello")).state is TurnState.CAPTURED
        work = disk.root / layout.session_workspace(room.host.id, room.session.id)
        (work / "made.bin").write_bytes(os.urandom(256 << 10))
        identifier = new_id()
        for leave in (0, 16 << 10, 128 << 10, 320 << 10):
            disk.fill(leave)
            built = False
            with only_typed():
                await client.build_change(ref, identifier)
                built = True
            assert not built, leave
            assert await client.changes() == ()
            with refused("input.not_found"):
                await client.change(str(identifier))
            await lives(client, full_daemon)
            disk.free()
        change = await client.build_change(ref, identifier)
        assert change.complete
        assert [path.path for path in change.paths] == ["made.bin"]
        assert [path.name for path in (disk.root / layout.CHANGES).iterdir()] == [str(identifier)]
        assert (await ask(client, room, "goodbye")).state is TurnState.CAPTURED


async def settled(client: JamClient, ref: str, turn: TurnRequest | object) -> None:
    """Wait until a turn has ended."""
    identifier = getattr(turn, "id")  # noqa: B009 - a request or a turn
    await room_event(client, ref, lambda e: e.turn_id == identifier and e.payload.kind == "turn.state" and e.payload.state in ENDED)


async def settled_or_parked(client: JamClient, ref: str, turn: TurnRequest | object) -> None:
    """Wait until a turn has ended, or until its room can do no more for it: a full disk may not even take that down."""
    identifier = getattr(turn, "id")  # noqa: B009 - a request or a turn
    with anyio.fail_after(60):
        while True:
            view = await client.room(ref)
            state = next((t.state for t in await client.turns(ref) if t.id == identifier), None)
            if state in ENDED or not view.live:
                return
            await anyio.sleep(0.05)
