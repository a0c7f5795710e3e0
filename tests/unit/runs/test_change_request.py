"""The package: whole or absent, with the patch, the transcript and the evidence, each with its checksum (RUN-1)."""

from __future__ import annotations

import hashlib
import json
import stat
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from jamcore.domain import layout
from jamcore.domain.changes import PATCH, ChangeFlag
from jamcore.domain.events import CommandFinished, Message, RoomEvent, RoomPayload, UserSaid
from jamcore.runs.change_request import EVIDENCE, METADATA, TRANSCRIPT, ChangeBuilder, ChangeMaterial, ChangePackageError
from jamcore.system.files import Files
from jamcore.workspace.review import ReviewGit

pytestmark = [pytest.mark.anyio, pytest.mark.needs("git"), pytest.mark.unprivileged]
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def material(identifier: UUID | None = None, *, skipped: tuple[str, ...] = ()) -> ChangeMaterial:
    """Everything but the work tree."""
    room, turn = uuid4(), uuid4()
    payloads: tuple[RoomPayload, ...] = (
        UserSaid(text="please \x1b[2J"),
        CommandFinished(item="1", command="make test", output="ok", exit_code=0),
        CommandFinished(item="2", command="rm -rf /", output="", exit_code=None),
        Message(item="3", text="Done."),
    )
    return ChangeMaterial(
        id=identifier or uuid4(),
        room_id=room,
        session_id=uuid4(),
        objective="please",
        provider="p",
        provider_version="1",
        engine="e",
        base_commit="c" * 40,
        turns=(),
        events=tuple(RoomEvent(room_id=room, seq=n, at=NOW, turn_id=turn, payload=p) for n, p in enumerate(payloads, 1)),
        skipped=skipped,
        checkpoints=(),
        resumptions=(),
        created_at=NOW,
    )


@pytest.fixture
async def work(tmp_path: Path) -> tuple[ReviewGit, str, str]:
    """A work tree before and after: a plain change, a CI definition, a link, a program."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a.txt").write_text("one\n")
    git = ReviewGit(tmp_path / "review.git", tree, files=Files())
    await git.prepare()
    base = (await git.snapshot()).tree
    (tree / "a.txt").write_text("two\n")
    (tree / ".github" / "workflows").mkdir(parents=True)
    (tree / ".github" / "workflows" / "x.yml").write_text("on: push\n")
    (tree / "link").symlink_to("/etc/passwd")
    (tree / "run").write_text("#!/bin/sh\n")
    (tree / "run").chmod(0o755)
    return git, base, (await git.snapshot()).tree


@pytest.mark.guarantee("RUN-1", "SEC-2")
async def test_a_package_holds_everything_with_its_checksum(tmp_path: Path, work: tuple[ReviewGit, str, str]) -> None:
    """Private files; the checksums are the files'; the patch makes the tree; the transcript is the events; commands are evidence."""
    git, base, tree = work
    given = material()
    change = await ChangeBuilder(tmp_path, files=Files()).build(given, git, base=base, tree=tree)
    directory = tmp_path / layout.change(change.id)
    assert sorted(path.name for path in directory.iterdir()) == sorted((METADATA, PATCH, TRANSCRIPT, EVIDENCE))
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    for file in change.files:
        data = (directory / file.name).read_bytes()
        assert (file.bytes, file.sha256) == (len(data), hashlib.sha256(data).hexdigest())
        assert stat.S_IMODE((directory / file.name).stat().st_mode) == 0o600
    assert change.complete
    assert {path.path: set(path.flags) for path in change.paths} == {
        ".github/workflows/x.yml": {ChangeFlag.CI_DEFINITION},
        "a.txt": set(),
        "link": {ChangeFlag.SYMLINK},
        "run": {ChangeFlag.EXECUTABLE},
    }
    lines = (directory / TRANSCRIPT).read_text().splitlines()
    assert [RoomEvent.model_validate_json(line) for line in lines] == list(given.events)
    evidence = json.loads((directory / EVIDENCE).read_text())
    assert evidence["commands"] == [{"command": "make test", "exit_code": 0}, {"command": "rm -rf /", "exit_code": None}]
    assert evidence["patch_reproduces_tree"] is True
    reader = tmp_path / "reader"
    reader.mkdir()
    (reader / "a.txt").write_text("one\n")
    subprocess.run(["git", "apply", str(directory / PATCH)], cwd=reader, check=True, timeout=30)  # noqa: ASYNC221 - nothing else runs
    assert (reader / "a.txt").read_text() == "two\n"
    assert (reader / "link").is_symlink()


@pytest.mark.guarantee("WS-11", "RUN-1")
async def test_an_exact_retry_is_the_same_package(tmp_path: Path, work: tuple[ReviewGit, str, str]) -> None:
    """Under a published id nothing is built again, whatever the work tree is now; a half package of a dead daemon is replaced."""
    git, base, tree = work
    given = material()
    half = tmp_path / layout.CHANGES / f".{given.id}.partial"
    half.mkdir(parents=True)
    (half / PATCH).write_text("half")
    builder = ChangeBuilder(tmp_path, files=Files())
    first = await builder.build(given, git, base=base, tree=tree)
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / layout.change(given.id)).iterdir()}
    assert await builder.build(material(given.id), git, base=base, tree=base) == first
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / layout.change(given.id)).iterdir()} == before
    assert not half.exists()


async def test_what_was_left_out_makes_a_package_incomplete(tmp_path: Path, work: tuple[ReviewGit, str, str]) -> None:
    """The package says what of the work tree could not be read, and does not call itself the whole."""
    git, base, tree = work
    change = await ChangeBuilder(tmp_path, files=Files()).build(
        material(skipped=("x: Permission denied",)), git, base=base, tree=tree
    )
    assert not change.complete
    assert change.skipped == ("x: Permission denied",)


async def test_nothing_changed_is_a_package_too(tmp_path: Path, work: tuple[ReviewGit, str, str]) -> None:
    """An empty patch that is complete: the agent changed nothing, and that is what the reviewer is told."""
    git, base, _ = work
    change = await ChangeBuilder(tmp_path, files=Files()).build(material(), git, base=base, tree=base)
    assert change.paths == ()
    assert change.complete
    assert (tmp_path / layout.change(change.id) / PATCH).read_bytes() == b""


async def test_a_damaged_package_is_kept_and_named(tmp_path: Path, work: tuple[ReviewGit, str, str]) -> None:
    """Nothing is built over it: it may be somebody's evidence."""
    git, base, tree = work
    given = material()
    builder = ChangeBuilder(tmp_path, files=Files())
    await builder.build(given, git, base=base, tree=tree)
    metadata = tmp_path / layout.change(given.id) / METADATA
    other = await builder.build(material(), git, base=base, tree=tree)
    for damage in (b"{", b"", (tmp_path / layout.change(other.id) / METADATA).read_bytes()):
        metadata.write_bytes(damage)
        with pytest.raises(ChangePackageError):
            await builder.build(given, git, base=base, tree=tree)
        assert metadata.read_bytes() == damage


async def test_a_full_disk_publishes_nothing(tmp_path: Path, work: tuple[ReviewGit, str, str]) -> None:
    """Whichever file does not fit any more: there is no package, and the next try makes it."""
    git, base, tree = work
    given = material()
    for name in (PATCH, TRANSCRIPT, EVIDENCE, METADATA):
        with pytest.raises(OSError, match="No space"):
            await ChangeBuilder(tmp_path, files=FullAt(name)).build(given, git, base=base, tree=tree)
        assert not (tmp_path / layout.change(given.id)).exists()
    assert (await ChangeBuilder(tmp_path, files=Files()).build(given, git, base=base, tree=tree)).complete


class FullAt(Files):
    """A disk that has no room for one file."""

    def __init__(self, name: str) -> None:
        self._name = name

    def write_atomic(self, path: Path, data: bytes, *, mode: int = 0o600) -> None:
        """Refuse that file."""
        if path.name == self._name:
            raise OSError(28, "No space left on device", str(path))
        super().write_atomic(path, data, mode=mode)
