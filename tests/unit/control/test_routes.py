"""Every operation, over a real Unix socket."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import pytest

from jamcore.control.app import ROUTES
from jamcore.control.routes import approvals
from jamcore.domain.cells import WorkspaceSource
from jamcore.domain.changes import Verdict
from jamcore.domain.cleanup_plans import CleanupQuestion, CleanupRequest
from jamcore.domain.export_deletions import ExportDeletionRequest
from jamcore.domain.imports import AdoptRequest, ConfirmRequest, ImportRequest
from jamcore.domain.keeping import ArchiveQuestion, ArchiveRequest, RestoreRequest, RoomExportRequest
from jamcore.domain.requests import AcceptRequest, OverrideRequest, RejectRequest, RoomRequest, RunRequest, TurnRequest
from jamcore.domain.resets import StartFreshRequest
from jamcore.domain.retention import RemovalQuestion, RemovalRequest
from jamcore.domain.sessions import TurnState
from jamcore.domain.workspace_care import RecoverRequest, RecoveryWay

if TYPE_CHECKING:
    from tests.unit.control.conftest import Ask, Served

pytestmark = pytest.mark.anyio

ROOM, TURN, CHANGE, IMPORT = (UUID(int=n << 96) for n in (1, 2, 3, 4))
REQUEST = RoomRequest(id=ROOM, provider="codex", name="my room/50%", workspace=WorkspaceSource.PRIVATE_HOST_CLONE, path="/r\né")
REF = "my%20room%2F50%25"


class Row(NamedTuple):
    """One request, the status it gives, and the service call it becomes."""

    name: str
    method: str
    target: str
    body: str
    status: int
    call: str


def rows() -> tuple[Row, ...]:
    turn = TurnRequest(id=TURN, text="hi").model_dump_json()
    room = REQUEST.model_copy(update={"id": UUID(int=9 << 96), "name": "run"})
    run = RunRequest(id=room.id, turn_id=TURN, change_id=CHANGE, room=room, objective="o").model_dump_json()
    return (
        Row("health", "GET", "/v1/health", "", 200, "health"),
        Row("doctor", "GET", "/v1/doctor", "", 200, "doctor"),
        Row("list_engines", "GET", "/v1/engines", "", 200, "engines"),
        Row("list_providers", "GET", "/v1/providers", "", 200, "providers"),
        Row("list_cells", "GET", "/v1/providers/cells", "", 200, "cells"),
        Row("install_provider", "POST", "/v1/providers/codex/install", "", 200, "install"),
        Row("install_progress", "GET", "/v1/providers/codex/install", "", 200, "progress"),
        Row("list_plugins", "GET", "/v1/plugins", "", 200, "plugins"),
        Row("block_plugin", "PUT", "/v1/plugins/codex/block", '{"why": "w"}', 200, "block"),
        Row("unblock_plugin", "DELETE", "/v1/plugins/codex/block", "", 200, "unblock"),
        Row("set_credential", "PUT", "/v1/credentials/openai", '{"value": "k"}', 200, "set_credential"),
        Row("list_credentials", "GET", "/v1/credentials", "", 200, "credentials"),
        Row("forget_credential", "DELETE", "/v1/credentials/openai", "", 200, "forget_credential"),
        Row("create_room", "POST", "/v1/rooms", REQUEST.model_dump_json(), 201, "create"),
        Row("list_rooms", "GET", "/v1/rooms", "", 200, "rooms"),
        Row("get_room", "GET", f"/v1/rooms/{REF}", "", 200, "room"),
        Row("say", "POST", f"/v1/rooms/{REF}/turns", turn, 202, "say"),
        Row("list_turns", "GET", f"/v1/rooms/{REF}/turns", "", 200, "turns"),
        Row("interrupt", "POST", f"/v1/rooms/{REF}/interrupt", "", 200, "interrupt"),
        Row("stop_room", "POST", f"/v1/rooms/{REF}/stop", "", 200, "stop"),
        Row("resume_room", "POST", f"/v1/rooms/{REF}/resume", "", 200, "resume"),
        Row("inspect_session", "GET", f"/v1/rooms/{REF}/inspect", "", 200, "inspect"),
        Row("inspect_continuity", "GET", f"/v1/rooms/{REF}/continuity", "", 200, "inspect_continuity"),
        Row(
            "start_fresh",
            "POST",
            f"/v1/rooms/{REF}/continuity",
            json.dumps({"id": str(TURN), "evidence": "b" * 64, "confirm": True}),
            422,
            "start_fresh",
        ),
        Row("inspect_override", "GET", f"/v1/hosts/{REF}/override", "", 200, "inspect_override"),
        Row(
            "override_host",
            "POST",
            f"/v1/hosts/{REF}/override",
            json.dumps({"id": str(TURN), "confirmed": "b" * 64}),
            200,
            "override",
        ),
        Row("start_run", "POST", "/v1/runs", run, 202, "run"),
        Row("get_run", "GET", f"/v1/runs/{room.id}", "", 200, "run_get"),
        Row("build_change", "POST", f"/v1/rooms/{REF}/changes", json.dumps({"id": str(CHANGE)}), 201, "build"),
        Row("list_changes", "GET", "/v1/changes", "", 200, "changes"),
        Row("show_change", "GET", f"/v1/changes/{CHANGE}", "", 200, "show"),
        Row(
            "accept_change",
            "POST",
            f"/v1/changes/{CHANGE}/accept",
            json.dumps({"id": str(TURN), "patch_sha256": "a" * 64}),
            200,
            "accept",
        ),
        Row(
            "reject_change",
            "POST",
            f"/v1/changes/{CHANGE}/reject",
            json.dumps({"id": str(TURN), "patch_sha256": "a" * 64, "reason": "no"}),
            200,
            "reject",
        ),
        Row("list_checkpoints", "GET", f"/v1/rooms/{REF}/checkpoints", "", 200, "checkpoints"),
        Row("list_checkpoint_standings", "GET", f"/v1/rooms/{REF}/checkpoints/standings", "", 200, "standings"),
        Row(
            "plan_checkpoint_removal",
            "POST",
            "/v1/checkpoint-removals/plan",
            json.dumps({"checkpoints": [str(CHANGE)]}),
            200,
            "plan_removal",
        ),
        Row(
            "remove_checkpoints",
            "POST",
            "/v1/checkpoint-removals",
            json.dumps({"id": str(TURN), "checkpoints": [str(CHANGE)], "confirmed": "a" * 64}),
            422,
            "remove_checkpoints",
        ),
        Row("show_checkpoint", "GET", f"/v1/checkpoints/{CHANGE}", "", 200, "checkpoint"),
        Row("verify_checkpoint", "GET", f"/v1/checkpoints/{CHANGE}/verify", "", 200, "verify"),
        Row("diff_checkpoints", "GET", f"/v1/checkpoints/{CHANGE}/diff/{TURN}", "", 200, "diff"),
        Row("new_export", "POST", f"/v1/rooms/{REF}/exports", json.dumps({"id": str(CHANGE)}), 201, "new_export"),
        Row("list_exports", "GET", f"/v1/exports?room={REF}", "", 200, "exports"),
        Row("show_export", "GET", f"/v1/exports/{CHANGE}", "", 200, "show_export"),
        Row("verify_export", "POST", f"/v1/exports/{CHANGE}/verify", "", 200, "verify_export"),
        Row("import_export", "POST", "/v1/imports", json.dumps({"id": str(IMPORT), "path": "/e"}), 201, "import_export"),
        Row("inspect_import", "POST", f"/v1/imports/{IMPORT}/inspect", "", 200, "inspect_import"),
        Row(
            "confirm_import",
            "POST",
            f"/v1/imports/{IMPORT}/confirm",
            json.dumps({"confirmed": "a" * 64}),
            422,
            "confirm_import",
        ),
        Row("restore_import", "POST", f"/v1/imports/{IMPORT}/restore", json.dumps({"id": str(TURN)}), 422, "restore_import"),
        Row("capacity", "GET", "/v1/capacity", "", 200, "capacity"),
        Row("plan_host_cleanup", "POST", f"/v1/hosts/{REF}/cleanup/plan", "{}", 200, "plan_cleanup"),
        Row(
            "clean_up_host",
            "POST",
            f"/v1/hosts/{REF}/cleanup",
            json.dumps({"id": str(TURN), "confirmed": "a" * 64}),
            422,
            "clean_up",
        ),
        Row("plan_export_deletion", "POST", f"/v1/exports/{CHANGE}/deletion/plan", "", 200, "plan_deletion"),
        Row(
            "delete_export",
            "POST",
            f"/v1/exports/{CHANGE}/deletion",
            json.dumps({"id": str(TURN), "confirmed": "a" * 64}),
            422,
            "delete_export",
        ),
        Row("plan_archive", "POST", f"/v1/rooms/{REF}/workspace/archive/plan", "{}", 200, "plan_archive"),
        Row(
            "archive_workspace",
            "POST",
            f"/v1/rooms/{REF}/workspace/archive",
            json.dumps({"id": str(TURN), "confirmed": "a" * 64}),
            422,
            "archive_workspace",
        ),
        Row(
            "restore_workspace",
            "POST",
            f"/v1/rooms/{REF}/workspace/restore",
            json.dumps({"id": str(TURN)}),
            422,
            "restore_workspace",
        ),
        Row("inspect_workspace", "GET", f"/v1/rooms/{REF}/workspace", "", 200, "inspect_workspace"),
        Row(
            "recover_workspace",
            "POST",
            f"/v1/rooms/{REF}/workspace/recover",
            json.dumps({"id": str(TURN), "way": "retry"}),
            200,
            "recover_workspace",
        ),
        Row("list_operations", "GET", f"/v1/operations?room={REF}&unfinished=1&limit=5", "", 200, "operations"),
        Row("show_operation", "GET", "/v1/operations/f0000000", "", 200, "show_operation"),
        Row("reconcile_hosts", "GET", "/v1/hosts", "", 200, "reconcile"),
        Row("shutdown", "POST", "/v1/shutdown", "", 202, "shutdown"),
    )


@pytest.mark.guarantee("CTRL-2")
async def test_every_route_reaches_its_service(served: Served, ask: Ask) -> None:
    """Each request is answered with its status, in the protocol's own headers, by exactly the service that it names."""
    for row in rows():
        before = len(served.fake.calls)
        said = await ask(row.method, row.target, row.body.encode())
        assert said.status == row.status, (row, said)
        assert said.headers["jam-api"] == "1"
        assert said.headers["cache-control"] == "no-store"
        assert row.call in [name for name, _ in served.fake.calls[before:]], row


def test_the_table_above_is_complete() -> None:
    """No route is added without a row: all but the stream and the approvals, which have tests of their own."""
    elsewhere = {"stream_events", "stream_operation"} | {route.name for route in approvals.ROUTES}
    assert {route.name for route in ROUTES} == {row.name for row in rows()} | elsewhere


@pytest.mark.guarantee("CTRL-2")
async def test_the_typed_client_speaks_every_operation(served: Served) -> None:
    """Records go in and come out equal, with names that need escaping in a path and in JSON."""
    client = served.client
    assert (await client.health()).daemon_id == UUID(int=7)
    assert not (await client.doctor()).healthy
    assert [each.name for each in await client.providers()] == ["codex", "broken"]
    assert len(await client.cells()) == 2
    assert (await client.install("codex")).version == "0.163.0"
    assert (await client.install_progress("codex")).step in {"", "downloading"}
    (blocked,) = await client.plugins.block("codex", why="é\n")
    assert (blocked.block and blocked.block.why, blocked.at_next_start) == ("é\n", "blocked")
    assert blocked in await client.plugins.list()
    assert (await client.plugins.unblock("codex"))[0].block is None
    assert (await client.set_credential("a/b", "sécret")).present
    assert [row.name for row in await client.credentials()] == ["a/b"]
    await client.forget_credential("a/b")
    made = await client.create_room(REQUEST)
    assert made == (await client.rooms())[0] == await client.room("my room/50%") == await client.room(str(ROOM)[:8])
    assert made.workspace.path == "/r\né"
    turn = await client.say("my room/50%", TurnRequest(id=TURN, text="\u2028 \x00 ok"))
    events = [event async for event in client.events("my room/50%", follow=False)]
    assert events[0].turn_id == turn.id
    assert (await client.interrupt("my room/50%")).room.id == ROOM
    assert (await client.stop("my room/50%")).outcome == "parked"
    assert (await client.resume("my room/50%")).live
    assert (await client.turns("my room/50%"))[0].text == "\u2028 \x00 ok"
    assert (await client.inspect("my room/50%")).checkpoints[0].generation == 2
    lost = await client.inspect_override("my room/50%")
    assert (lost.rooms, lost.digest) == (("my room/50%",), lost.evidence.content_digest())
    assert (await client.override("my room/50%", OverrideRequest(id=TURN, confirmed=lost.digest))).sandbox == lost.evidence.sandbox
    lasting = await client.inspect_continuity("my room/50%")
    assert lasting.digest == lasting.evidence.checksum()
    fresh = await client.start_fresh("my room/50%", StartFreshRequest(id=TURN, evidence=lasting.digest, confirm=True))
    assert fresh.rooms == ("my room/50%",)
    run = RunRequest(
        id=CHANGE, turn_id=TURN, change_id=CHANGE, room=REQUEST.model_copy(update={"id": CHANGE, "name": "x"}), objective="o"
    )
    assert (await client.start_run(run)).turn.state in TurnState
    assert (await client.run(str(CHANGE))).room.room.name == "x"
    assert (await client.build_change("x", CHANGE)).id == CHANGE
    assert (await client.changes())[0].id == CHANGE
    assert (await client.change(str(CHANGE))).patch.startswith("---")
    assert (await client.reconcile()).foreign == 2
    (kept,) = await client.checkpoints("my room/50%")
    assert (await client.checkpoint(str(kept.id))).checkpoint == kept
    assert (await client.verify_checkpoint(str(kept.id))).sound
    assert (await client.diff_checkpoints(str(kept.id), "a/b")).total == 3
    assert (await client.removals.standings("my room/50%"))[0].checkpoint == kept
    plan = await client.removals.plan(RemovalQuestion(checkpoints=(str(kept.id),)))
    removal = RemovalRequest(id=TURN, checkpoints=(str(kept.id),), confirmed=plan.digest)
    assert (await client.removals.remove(removal)).bytes_freed == plan.evidence.bytes_freed
    export = await client.exports.new("my room/50%", RoomExportRequest(id=CHANGE, leave_out=("a/é",)))
    assert [row.export for row in await client.exports.list("my room/50%")] == [export.export]
    assert await client.exports.show(str(CHANGE)) == export
    assert (await client.exports.verify(str(CHANGE))).sound
    taken = await client.imports.take(ImportRequest(id=IMPORT, path="/é/e"))
    assert await client.imports.inspect(str(IMPORT)) == taken
    assert (await client.imports.confirm(str(IMPORT), ConfirmRequest(confirmed=taken.digest))).export.state == "published"
    assert (await client.imports.restore(str(IMPORT), AdoptRequest(id=IMPORT, name="a/é"))).room.name == "a/é"
    assert (await client.exports.plan_archive("my room/50%", ArchiveQuestion())).live
    await client.stop("my room/50%")
    whole = await client.exports.plan_archive("my room/50%", ArchiveQuestion())
    gone = await client.exports.archive("my room/50%", ArchiveRequest(id=TURN, confirmed=whole.digest))
    assert gone.export.id == TURN
    assert (await client.exports.restore("my room/50%", RestoreRequest(id=TURN, export=str(TURN)))).export_id == TURN
    assert (await client.clearing.capacity()).hosts[0].rooms
    going = await client.clearing.plan_deletion(str(TURN))
    deletion = ExportDeletionRequest(id=TURN, confirmed=going.digest, lose_workspace=True)
    assert (await client.clearing.delete_export(str(TURN), deletion)).bytes_freed == going.evidence.bytes_freed
    cleanup = await client.clearing.plan_cleanup("my room/50%", CleanupQuestion())
    cleared = await client.clearing.clean_up("my room/50%", CleanupRequest(id=TURN, confirmed=cleanup.digest))
    assert cleared.cleanup.removed_bytes == cleanup.planned_bytes
    assert (await client.workspaces.inspect("my room/50%")).room == "my room/50%"
    recovered = await client.workspaces.recover("my room/50%", RecoverRequest(id=TURN, way=RecoveryWay.EXPORT))
    assert (recovered.export_id, recovered.way) == (TURN, RecoveryWay.EXPORT)
    told = await client.operations.list(room="my room/50%", limit=2)
    assert (len(told.items), told.more) == (2, True)
    story = await client.operations.show(told.items[0].id)
    lines = client.operations.events(told.items[0].id, after=1, follow=False)
    assert [line async for line in lines] == list(story.lines[1:])
    accepting = AcceptRequest(id=CHANGE, patch_sha256="a" * 64, branch="b/ü")
    accepted = await client.accept_change(str(CHANGE), accepting)
    assert (accepted.verdict, accepted.branch) == (Verdict.ACCEPTED, "b/ü")
    assert (await client.judged_changes()).decisions == (accepted,)
    rejecting = RejectRequest(id=CHANGE, patch_sha256="a" * 64, reason="no\n\0", turn_id=TURN)
    assert await client.reject_change(str(CHANGE), rejecting) == accepted
    await client.shutdown()
    assert served.fake.stopping.is_set()


@pytest.mark.guarantee("WS-11")
async def test_a_repeated_request_is_the_same_request(served: Served) -> None:
    """The ids are the client's, so that asking twice makes one room and one turn."""
    assert await served.client.create_room(REQUEST) == await served.client.create_room(REQUEST)
    turn = TurnRequest(id=TURN, text="wait")
    first, second = await served.client.say(str(ROOM), turn), await served.client.say(str(ROOM), turn)
    assert first.id == second.id
    assert len(await served.client.turns(str(ROOM))) == 1
