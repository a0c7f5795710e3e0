"""A change request judged by a person: accepted onto a branch of their repository, or rejected so that the agent tries again (RUN-1)."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.domain.changes import PATCH, ChangeRequest, Verdict
from jamcore.domain.errors import JamError
from jamcore.domain.requests import AcceptRequest, RejectRequest, RoomView
from jamcore.domain.sessions import TurnState
from jamcore.testing.daemon import DaemonChild, room_event
from jamcore.testing.rooms import ask, cloned, managed, new_id, refused, running, said_in_room
from jamcore.testing.servers.responses import ResponsesServer, Script, say

pytestmark = [pytest.mark.anyio, pytest.mark.needs("bubblewrap", "codex", "git")]


@pytest.fixture
async def model() -> AsyncIterator[ResponsesServer]:
    """A model that writes a file, and writes it better when it hears of tabs."""
    rules = (
        *running("printf 'spaces\\n' > made.txt", said="Write the file"),
        *running("printf 'tabs\\n' > made.txt", said="use tabs"),
        *running(
            "cat *.bat *.txt id utf | od -c && printf 'rem\\r\\n' >> run.bat && echo 3 >> made.txt && echo 2 >> id", said="Append"
        ),
        say("Hello."),
    )
    async with ResponsesServer(Script(rules=rules)) as server:
        yield server


async def changed(client: JamClient, room: RoomView, text: str) -> ChangeRequest:
    """Let the agent work, and make a change request of it."""
    assert (await ask(client, room, text)).state is TurnState.CAPTURED
    return await client.build_change(str(room.room.id), new_id())


def digest(change: ChangeRequest) -> str:
    """Return the digest of the patch that a reviewer saw."""
    return next(file.sha256 for file in change.files if file.name == PATCH)


@pytest.mark.guarantee("RUN-1", "WS-11", "WS-10")
async def test_accepted_bytes_are_on_a_branch(
    client: JamClient,
    app: Path,
    model: ResponsesServer,
    repository: Callable[[Path], Path],
    git: Callable[..., str],
    tmp_path: Path,
) -> None:
    """A new branch on the commit that the session began with; the checkout is untouched; it is judged once, and a retry is exact."""
    repo = repository(tmp_path / "a répo\nsitory")
    room = await client.create_room(cloned("codex", model.base_url, str(repo)))
    change = await changed(client, room, "Write the file")
    ref, request = str(change.id), AcceptRequest(id=new_id(), patch_sha256=digest(change), author="R <r@example.org>")

    with refused("conflict.changed_record"):
        await client.accept_change(ref, request.model_copy(update={"patch_sha256": "0" * 64}))
    with refused("branch.checked_out"):
        await client.accept_change(ref, request.model_copy(update={"branch": "main"}))
    for nowhere in ("", "repo", "~/repo", f"{repo}\0"):
        with refused("input.invalid"):
            await client.accept_change(ref, request.model_copy(update={"repository": nowhere}))
    decision = await client.accept_change(ref, request)
    assert await client.accept_change(ref, request) == decision
    assert decision.branch is not None
    assert git(repo, "show", f"{decision.branch}:made.txt") == "spaces"
    assert git(repo, "rev-parse", f"{decision.branch}^") == git(repo, "rev-parse", "main")
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "log", "-1", "--format=%an %b", decision.branch).startswith(f"R Jam-Change: {change.id}")
    with refused("conflict.changed_record"):
        await client.accept_change(ref, request.model_copy(update={"id": new_id()}))
    with refused("conflict.changed_record"):
        await client.reject_change(ref, RejectRequest(id=new_id(), patch_sha256=digest(change), reason="too late"))
    assert (await client.change(ref)).decision == decision
    assert (await client.judged_changes()).decisions == (decision,)
    assert "change.accepted" in dict(await said_in_room(client, room))


@pytest.mark.guarantee("RUN-1", "WS-11")
async def test_verdicts_at_once_leave_one_branch(
    client: JamClient, model: ResponsesServer, repository: Callable[[Path], Path], git: Callable[..., str], tmp_path: Path
) -> None:
    """Four clients accept one change onto a branch each, and one rejects it: one verdict counts, and the others have moved nothing."""
    repo = repository(tmp_path / "repo")
    room = await client.create_room(cloned("codex", model.base_url, str(repo)))
    change = await changed(client, room, "Write the file")
    refusals: list[str] = []

    async def judge(branch: str | None) -> None:
        try:
            if branch is None:
                rejection = RejectRequest(id=new_id(), patch_sha256=digest(change), reason="no")
                await client.reject_change(str(change.id), rejection)
            else:
                acceptance = AcceptRequest(id=new_id(), patch_sha256=digest(change), branch=branch)
                await client.accept_change(str(change.id), acceptance)
        except JamError as error:
            refusals.append(error.code)

    async with anyio.create_task_group() as tasks:
        for branch in ("a", "b", None, "c", "d"):
            tasks.start_soon(judge, branch)
    assert refusals == ["conflict.changed_record"] * 4
    (decision,) = (await client.judged_changes()).decisions
    branches = git(repo, "for-each-ref", "--format=%(refname:short)").split()
    assert branches == sorted(["main", *([decision.branch] if decision.branch else [])])


@pytest.mark.guarantee("RUN-1", "WS-11", "START-2")
async def test_what_git_blocks_is_not_done_by_a_later_start(
    daemon: DaemonChild,
    client: JamClient,
    model: ResponsesServer,
    repository: Callable[[Path], Path],
    git: Callable[..., str],
    tmp_path: Path,
) -> None:
    """A branch `jam` is in the way of `jam/…`; when that is gone and the daemon starts again, no more happens than was said."""
    repo = repository(tmp_path / "repo")
    git(repo, "branch", "jam")
    room = await client.create_room(cloned("codex", model.base_url, str(repo)))
    change = await changed(client, room, "Write the file")
    request = AcceptRequest(id=new_id(), patch_sha256=digest(change))
    with refused("branch.blocked") as blocked:
        await client.accept_change(str(change.id), request)
    assert "refs/heads/jam" in blocked.value.context()["detail"]
    git(repo, "branch", "-D", "jam")
    await to_thread.run_sync(daemon.stop)
    daemon.start()
    await daemon.up()
    assert git(repo, "for-each-ref", "--format=%(refname:short)") == "main"
    assert (await client.change(str(change.id))).decision is None
    again = request.model_copy(update={"id": new_id()})
    assert (await client.accept_change(str(change.id), again)).branch == f"jam/{str(change.id)[-12:]}"


@pytest.mark.guarantee("RUN-1", "CAP-7")
async def test_a_repository_whose_files_git_converts(
    client: JamClient, model: ResponsesServer, repository: Callable[[Path], Path], git: Callable[..., str], tmp_path: Path
) -> None:
    """Line ends, an encoding and keywords are left as the commits have them, so a change of such files fits the branch, and only it."""
    repo = repository(tmp_path / "repo")
    (repo / ".gitattributes").write_text(
        "*.bat text eol=crlf\nmade.txt text=auto eol=crlf\nutf working-tree-encoding=UTF-16\nid ident\n"
    )
    for name, text in (("run.bat", "echo\r\n"), ("made.txt", "1\r\n2\r\n"), ("id", "$Id$\n")):
        (repo / name).write_bytes(text.encode())
    (repo / "utf").write_bytes("häh\n".encode("utf-16"))
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "two")
    room = await client.create_room(cloned("codex", model.base_url, str(repo)))
    change = await changed(client, room, "Append")
    assert [path.path for path in change.paths] == ["id", "made.txt", "run.bat"]
    decision = await client.accept_change(str(change.id), AcceptRequest(id=new_id(), patch_sha256=digest(change)))
    numbers = git(repo, "diff", "--numstat", "main", str(decision.branch)).splitlines()
    assert numbers == ["1\t0\tid", "1\t0\tmade.txt", "1\t0\trun.bat"]
    assert git(repo, "status", "--porcelain") == ""


@pytest.mark.guarantee("RUN-1", "SEC-2")
async def test_other_bytes_than_the_reviewed_ones_are_refused(
    client: JamClient,
    app: Path,
    model: ResponsesServer,
    repository: Callable[[Path], Path],
    git: Callable[..., str],
    tmp_path: Path,
) -> None:
    """A patch or an evidence file that was changed on the disk after the review reaches no branch."""
    repo = repository(tmp_path / "repo")
    room = await client.create_room(cloned("codex", model.base_url, str(repo)))
    change = await changed(client, room, "Write the file")
    request = AcceptRequest(id=new_id(), patch_sha256=digest(change))
    package = app / layout.change(change.id)
    whole = (package / PATCH).read_bytes()
    (package / PATCH).write_bytes(whole.replace(b"spaces", b"spacey"))
    with refused("change.patch_changed"):
        await client.change(str(change.id))
    with refused("change.patch_changed"):
        await client.accept_change(str(change.id), request)
    (package / PATCH).write_bytes(whole)
    evidence = package / "evidence.json"
    evidence.write_text(json.dumps(json.loads(evidence.read_text()) | {"tree": "0" * 40}))
    with refused("change.package_unreadable"):
        await client.accept_change(str(change.id), request)
    assert git(repo, "for-each-ref", "--format=%(refname)") == "refs/heads/main"


@pytest.mark.guarantee("RUN-1", "SEC-2")
@pytest.mark.parametrize("name", [PATCH, "evidence.json"])
@pytest.mark.parametrize("put", ["pipe", "link", "nothing", "more"])
async def test_what_is_no_file_of_the_package_is_never_waited_for(
    client: JamClient, app: Path, model: ResponsesServer, repository: Callable[[Path], Path], tmp_path: Path, name: str, put: str
) -> None:
    """A pipe would hold a thread of the daemon, and with it its end, for ever; a link would show another file."""
    repo = repository(tmp_path / "repo")
    change = await changed(client, await client.create_room(cloned("codex", model.base_url, str(repo))), "Write the file")
    path = app / layout.change(change.id) / name
    whole = path.read_bytes()
    path.unlink()
    if put == "pipe":
        os.mkfifo(path)
    elif put == "link":
        (tmp_path / "elsewhere").write_bytes(whole)
        path.symlink_to(tmp_path / "elsewhere")
    elif put == "more":
        path.write_bytes(whole + b"x")
    request = AcceptRequest(id=new_id(), patch_sha256=digest(change))
    with anyio.fail_after(30), refused("change.patch_changed" if (name, put) == (PATCH, "more") else "change.package_unreadable"):
        await client.accept_change(str(change.id), request)
    if name == PATCH and put != "more":
        with anyio.fail_after(30), refused("change.package_unreadable"):
            await client.change(str(change.id))


@pytest.mark.guarantee("RUN-1")
async def test_a_branch_that_moved_is_said(
    client: JamClient, model: ResponsesServer, repository: Callable[[Path], Path], git: Callable[..., str], tmp_path: Path
) -> None:
    """Refused with what is new there; with leave it goes on top, and the decision says that it moved."""
    repo = repository(tmp_path / "repo")
    git(repo, "branch", "target")
    room = await client.create_room(cloned("codex", model.base_url, str(repo)))
    change = await changed(client, room, "Write the file")
    git(repo, "checkout", "-q", "target")
    git(repo, "commit", "-q", "--allow-empty", "-m", "meanwhile")
    git(repo, "checkout", "-q", "main")
    request = AcceptRequest(id=new_id(), patch_sha256=digest(change), branch="target")
    with refused("branch.moved") as moved:
        await client.accept_change(str(change.id), request)
    assert moved.value.context()["new_commits"] == "1"
    decision = await client.accept_change(str(change.id), request.model_copy(update={"allow_moved": True}))
    assert decision.moved
    assert decision.parent == git(repo, "rev-parse", "target^")


@pytest.mark.guarantee("RUN-1", "WS-11")
async def test_a_rejection_is_the_next_turn(client: JamClient, model: ResponsesServer) -> None:
    """A parked room is brought back to hear the reason, once; what it makes then is another change request."""
    room = await client.create_room(managed("codex", model.base_url))
    change = await changed(client, room, "Write the file")
    await client.stop(str(room.room.id))
    turn = new_id()
    request = RejectRequest(id=new_id(), patch_sha256=digest(change), reason="please use tabs", turn_id=turn)
    decision = await client.reject_change(str(change.id), request)
    assert await client.reject_change(str(change.id), request) == decision
    assert (decision.verdict, decision.turn_id) == (Verdict.REJECTED, turn)
    await room_event(
        client,
        str(room.room.id),
        lambda event: event.turn_id == turn and event.payload.kind == "turn.state" and event.payload.state == TurnState.CAPTURED,
        limit_s=60.0,
    )
    assert [known.id for known in await client.turns(str(room.room.id))].count(turn) == 1
    again = await client.build_change(str(room.room.id), new_id())
    assert "+tabs" in (await client.change(str(again.id))).patch
    with refused("change.no_repository"):
        await client.accept_change(str(again.id), AcceptRequest(id=new_id(), patch_sha256=digest(again)))
