"""Starting a host's conversations afresh: what is refused, what is moved, what stays, and every kill of it (CONT-9, CONT-13)."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import anyio
import pytest

from jamcore.continuity.resets.action import RESET_POINTS
from jamcore.daemon import reset_files
from jamcore.domain import layout
from jamcore.domain.cells import Placement, WorkspaceSource
from jamcore.domain.continuity import Checkpoint, CheckpointReason
from jamcore.domain.errors import ConflictError, JamError
from jamcore.domain.events import SessionNotice
from jamcore.domain.plan import Plan
from jamcore.domain.resets import ContinuityReset, ResetRefusedError, StartFreshResult
from jamcore.domain.sandboxes import EngineUnknownError, Presence
from jamcore.domain.sessions import Binding, HostState, SessionState, TurnState, WorkspaceState
from jamcore.journal.runner import ActionGivenUpError
from jamcore.store import Repos
from jamcore.system.files import StorageFullError
from jamcore.system.ids import SystemIds
from jamcore.testing.crash import KillAt, Killed, Passed
from jamcore.workspace.carry import carry

if TYPE_CHECKING:
    from tests.unit.resets.conftest import Life, Stage

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

ACTION, ANOTHER = UUID(int=5), UUID(int=6)
FILE = "mine.txt"


@pytest.fixture
async def lost(stage: Stage) -> Stage:
    """Two rooms on a shared host whose last generation is damaged."""
    await stage.make()
    stage.corrupt()
    return stage


def ref(stage: Stage) -> str:
    """The first room."""
    return str(stage.rooms[0].room.id)


async def digest(life: Life, stage: Stage) -> str:
    """What an inspection shows."""
    return (await life.resets.inspect(ref(stage))).digest


async def start(life: Life, stage: Stage, evidence: str, action: UUID = ACTION) -> StartFreshResult:
    """Ask for a fresh start."""
    return await life.start_fresh(stage.rooms[0].room.id, evidence, action=action)


def evidence_on_disk(stage: Stage) -> dict[Path, bytes]:
    """Everything of the source but its database rows: what must stay as it is, whatever is added to it."""
    root = stage.world.app / layout.host_root(stage.host.id)
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and not path.is_symlink()}


async def require_one_live_binding(life: Life, stage: Stage) -> None:
    """At every moment each room has one session that it is bound to, on a host that is not archived."""

    def read(repos: Repos) -> None:
        for room in stage.rooms:
            session, host, _ = repos.sessions.bound_to(room.room.id)  # raises for none, and for two
            assert host.state is not HostState.ARCHIVED
            assert session.host_id == host.id

    await life.store.read(read)


async def require_done(life: Life, stage: Stage) -> ContinuityReset:
    """Everything that a fresh start promises, once and not twice."""

    def read(repos: Repos) -> ContinuityReset:
        reset = repos.continuity_resets.of_source(stage.host.id)
        assert reset is not None
        assert repos.continuity_resets.that_made(reset.host_id) == repos.continuity_resets.find_id(reset.id) == reset
        assert repos.hosts.get(stage.host.id).state is HostState.ARCHIVED
        assert repos.continuity_resets.lineage(reset.host_id) == (
            reset.host_id,
            stage.host.id,
        )  # so that its checkpoints are listed
        new = repos.hosts.get(reset.host_id)
        assert new.state is HostState.PROVISIONING
        assert (new.agent_id, new.cell, new.engine) == (stage.host.agent_id, stage.host.cell, stage.host.engine)
        assert new.sandbox == reset.sandbox != stage.host.sandbox
        assert new.sandbox == Plan.model_validate_json(new.plan_json).name
        assert len(repos.hosts.list()) == 2
        assert {each.source_session_id for each in reset.sessions} == {room.session.id for room in stage.rooms}
        for each in reset.sessions:
            old, fresh = repos.sessions.get(each.source_session_id), repos.sessions.get(each.session_id)
            assert (old.state, old.provider_identity is None) == (SessionState.DORMANT, False)
            assert (fresh.state, fresh.provider_identity, fresh.model) == (SessionState.DORMANT, None, old.model)
            assert repos.workspaces.get(each.source_workspace_id).state is WorkspaceState.ARCHIVED
            assert repos.workspaces.get(each.workspace_id).state is WorkspaceState.READY
            assert repos.bindings.live_of_room(each.room_id) == repos.bindings.of_session(each.session_id)
            assert repos.bindings.of_session(each.source_session_id) == Binding(
                id=each.source_binding_id, room_id=each.room_id, session_id=each.source_session_id, live=False
            )
            turns = repos.turns.of_room(each.room_id)
            assert [turn.state for turn in turns] == [TurnState.CAPTURED, TurnState.CUT]
            events = [event.payload for event in repos.events.after(each.room_id, 0, 100)]
            assert [e.code for e in events if isinstance(e, SessionNotice)] == ["continuity.reset"]
        last = [row for row in repos.checkpoints.of_host(stage.host.id) if row.reason is CheckpointReason.BEFORE_RESET]
        assert [row.id for row in last] == [reset.checkpoint_id]
        assert repos.continuity_resets.referenced_checkpoints(stage.host.id) >= {reset.checkpoint_id}
        return reset

    reset = await life.store.read(read)
    for number, each in enumerate(reset.sessions):
        for directory in (
            stage.directory(stage.host.id, each.source_session_id),
            stage.directory(reset.host_id, each.session_id),
        ):
            assert (directory / FILE).read_text() == f"work {number}"
    return reset


@pytest.mark.guarantee("CONT-9", "CONT-13", "WS-10", "WS-11", "PLAN-6")
async def test_every_room_goes_on_with_a_new_conversation_and_nothing_is_deleted(lost: Stage) -> None:
    """All ids of the old and the new are in one record; files go on as copies; an exact retry changes nothing, a changed one is refused."""
    kept = evidence_on_disk(lost)
    passed = Passed()
    async with lost.living(passed) as life:
        seen = await digest(life, lost)
        done = await start(life, lost, seen)
        reset = await require_done(life, lost)
        assert (done.id, done.host_id, done.source_host_id) == (ACTION, reset.host_id, lost.host.id)
        assert (done.live, life.live) == (True, [ref(lost)])
        assert str(reset.checkpoint_id) in done.checkpoint
        events = await life.store.read(lambda repos: repos.events.last_seq(lost.rooms[0].room.id))
        assert await start(life, lost, seen) == done
        assert await life.store.read(lambda repos: repos.events.last_seq(lost.rooms[0].room.id)) == events
        assert await require_done(life, lost) == reset
        with pytest.raises(ConflictError):
            await start(life, lost, "f" * 64)
        view = await life.resets.inspect(ref(lost))
        assert (view.evidence.host_id, view.evidence.failure) == (reset.host_id, None)
        with pytest.raises(ResetRefusedError, match="can be brought back"):
            await start(life, lost, view.digest, ANOTHER)
    own = [point for point in passed.points if point.startswith("continuity-reset.")]
    assert tuple(own) == (*RESET_POINTS, "continuity-reset.begun")
    now = evidence_on_disk(lost)
    assert {path: data for path, data in now.items() if path in kept} == kept


LAST = "continuity-reset.apply.acted"
KILLS = [
    pytest.param(point, again, marks=[pytest.mark.slow] if again else [])
    for place, point in enumerate(RESET_POINTS)
    for again in dict.fromkeys((*RESET_POINTS[place + 1 : place + 2], LAST if place < RESET_POINTS.index(LAST) else "", ""))
]
"""Each boundary, and then in the recovery the next one, the last one, or none."""


@pytest.mark.guarantee("CONT-9", "WS-12", "START-1")
@pytest.mark.parametrize(("point", "again"), KILLS)
async def test_killed_at_each_boundary_and_again_in_the_recovery(lost: Stage, point: str, again: str) -> None:
    """The next start finishes it, and so does the one after that; at no moment is a room bound to two sessions, or to none."""
    async with lost.living(KillAt(point)) as life:
        seen = await digest(life, lost)
        with pytest.raises(Killed):
            await start(life, lost, seen)
        await require_one_live_binding(life, lost)
    async with lost.living(KillAt(again)) as life:
        try:
            assert await life.start_up() == []
        except Killed:
            await require_one_live_binding(life, lost)
    async with lost.living() as life:
        assert await life.start_up() == []
        reset = await require_done(life, lost)
        assert (await start(life, lost, seen)).host_id == reset.host_id
        assert await require_done(life, lost) == reset
        assert await life.start_up() == []


@pytest.mark.guarantee("CONT-9", "WS-10")
async def test_stale_evidence_is_refused_and_nothing_is_begun(lost: Stage) -> None:
    """A generation more, an observation more, a session more: each is another evidence."""
    async with lost.living() as life:
        for change in ("generation", "session"):
            seen = await digest(life, lost)
            if change == "generation":
                await life.capture(lost.host)
                lost.corrupt()
            else:
                await lost.join(life)
            with pytest.raises(ResetRefusedError, match="no longer what was confirmed"):
                await start(life, lost, seen)
            assert not await life.store.read(lambda repos: repos.operations.knows(ACTION))
        assert await life.store.read(lambda repos: repos.continuity_resets.of_source(lost.host.id)) is None


@pytest.mark.guarantee("CONT-9", "WS-10", "START-2")
async def test_evidence_that_changed_before_the_record_ends_it_for_good(lost: Stage) -> None:
    """Cut before the record, and the damage is mended when the daemon is back: it is over, and everything is as it was."""
    whole = {pack: pack.read_bytes() for pack in lost.packs}
    async with lost.living(KillAt("continuity-reset.record.intended")) as life:
        seen = await digest(life, lost)
        with pytest.raises(Killed):
            await start(life, lost, seen)
    for pack, data in whole.items():
        mended = bytearray(data)
        mended[-1] ^= 0xFF
        pack.write_bytes(bytes(mended))
    async with lost.living() as life:
        assert await life.start_up() == ["continuity.reset_refused"]
        assert await life.start_up() == []
        with pytest.raises(ActionGivenUpError) as over:
            await start(life, lost, seen)
        assert over.value.stays == "everything as it was"
        view = await life.resets.inspect(ref(lost))
        assert (view.evidence.failure, view.unfinished) == (None, None)


@pytest.mark.guarantee("CONT-9")
@pytest.mark.parametrize("what", ["leased", "active", "sound"])
async def test_only_a_failed_host_that_is_down_is_started_afresh(stage: Stage, what: str) -> None:
    """A host that is live, coming up or not parked says so in the inspection and in the refusal; so does a sound one."""
    await stage.make()
    if what != "sound":
        stage.corrupt()

    def occupy(repos: Repos) -> None:
        if what == "leased":
            repos.leases.acquire(stage.host.id, stage.rooms[0].session.id)
        if what == "active":
            repos.hosts.move(stage.host.id, HostState.ACTIVE)

    async with stage.living() as life:
        await life.store.transact(occupy)
        view = await life.resets.inspect(ref(stage))
        assert not view.can_start_fresh
        assert (view.blocked == "") is (what == "sound")
        with pytest.raises(ResetRefusedError):
            await start(life, stage, view.digest)
        assert not await life.store.read(lambda repos: repos.operations.knows(ACTION))


@pytest.mark.guarantee("CONT-9", "SHARE-4")
async def test_a_sandbox_that_outlived_its_daemon_is_proven_and_stopped_first(lost: Stage) -> None:
    """It is kept, stopped; while nobody can say whether it runs, nothing is recorded and the next start goes on."""
    plan = Plan.model_validate_json(lost.host.plan_json)
    await lost.world.ensure(plan)
    async with lost.living() as life:
        seen = await digest(life, lost)
        lost.world.engine.fail("presence", EngineUnknownError(engine="directory", operation="presence", detail="asleep"))
        with pytest.raises(EngineUnknownError):
            await start(life, lost, seen)
        assert await life.store.read(lambda repos: repos.continuity_resets.of_source(lost.host.id)) is None
        assert await life.start_up() == []
        await require_done(life, lost)
    assert await lost.world.engine.presence(plan.name) is Presence.STOPPED


@pytest.mark.guarantee("CONT-9", "SHARE-4", "START-1")
async def test_a_replay_stops_what_runs_again_before_the_last_checkpoint(lost: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox that runs when a cut fresh start is finished could write while its state is read."""
    plan = Plan.model_validate_json(lost.host.plan_json)
    async with lost.living(KillAt("continuity-reset.settle.recorded")) as life:
        with pytest.raises(Killed):
            await start(life, lost, await digest(life, lost))
    await lost.world.ensure(plan)
    seen: list[Presence] = []
    async with lost.living() as life:
        capture = life.broker.capture

        async def looking(*arguments: Any, **more: Any) -> Checkpoint:
            seen.append(await lost.world.engine.presence(plan.name))
            return await capture(*arguments, **more)

        monkeypatch.setattr(life.broker, "capture", looking)
        assert await life.start_up() == []
        await require_done(life, lost)
    assert seen == [Presence.STOPPED]


@pytest.mark.guarantee("CONT-9")
async def test_two_fresh_starts_at_once_are_one(lost: Stage) -> None:
    """Under different ids one wins and the other is told; under one id both get the same answer."""
    async with lost.living() as life:
        seen = await digest(life, lost)
        said: list[object] = []

        async def ask(action: UUID) -> None:
            try:
                said.append((await start(life, lost, seen, action)).host_id)
            except JamError as error:
                said.append(error.code)

        async with anyio.create_task_group() as tasks:
            for action in (ACTION, ACTION, ANOTHER):
                tasks.start_soon(ask, action)
        reset = await require_done(life, lost)
        assert said.count(reset.host_id) in (1, 2)
        assert {each for each in said if each != reset.host_id} <= {"continuity.reset_refused", "conflict.changed_record"}
        assert len(said) == 3


@pytest.mark.guarantee("CONT-9")
async def test_one_that_was_cut_is_shown_and_finished_under_any_id(lost: Stage) -> None:
    """The confirmed evidence is shown although the last checkpoint changed what is true now; another evidence finishes nothing."""
    async with lost.living(KillAt("continuity-reset.carry.intended")) as life:
        seen = await digest(life, lost)
        with pytest.raises(Killed):
            await start(life, lost, seen)
    async with lost.living() as life:
        view = await life.resets.inspect(ref(lost))
        assert (view.digest, view.unfinished, view.can_start_fresh) == (seen, ACTION, True)
        with pytest.raises(ConflictError):
            await start(life, lost, "e" * 64, ANOTHER)
        assert (await start(life, lost, seen, ANOTHER)).id == ACTION
        await require_done(life, lost)


@pytest.mark.guarantee("CONT-9")
async def test_a_full_disk_stops_it_before_the_rooms_are_moved(lost: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are never left behind for want of space: it waits for some, and goes on."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with lost.living() as life:
        seen = await digest(life, lost)
        monkeypatch.setattr(reset_files, "carry", full)
        with pytest.raises(StorageFullError):
            await start(life, lost, seen)
        await require_one_live_binding(life, lost)
        assert await life.start_up() == ["storage.full"]
        monkeypatch.setattr(reset_files, "carry", carry)
        assert (await start(life, lost, seen, ANOTHER)).live
        await require_done(life, lost)


@pytest.mark.guarantee("CONT-9", "CONT-13")
async def test_a_last_checkpoint_that_cannot_be_made_hinders_nothing(lost: Stage) -> None:
    """It is attempted and its refusal is said: here of a token."""
    (lost.state / "home" / "logs" / "b").write_text("ghp_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789\n")
    async with lost.living() as life:
        done = await start(life, lost, await digest(life, lost))
        assert "no last checkpoint could be made of what is left of it: " in done.checkpoint
        reset = await life.store.read(lambda repos: repos.continuity_resets.find_id(done.id))
        assert reset is not None
        rows = await life.store.read(lambda repos: repos.checkpoints.of_host(lost.host.id))
        assert reset.checkpoint_id not in {row.id for row in rows}


@pytest.mark.guarantee("CONT-9")
async def test_a_room_that_cannot_come_up_is_said_and_the_fresh_start_stands(lost: Stage) -> None:
    """What hinders the new conversation is another matter."""
    async with lost.living() as life:
        life.cannot_start = ConflictError(kind="engine", ref="x", problem="it sleeps")
        done = await start(life, lost, await digest(life, lost))
        assert not done.live
        assert done.problem.startswith("conflict.changed_record")
        await require_done(life, lost)


@pytest.mark.guarantee("CONT-9", "SHARE-1")
async def test_no_room_joins_a_host_that_is_being_given_up(lost: Stage) -> None:
    """Between the record and the move a new room of the agent is not placed on the source; afterwards it joins the new host."""
    async with lost.living(KillAt("continuity-reset.apply.intended")) as life:
        seen = await digest(life, lost)
        with pytest.raises(Killed):
            await start(life, lost, seen)
    async with lost.living() as life:
        with pytest.raises(JamError) as refused:
            await lost.join(life)
        assert refused.value.code == "shared_host.contended", refused.value
        await life.start_up()
        reset = await require_done(life, lost)
        await lost.join(life)
        assert lost.rooms[-1].host.id == reset.host_id


@pytest.mark.guarantee("CONT-9", "PLAN-2")
async def test_a_dedicated_host_bears_its_new_sessions_uuid_and_works_on_in_place(stage: Stage, tmp_path: Path) -> None:
    """A person's own directory is neither copied nor touched."""
    person = tmp_path / "person"
    person.mkdir()
    (person / FILE).write_text("theirs")
    await stage.make(placement=Placement.DEDICATED, rooms=1, workspace=WorkspaceSource.DIRECT_HOST, path=str(person))
    stage.corrupt()
    async with stage.living() as life:
        view = await life.resets.inspect(ref(stage))
        assert [(room.files, room.carried) for room in view.rooms] == [(str(person), "in-place")]
        done = await start(life, stage, view.digest)
        reset = await life.store.read(lambda repos: repos.continuity_resets.find_id(done.id))
        assert reset is not None
        assert reset.host_id == reset.sessions[0].session_id
        workspace = await life.store.read(lambda repos: repos.workspaces.get(reset.sessions[0].workspace_id))
        assert (workspace.path, workspace.state) == (str(person), WorkspaceState.READY)
        assert done.files == (f"it works on in {person}",)
    assert [path.name for path in person.iterdir()] == [FILE]


@pytest.mark.guarantee("CONT-9", "CONT-13")
async def test_the_database_itself_allows_one_live_binding(lost: Stage) -> None:
    """Whatever code does: a second one is refused."""
    async with lost.living() as life:
        second = Binding(id=SystemIds().uuid(), room_id=lost.rooms[0].room.id, session_id=lost.rooms[1].session.id, live=True)
        with pytest.raises(ConflictError):
            await life.store.transact(lambda repos: repos.bindings.insert(second))
