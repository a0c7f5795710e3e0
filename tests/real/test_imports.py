"""An export goes to another machine, and its room goes on there with the exact conversation (WS-6, CONT-1)."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import pytest
from anyio import to_thread

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.domain.approvals import ApprovalPolicy
from jamcore.domain.errors import JamError
from jamcore.domain.exports import MANIFEST
from jamcore.domain.imports import AdoptRequest, ConfirmRequest, ImportRequest, ImportView
from jamcore.domain.keeping import RoomExportRequest
from jamcore.domain.kept_exports import ExportMaker, ExportState
from jamcore.domain.requests import EndpointChoice, RoomView
from jamcore.domain.sessions import TurnState, WorkspaceState
from jamcore.testing.crash import Lives
from jamcore.testing.daemon import DaemonChild, place_toolchain, running_daemon
from jamcore.testing.rooms import ask, managed, new_id, refused, running, said_in_room
from jamcore.testing.servers.history import UserText, conversation
from jamcore.testing.servers.responses import ResponsesServer, Script, say
from tests.unit.workspace.exports.test_taking import rewritten

pytestmark = [pytest.mark.anyio, pytest.mark.needs("bubblewrap", "codex"), pytest.mark.guarantee("WS-6")]

WRITE = "mkdir -p a/b; echo mine > a/b/made.txt; ln a/b/made.txt hard; ln -s a/b link; chmod 500 a/b"
T = TypeVar("T")
RULES = (
    *running(WRITE, said="Write"),
    *running("cat a/b/made.txt; echo more >> hard", said="Read"),
    say("Yes."),
)


def copied(source: Path, target: Path) -> None:
    """Bring it with ``cp -a``."""
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


def packed(source: Path, target: Path) -> None:
    """Bring it in an archive."""
    archive = target.with_suffix(".tar")
    target.mkdir()
    subprocess.run(["tar", "--format=posix", "--xattrs", "-S", "-C", str(source), "-cf", str(archive), "."], check=True)
    subprocess.run(["tar", "--xattrs", "-C", str(target), "-xpf", str(archive)], check=True)


@asynccontextmanager
async def elsewhere(tmp_path: Path, lives: Lives, **more: str) -> AsyncIterator[tuple[Path, JamClient]]:
    """Run the daemon of another machine: it has nothing of the first one."""
    app = tmp_path / "elsewhere"
    if not app.exists():
        await place_toolchain(app, "codex")
    async with running_daemon(DaemonChild(app, private=tmp_path / "private-elsewhere", lives=lives), **more) as client:
        yield app, client


async def exported(daemon: DaemonChild, model: ResponsesServer, app: Path) -> Path:
    """Make a room that wrote something, export it, and return the export's directory."""
    async with running_daemon(daemon) as client:
        room = await client.create_room(managed("codex", model.base_url))
        await ask(client, room, "Write")
        request = RoomExportRequest(id=new_id())
        await client.exports.new(str(room.room.id), request)
    return app / layout.export_root(request.id)


async def together(works: Sequence[Callable[[], Awaitable[T]]]) -> list[T | JamError]:
    """Do all of it at once, and return what came of each."""
    found: dict[int, T | JamError] = {}

    async def one(number: int, work: Callable[[], Awaitable[T]]) -> None:
        try:
            found[number] = await work()
        except JamError as error:
            found[number] = error

    async with anyio.create_task_group() as tasks:
        for number, work in enumerate(works):
            tasks.start_soon(one, number, work)
    return [found[number] for number in sorted(found)]


def adopting(model: ResponsesServer, **more: object) -> AdoptRequest:
    """Return a request for a room of an export that talks to this server."""
    return AdoptRequest.model_validate({"id": new_id(), "endpoint": EndpointChoice(origin=model.base_url), **more})


async def confirmed(client: JamClient, source: Path) -> ImportView:
    """Take an export in and confirm it."""
    view = await client.imports.take(ImportRequest(id=new_id(), path=str(source)))
    return await client.imports.confirm(str(view.export.id), ConfirmRequest(confirmed=view.digest))


def said_to_be_of(root: Path, version: str) -> None:
    """Make an export say that its conversation was written by another version of the program, as somebody could who can write all of it."""
    path = "checkpoint/checkpoint.json"
    listing = json.loads((root / path).read_text()) | {"provider_version": version}
    data = json.dumps(listing, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    manifest = json.loads((root / MANIFEST).read_text())
    summary = manifest["checkpoint"] | {"provider_version": version, "digest": hashlib.sha256(data).hexdigest()}
    counted = manifest["checkpoint_files"]
    counted["bytes_total"] += len(data) - (root / path).stat().st_size
    rewritten(root, path, data, {"checkpoint": summary, "checkpoint_files": counted})


@pytest.mark.guarantee("CONT-1", "CONT-3", "WS-11", "WS-13", "SEC-7")
@pytest.mark.parametrize("bring", [copied, packed], ids=["cp -a", "tar"])
async def test_a_room_goes_on_elsewhere(
    daemon: DaemonChild, app: Path, tmp_path: Path, lives: Lives, bring: Callable[[Path, Path], None]
) -> None:
    """Quarantined, confirmed, restored under new ids, resumed: the model hears everything that was said before, once."""
    async with ResponsesServer(Script(rules=RULES)) as model:
        source = await exported(daemon, model, app)
        brought = tmp_path / "brought"
        await to_thread.run_sync(bring, source, brought)
        await to_thread.run_sync(shutil.rmtree, app)
        async with elsewhere(tmp_path, lives) as (there, client):
            request = ImportRequest(id=new_id(), path=str(brought))
            view = await client.imports.take(request)
            ref = str(view.export.id)
            assert (view.export.id, view.export.state, view.export.maker) == (
                request.id,
                ExportState.QUARANTINED,
                ExportMaker.ELSEWHERE,
            )
            assert (view.evidence.provider_installed, view.evidence.conversation.problem) == (True, "")
            assert view.evidence.conversation.checkpoint is not None
            again = await client.imports.take(request)
            assert (again.export, again.digest) == (view.export, view.digest)
            with refused("conflict.changed_record"):
                await client.imports.take(request.model_copy(update={"path": str(tmp_path)}))
            with refused("export.quarantined"):
                await client.imports.restore(ref, adopting(model))
            with refused("export.evidence_changed"):
                await client.imports.confirm(ref, ConfirmRequest(confirmed="0" * 64))
            await to_thread.run_sync(shutil.rmtree, brought)
            done = await client.imports.confirm(ref, ConfirmRequest(confirmed=view.digest))
            assert done.export.state is ExportState.PUBLISHED
            adopt = adopting(model, name="theirs")
            room = await client.imports.restore(ref, adopt)
            assert (room.room.name, room.live, room.workspace.state) == ("theirs", False, WorkspaceState.READY)
            origin = view.evidence.origin
            assert not {room.room.id, room.host.id, room.session.id, room.room.agent_id} & {
                origin.room_id,
                origin.host_id,
                origin.session_id,
                origin.agent_id,
            }
            assert (await client.imports.restore(ref, adopt)).room == room.room
            with refused("conflict.changed_record"):
                await client.imports.restore(ref, adopt.model_copy(update={"name": "mine"}))
            with refused("export.not_from_elsewhere"):
                await client.imports.restore(ref, adopting(model))
            assert (await client.exports.show(ref)).room == "theirs"
            resumed = await client.resume("theirs")
            assert resumed.session.provider_identity == view.evidence.conversation.checkpoint.sessions[0].provider_identity
            assert (await ask(client, room, "Read")).state is TurnState.CAPTURED
            tree = there / layout.session_workspace(room.host.id, room.session.id)
            assert (tree / "a/b/made.txt").read_text() == "mine\nmore\n"
            assert (tree / "hard").samefile(tree / "a/b/made.txt")
            assert (tree / "link").readlink() == Path("a/b")
            assert (tree / "a/b").stat().st_mode & 0o7777 == 0o500
            assert [code for code, _ in await said_in_room(client, room) if code.startswith("workspace.")] == ["workspace.adopted"]
        heard = conversation(model.model_requests[-1].body)
        assert [item.text for item in heard if isinstance(item, UserText)] == ["Write", "Read"]
        assert "mkdir -p a/b" in str(model.model_requests[-1].body)


async def test_taken_in_twice_is_two(daemon: DaemonChild, app: Path, tmp_path: Path, lives: Lives) -> None:
    """Also where it was made: each has ids of its own, and each becomes one room; the first room is not touched."""
    async with ResponsesServer(Script(rules=RULES)) as model:
        source = await exported(daemon, model, app)
        async with elsewhere(tmp_path, lives) as (_, client):
            one, two = await confirmed(client, source), await confirmed(client, source)
            assert one.export.id != two.export.id
            rooms = [await client.imports.restore(str(each.export.id), adopting(model)) for each in (one, two)]
            assert len({each.session.id for each in rooms} | {each.room.id for each in rooms}) == 4
            for room in rooms:
                assert (await ask(client, room, "And more")).state is TurnState.CAPTURED
                heard = conversation(model.model_requests[-1].body)
                assert [item.text for item in heard if isinstance(item, UserText)] == ["Write", "And more"]


async def test_many_at_once_make_one_room(daemon: DaemonChild, app: Path, tmp_path: Path, lives: Lives) -> None:
    """Exact retries of one request get its room, another request a typed answer; also of the import itself."""
    async with ResponsesServer(Script(rules=RULES)) as model:
        source = await exported(daemon, model, app)
        async with elsewhere(tmp_path, lives) as (there, client):
            taking = ImportRequest(id=new_id(), path=str(source))
            views = await together([lambda: client.imports.take(taking)] * 5)
            (digest,) = {each.digest for each in views if isinstance(each, ImportView)}
            assert not [each for each in views if isinstance(each, JamError)]
            assert [path.name for path in (there / layout.EXPORTS).iterdir()] == [str(taking.id)]
            ref = str(taking.id)
            await client.imports.confirm(ref, ConfirmRequest(confirmed=digest))
            requests = [adopting(model), adopting(model)]
            answers = await together([partial(client.imports.restore, ref, each) for each in requests * 5])
            made = [each.room.id for each in answers if isinstance(each, RoomView)]
            codes = {each.code for each in answers if isinstance(each, JamError)}
            assert (len(made), len(set(made)), len(await client.rooms())) == (5, 1, 1)
            assert codes <= {"export.not_from_elsewhere", "conflict.changed_record"}


@pytest.mark.guarantee("WS-14", "CONT-1")
async def test_a_room_goes_on_without_a_sandbox(daemon: DaemonChild, app: Path, tmp_path: Path, lives: Lives) -> None:
    """On an engine that isolates nothing, where a person says so: the files lie in a root of their own, and the room says what it is."""
    async with ResponsesServer(Script(rules=RULES)) as model:
        source = await exported(daemon, model, app)
        async with elsewhere(tmp_path, lives) as (there, client):
            view = await confirmed(client, source)
            room = await client.imports.restore(
                str(view.export.id), adopting(model, engine="local", approvals=ApprovalPolicy.NEVER)
            )
            codes = [code for code, _ in await said_in_room(client, room)]
            assert codes == ["engine.no_isolation", "workspace.adopted"]
            (made,) = (there / layout.HOST_NATIVE).glob(f"*/*/{room.session.id}/a/b/made.txt")
            assert (await ask(client, room, "Read")).state is TurnState.CAPTURED
            assert made.read_text() == "mine\nmore\n"
        heard = conversation(model.model_requests[-1].body)
        assert [item.text for item in heard if isinstance(item, UserText)] == ["Write", "Read"]


@pytest.mark.guarantee("CONT-1", "WS-5")
async def test_what_cannot_go_on_is_said(daemon: DaemonChild, app: Path, tmp_path: Path, lives: Lives) -> None:
    """No room without its plugin, or with a version that does not resume; the files alone on a person's word; none of a damaged one."""
    async with ResponsesServer(Script(rules=RULES)) as model:
        source = await exported(daemon, model, app)
        old = tmp_path / "old"
        await to_thread.run_sync(copied, source, old)
        said_to_be_of(old, "0.1.0")
        async with elsewhere(tmp_path, lives, JAM_BLOCKED_PLUGINS="codex") as (_, client):
            view = await confirmed(client, source)
            ref = str(view.export.id)
            assert not view.evidence.provider_installed
            said = "the plugin of codex is blocked here; to undo it: take codex out of the setting blocked_plugins"
            assert view.evidence.conversation.problem == said
            with refused("export.conversation_not_taken"):
                await client.imports.restore(ref, adopting(model))
        async with elsewhere(tmp_path, lives) as (there, client):
            other = await confirmed(client, old)
            assert "was written by version 0.1.0" in other.evidence.conversation.problem
            with refused("export.conversation_not_taken"):
                await client.imports.restore(str(other.export.id), adopting(model))
            assert await client.rooms() == ()
            kept = next((there / layout.export_root(view.export.id) / "checkpoint" / "files").rglob("*.jsonl"))
            data = kept.read_bytes()
            seen = kept.stat()
            kept.write_bytes(data[:-1])
            for asked in (client.imports.inspect(ref), client.imports.restore(ref, adopting(model))):
                with refused("export.damaged"):
                    await asked
            kept.write_bytes(data)
            os.utime(kept, ns=(seen.st_mtime_ns, seen.st_mtime_ns))
            room = await client.imports.restore(ref, adopting(model, without_conversation=True))
            assert room.session.provider_identity is None
            assert (await ask(client, room, "Read")).state is TurnState.CAPTURED
            heard = conversation(model.model_requests[-1].body)
            assert [item.text for item in heard if isinstance(item, UserText)] == ["Read"]
            assert "mine" in str(model.model_requests[-1].body)


async def test_files_without_a_conversation(
    daemon: DaemonChild, app: Path, tmp_path: Path, lives: Lives, model: ResponsesServer
) -> None:
    """An export in which nobody said anything becomes a room on a person's word alone."""
    async with running_daemon(daemon) as client:
        room = await client.create_room(managed("codex", model.base_url))
        await client.stop(str(room.room.id))
        request = RoomExportRequest(id=new_id())
        await client.exports.new(str(room.room.id), request)
    async with elsewhere(tmp_path, lives) as (_, client):
        view = await confirmed(client, app / layout.export_root(request.id))
        assert view.evidence.conversation.problem == "no conversation is in it"
        with refused("export.conversation_not_taken"):
            await client.imports.restore(str(view.export.id), adopting(model))
        assert await client.rooms() == ()
        made = await client.imports.restore(str(view.export.id), adopting(model, without_conversation=True))
        assert (await ask(client, made, "Hello")).state is TurnState.CAPTURED
