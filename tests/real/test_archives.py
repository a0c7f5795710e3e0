"""A room's workspace is archived on a person's word and brought back, with the exact conversation (WS-4, WS-6, CONT-1)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import anyio
import pytest

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.domain.approvals import ApprovalPolicy
from jamcore.domain.cells import Placement, WorkspaceSource
from jamcore.domain.errors import JamError
from jamcore.domain.keeping import (
    ArchivePlan,
    ArchiveQuestion,
    ArchiveRequest,
    ArchiveResult,
    ExportView,
    RestoreRequest,
    RoomExportRequest,
)
from jamcore.domain.kept_exports import ExportState
from jamcore.domain.operations import ExportRetention
from jamcore.domain.removal import RemovalOverride, RemovalReason
from jamcore.domain.requests import RoomView
from jamcore.domain.sessions import TurnState, WorkspaceState
from jamcore.testing.daemon import DaemonChild, running_daemon
from jamcore.testing.rooms import ask, managed, new_id, refused, running, said_in_room
from jamcore.testing.servers.history import UserText, conversation
from jamcore.testing.servers.responses import ResponsesServer, Script, say

pytestmark = [pytest.mark.anyio, pytest.mark.needs("bubblewrap", "codex")]

RULES = (
    *running("mkdir -p a/b; echo mine > a/b/made.txt; ln -s a/b link; chmod 500 a/b", said="Write"),
    *running("cat a/b/made.txt", said="Read"),
    say("Yes."),
)


async def plan_of(client: JamClient, room: RoomView, **asked: object) -> tuple[ArchivePlan, ArchiveRequest]:
    """Return the plan that overrides everything that may be overridden, and the request that confirms it."""
    ref = str(room.room.id)
    seen = await client.exports.plan_archive(ref, ArchiveQuestion.model_validate(asked))
    words = tuple(RemovalOverride(reason=b.reason, path=b.path) for b in seen.standing if b.may_be_forced)
    question = ArchiveQuestion.model_validate({**asked, "overrides": words})
    plan = await client.exports.plan_archive(ref, question)
    return plan, ArchiveRequest(
        id=new_id(), confirmed=plan.digest or "0" * 64, **question.model_dump(exclude={"overrides"}), overrides=words
    )


def lose_the_conversation(app: Path, room: RoomView) -> None:
    """Damage every generation of a room's host, and take its live state away."""
    for pack in (app / layout.packs(room.host.id)).glob("*.pack"):
        pack.write_bytes(pack.read_bytes()[:-1])
    shutil.rmtree(app / layout.provider_state(room.host.id, "codex") / "sessions")


@pytest.mark.guarantee("WS-4", "WS-6", "WS-10", "WS-11", "WS-13", "WS-16", "CONT-1", "CONT-3")
async def test_archived_restored_and_resumed_exactly(daemon: DaemonChild, app: Path) -> None:
    """What the agent made and what was said are there again; in between the room says where they are, and nothing runs."""
    async with ResponsesServer(Script(rules=RULES)) as model:
        async with running_daemon(daemon) as client:
            room = await client.create_room(managed("codex", model.base_url))
            ref = str(room.room.id)
            await ask(client, room, "Write")
            live, _ = await plan_of(client, room)
            assert (live.live, live.digest) == (True, "")
            assert {b.reason for b in live.standing} == {RemovalReason.USE_UNKNOWN}
            await client.stop(ref)
            plan, request = await plan_of(client, room)
            assert [(b.reason, b.path) for b in plan.evidence.inspection.blockers] == [(RemovalReason.OUTSIDE, ".")]
            tree = app / layout.session_workspace(room.host.id, room.session.id)
            with refused("workspace.removal_evidence_changed"):
                await client.exports.archive(ref, request.model_copy(update={"id": new_id(), "confirmed": "0" * 64}))
            with refused("workspace.other_plan"):
                await client.exports.archive(
                    ref, request.model_copy(update={"id": new_id(), "retention": ExportRetention.KEEP_LATEST})
                )
            assert (await client.room(ref)).workspace.state is WorkspaceState.READY
            with refused("workspace.removal_blocked"):
                await client.exports.archive(ref, request.model_copy(update={"id": new_id(), "overrides": ()}))
            assert (await client.room(ref)).workspace.state is WorkspaceState.REMOVAL_BLOCKED
            assert (tree / "a/b/made.txt").read_text() == "mine\n"
            await client.resume(ref)
            assert (await client.room(ref)).workspace.state is WorkspaceState.READY
            done = await client.exports.archive(ref, request)
            assert not (await client.room(ref)).live, "the archive took the session off its host by itself"
            assert (done.export.state, done.export.id, done.exports_removed) == (ExportState.PUBLISHED, request.id, ())
            assert (done.files, done.bytes_removed) == (plan.holds.files, plan.holds.bytes_total) > (0, 0)
            assert not tree.exists()
            assert await client.exports.archive(ref, request) == done
            assert (await client.room(ref)).workspace.state is WorkspaceState.ARCHIVED
            with refused("workspace.archived"):
                await client.resume(ref)
            with refused("workspace.archived"):
                await client.exports.new(ref, RoomExportRequest(id=new_id()))
            with refused("workspace.archived"):
                await client.exports.plan_archive(ref, ArchiveQuestion())
        state = app / layout.provider_state(room.host.id, "codex")
        for log in state.rglob("*.jsonl"):
            log.unlink()
        async with running_daemon(daemon) as client:
            back = RestoreRequest(id=new_id())
            restored = await client.exports.restore(ref, back)
            assert (restored.export_id, restored.files) == (request.id, 1)
            assert "which is still there" in restored.checkpoint
            assert await client.exports.restore(ref, back) == restored
            with refused("workspace.not_archived"):
                await client.exports.restore(ref, RestoreRequest(id=new_id()))
            assert (tree / "link").readlink() == Path("a/b")
            assert (tree / "a/b").stat().st_mode & 0o7777 == 0o500
            assert (await ask(client, room, "Read")).state is TurnState.CAPTURED
            codes = [code for code, _ in await said_in_room(client, room)]
            assert [code for code in codes if code.startswith("workspace.")] == ["workspace.archived", "workspace.restored"]
        heard = conversation(model.model_requests[-1].body)
        assert [item.text for item in heard if isinstance(item, UserText)] == ["Write", "Read"]
        assert "mine" in str(model.model_requests[-1].body)


@pytest.mark.guarantee("WS-6", "CONT-1", "CONT-11")
async def test_a_conversation_that_came_back_from_an_older_export_goes_on_from_there(daemon: DaemonChild, app: Path) -> None:
    """What was captured after the export is lost with its generations, and said; what is said since comes back as ever."""
    async with ResponsesServer(Script(rules=RULES)) as model:
        async with running_daemon(daemon) as client:
            room = await client.create_room(managed("codex", model.base_url))
            ref = str(room.room.id)
            await ask(client, room, "Write")
            older = (await client.exports.new(ref, RoomExportRequest(id=new_id()))).export
            await ask(client, room, "later")
            await client.stop(ref)
            _, request = await plan_of(client, room)
            await client.exports.archive(ref, request)
        lose_the_conversation(app, room)
        async with running_daemon(daemon) as client:
            restored = await client.exports.restore(ref, RestoreRequest(id=new_id(), export=str(older.id)))
            assert "from the export" in restored.checkpoint
            assert (await ask(client, room, "Read")).state is TurnState.CAPTURED
            said = dict(await said_in_room(client, room))
            assert "captured later, and in no checkpoint any more: 1 of its turns" in said["session.resumed"]
            await client.stop(ref)
            assert (await client.resume(ref)).live
            assert (await ask(client, room, "again")).state is TurnState.CAPTURED
        heard = conversation(model.model_requests[-1].body)
        assert [item.text for item in heard if isinstance(item, UserText)] == ["Write", "Read", "again"]


@pytest.mark.guarantee("WS-4", "WS-6", "CONT-1", "WS-16")
async def test_a_conversation_comes_back_from_the_export_alone(daemon: DaemonChild, app: Path) -> None:
    """Every generation and all live state of the host are lost; what the export holds is enough. Older exports went, as confirmed."""
    async with ResponsesServer(Script(rules=RULES)) as model:
        async with running_daemon(daemon) as client:
            room = await client.create_room(managed("codex", model.base_url))
            ref = str(room.room.id)
            await ask(client, room, "Write")
            older = (await client.exports.new(ref, RoomExportRequest(id=new_id()))).export
            await client.stop(ref)
            plan, request = await plan_of(client, room, retention=ExportRetention.KEEP_LATEST)
            assert [each.id for each in plan.evidence.exports_that_go] == [older.id]
            done = await client.exports.archive(ref, request)
            assert [each.id for each in done.exports_removed] == [older.id]
            assert [path.name for path in (app / layout.EXPORTS).iterdir()] == [str(request.id)]
            assert {row.export.id: row.export.state for row in await client.exports.list(ref)} == {
                older.id: ExportState.DELETED,
                request.id: ExportState.PUBLISHED,
            }
            with refused("export.not_usable"):
                await client.exports.restore(ref, RestoreRequest(id=new_id(), export=str(older.id)))
        lose_the_conversation(app, room)
        async with running_daemon(daemon) as client:
            restored = await client.exports.restore(ref, RestoreRequest(id=new_id()))
            assert "from the export" in restored.checkpoint
            assert (await ask(client, room, "Read")).state is TurnState.CAPTURED
        heard = conversation(model.model_requests[-1].body)
        assert [item.text for item in heard if isinstance(item, UserText)] == ["Write", "Read"]


@pytest.mark.guarantee("WS-4", "WS-6", "CONT-1")
async def test_a_damaged_export_and_a_taken_place(daemon: DaemonChild, app: Path, model: ResponsesServer) -> None:
    """Neither is brought back or overwritten; the workspace stays archived, and comes back when that is mended."""
    async with running_daemon(daemon) as client:
        room = await client.create_room(managed("codex", model.base_url))
        ref = str(room.room.id)
        await client.stop(ref)
        tree = app / layout.session_workspace(room.host.id, room.session.id)
        (tree / "file").write_text("mine")
        _, request = await plan_of(client, room)
        await client.exports.archive(ref, request)
        kept = app / layout.export_root(request.id) / "workspace" / "file"
        before = kept.stat()
        kept.write_text("yours")
        with refused("export.damaged"):
            await client.exports.restore(ref, RestoreRequest(id=new_id()))
        assert (await client.room(ref)).workspace.state is WorkspaceState.ARCHIVED
        kept.write_text("mine")
        os.utime(kept, ns=(before.st_mtime_ns, before.st_mtime_ns))
        tree.mkdir()
        with refused("conflict.changed_record"):
            await client.exports.restore(ref, RestoreRequest(id=new_id()))
        tree.rmdir()
        await client.exports.restore(ref, RestoreRequest(id=new_id()))
        assert (tree / "file").read_text() == "mine"


@pytest.mark.guarantee("WS-4", "SHARE-2")
async def test_siblings_of_a_shared_sandbox_are_untouched(daemon: DaemonChild, app: Path) -> None:
    """One room of two is archived and restored while both are parked; the other one's files and conversation are what they were."""
    async with ResponsesServer(Script(rules=RULES)) as model, running_daemon(daemon) as client:
        one, two = [await client.create_room(managed("codex", model.base_url, placement=Placement.SHARED)) for _ in range(2)]
        await ask(client, one, "Write")
        await ask(client, two, "Write")
        for room in (one, two):
            await client.stop(str(room.room.id))
        trees = [app / layout.session_workspace(room.host.id, room.session.id) for room in (one, two)]
        _, request = await plan_of(client, one)
        await client.exports.archive(str(one.room.id), request)
        assert [tree.exists() for tree in trees] == [False, True]
        assert (await ask(client, two, "Read")).state is TurnState.CAPTURED
        await client.exports.restore(str(one.room.id), RestoreRequest(id=new_id()))
        assert (await ask(client, one, "Read")).state is TurnState.CAPTURED
        heard = conversation(model.model_requests[-1].body)
        assert [item.text for item in heard if isinstance(item, UserText)] == ["Write", "Read"]


@pytest.mark.guarantee("WS-16", "CAP-7")
async def test_files_that_are_not_jams_are_never_archived(daemon: DaemonChild, tmp_path: Path, model: ResponsesServer) -> None:
    """The refusal says where they are, and nothing is begun."""
    own = tmp_path / "own"
    own.mkdir()
    if os.geteuid() == 0:
        os.chown(own, 65534, 65534)
    async with running_daemon(daemon) as client:
        room = await client.create_room(managed("codex", model.base_url, workspace=WorkspaceSource.DIRECT_HOST, path=str(own)))
        with refused("workspace.elsewhere") as caught:
            await client.exports.plan_archive(str(room.room.id), ArchiveQuestion())
        assert str(own) in caught.value.context()["where"]
        with refused("workspace.elsewhere"):
            await client.exports.new(str(room.room.id), RoomExportRequest(id=new_id()))


@pytest.mark.guarantee("WS-2", "WS-4", "WS-11")
async def test_a_hundred_at_once(daemon: DaemonChild, app: Path, model: ResponsesServer) -> None:
    """Of as many archives and exports of one workspace one goes on at a time; who comes meanwhile gets its end, or a typed answer."""
    async with running_daemon(daemon) as client:
        room = await client.create_room(managed("codex", model.base_url))
        ref = str(room.room.id)
        await client.stop(ref)
        tree = app / layout.session_workspace(room.host.id, room.session.id)
        (tree / "file").write_text("mine")
        _, request = await plan_of(client, room)
        ended: list[ArchiveResult | ExportView] = []
        codes: list[str] = []

        async def one(number: int) -> None:
            identifier = new_id()
            try:
                if number % 2:
                    ended.append(await client.exports.archive(ref, request.model_copy(update={"id": identifier})))
                else:
                    ended.append(await client.exports.new(ref, RoomExportRequest(id=identifier)))
            except JamError as error:
                codes.append(error.code)

        async with anyio.create_task_group() as tasks:
            for number in range(100):
                tasks.start_soon(one, number)
        if (await client.room(ref)).workspace.state is not WorkspaceState.ARCHIVED:
            ended.append(await client.exports.archive(ref, request))
        assert set(codes) <= {"conflict.workspace_busy", "conflict.changed_record", "workspace.archived"}, codes
        archives = {each.id for each in ended if isinstance(each, ArchiveResult)}
        assert len(archives) == 1, "one archive, whoever was told of its end"
        exports = await client.exports.list(ref)
        assert {row.export.id for row in exports} == {each.export.id for each in ended}
        for row in exports:
            assert (await client.exports.verify(str(row.export.id))).sound
        assert not tree.exists()


async def test_host_processes_work_in_a_directory_that_comes_back(daemon: DaemonChild, app: Path) -> None:
    """Where nothing isolates the agent its directory belongs to no host; it is archived, and brought back, all the same."""
    async with ResponsesServer(Script(rules=RULES)) as model, running_daemon(daemon) as client:
        room = await client.create_room(managed("codex", model.base_url, engine="local", approvals=ApprovalPolicy.NEVER))
        ref = str(room.room.id)
        await ask(client, room, "Write")
        await client.stop(ref)
        (made,) = (app / layout.HOST_NATIVE).rglob("made.txt")
        _, request = await plan_of(client, room)
        await client.exports.archive(ref, request)
        assert not made.exists()
        await client.exports.restore(ref, RestoreRequest(id=new_id()))
        assert made.read_text() == "mine\n"
        assert (await ask(client, room, "Read")).state is TurnState.CAPTURED
