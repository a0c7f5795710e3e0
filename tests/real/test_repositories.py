"""A repository is cloned into the sandbox, changed there, and the change applies back, whatever its directory is called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.domain.sessions import TurnState
from jamcore.testing.daemon import DaemonChild
from jamcore.testing.rooms import ask, cloned, new_id, refused
from jamcore.testing.servers.responses import ResponsesServer

pytestmark = [pytest.mark.anyio, pytest.mark.needs("codex", "bubblewrap", "git")]
Make = Callable[[Path], Path]
Git = Callable[..., str]

NAMES = {
    "space": "with some spaces",
    "newline": "two\nlines",
    "letters": "ünïcödé-日本語-🍓",
    "dash": "-rf",
    "trailing": "trailing ",
    "quotes": 'it\'s "$(touch x)" `touch y`',
    "glob": "*[a]?",
    "equals": "a=b:c,d",
    "percent": "%s %2e%2e",
}


@pytest.mark.guarantee("CAP-7", "PLAN-4")
async def test_directories_with_strange_names(
    client: JamClient, daemon: DaemonChild, model: ResponsesServer, tmp_path: Path, repository: Make, git: Git
) -> None:
    """Cloned, changed and applied back; the original is as it was."""
    for name in NAMES.values():
        original = repository(tmp_path / name)
        before = git(original, "rev-parse", "HEAD")
        room = await client.create_room(cloned("codex", model.base_url, str(original)))
        assert room.workspace.path == str(original)
        assert room.workspace.commit == before
        turn = await ask(client, room, "Write the file")
        assert turn.state is TurnState.CAPTURED, (name, turn.detail)
        change = await client.build_change(str(room.room.id), new_id())
        assert change.complete
        assert change.base == before
        assert [(path.path, path.change) for path in change.paths] == [("made.txt", "added")], name
        assert git(original, "status", "--porcelain") == ""
        git(original, "apply", "--index", str(daemon.app / layout.change(change.id) / "change.patch"))
        git(original, "commit", "-q", "-m", "applied")
        assert (original / "made.txt").read_text() == "made by the agent\n"
        await client.stop(str(room.room.id))


@pytest.mark.guarantee("CAP-7")
async def test_a_dirty_repository_that_may_be_cloned_is_cloned_at_its_head(
    client: JamClient, daemon: DaemonChild, model: ResponsesServer, tmp_path: Path, repository: Make, git: Git
) -> None:
    """What is not committed stays behind, on this side; the agent starts from HEAD; the person's work is untouched."""
    original = repository(tmp_path / "dirty")
    (original / "a.txt").write_text("half done\n")
    (original / "untracked.txt").write_text("mine\n")
    request = cloned("codex", model.base_url, str(original))
    with refused("repository.dirty") as error:
        await client.create_room(request)
    assert "a.txt" in error.value.context()["detail"]
    room = await client.create_room(request.model_copy(update={"allow_dirty": True}))
    assert (await ask(client, room, "Write the file")).state is TurnState.CAPTURED
    change = await client.build_change(str(room.room.id), new_id())
    assert [path.path for path in change.paths] == ["made.txt"]
    assert git(original, "status", "--porcelain").split() == ["M", "a.txt", "??", "untracked.txt"]
    git(original, "apply", str(daemon.app / layout.change(change.id) / "change.patch"))
    assert (original / "a.txt").read_text() == "half done\n"


async def test_a_repository_that_vanishes_costs_nothing(
    client: JamClient, model: ResponsesServer, tmp_path: Path, repository: Make
) -> None:
    """The private clone is whole: the original may move away, and the room still comes back and still makes its change request."""
    original = repository(tmp_path / "here")
    room = await client.create_room(cloned("codex", model.base_url, str(original)))
    ref = str(room.room.id)
    await client.stop(ref)
    original.rename(tmp_path / "there")
    await client.resume(ref)
    assert (await ask(client, room, "Write the file")).state is TurnState.CAPTURED
    change = await client.build_change(ref, new_id())
    assert change.complete
    assert [path.path for path in change.paths] == ["made.txt"]
