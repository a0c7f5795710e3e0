"""A clone that is on the disk before its sandbox is made: of a creation that failed, or of a sandbox that was removed (CAP-7)."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jamcore.domain.sandboxes import Access, CloneSource, EngineFailedError, ExecSpec, HostMount, Presence, SandboxSpec
from jamcore.engines.bubblewrap.engine import BubblewrapEngine, open_engine
from jamcore.engines.local.engine import open_engine as open_local
from jamcore.engines.port import EngineContext
from jamcore.sandbox.commands import run_command
from jamcore.system.files import Files
from jamcore.system.git import run_git

pytestmark = [pytest.mark.anyio, pytest.mark.needs("bubblewrap", "git"), pytest.mark.unprivileged]

NAME, PLACE = "jam-clone", "/jam/work/clone"


@pytest.fixture
async def commits(tmp_path: Path) -> tuple[CloneSource, CloneSource]:
    """Two commits of one checkout."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    person = ("-c", "user.name=p", "-c", "user.email=p@example.org")
    assert (await run_git("init", "-q", "-b", "main", cwd=checkout)).ok
    found = []
    for words in ("one", "two"):
        (checkout / "file").write_text(words)
        for argv in (("add", "."), (*person, "commit", "-q", "-m", words)):
            assert (await run_git(*argv, cwd=checkout)).ok
        commit = (await run_git("rev-parse", "HEAD", cwd=checkout)).stdout.decode().strip()
        found.append(CloneSource(host_path=str(checkout), commit=commit, guest_path=PLACE))
    return found[0], found[1]


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[BubblewrapEngine]:
    """The real engine."""
    root = Files().make_private(tmp_path / "engine")
    async with open_engine(EngineContext(root=root, runtime=root)) as opened:
        yield opened


def spec(root: Path, source: CloneSource, *mounts: HostMount) -> SandboxSpec:
    """Return a sandbox on the one disk of these tests."""
    return SandboxSpec(name=NAME, guest_disk=str(Files().make_private(root / "disk")), clone=source, mounts=mounts)


async def said(engine: BubblewrapEngine, script: str) -> str:
    """Return what a script says in the clone."""
    result = await run_command(engine, NAME, ExecSpec(argv=("sh", "-c", script), cwd=PLACE), timeout_s=20)
    assert result.code == 0
    return result.output.decode().strip()


async def fail_after_the_clone(engine: BubblewrapEngine, root: Path, source: CloneSource) -> None:
    """Create with a mount that is not there: the clone is made by then."""
    missing = HostMount(host_path=str(root / "nowhere"), guest_path="/jam/nowhere", access=Access.READ_ONLY)
    with pytest.raises(EngineFailedError):
        await engine.create(spec(root, source, missing))
    assert await engine.presence(NAME) is Presence.ABSENT
    assert (root / "disk/clone/file").exists()


@pytest.mark.guarantee("CAP-7")
async def test_a_failed_creation_s_clone_serves_its_own_commit_alone(
    engine: BubblewrapEngine, tmp_path: Path, commits: tuple[CloneSource, CloneSource]
) -> None:
    """Another commit is refused by type and the clone stays as it is; the same commit goes on with it."""
    first, second = commits
    await fail_after_the_clone(engine, tmp_path, first)
    with pytest.raises(EngineFailedError, match=f"of commit {first.commit}, and {second.commit} is wanted"):
        await engine.create(spec(tmp_path, second))
    assert await engine.presence(NAME) is Presence.ABSENT
    await engine.create(spec(tmp_path, first))
    assert await said(engine, "cat file; git rev-parse HEAD; ls -A ..") == f"one{first.commit}\nclone"


@pytest.mark.guarantee("CAP-7")
@pytest.mark.parametrize("record", [None, b"", b"{}"])
async def test_a_clone_of_an_unknown_commit_is_neither_used_nor_removed(
    engine: BubblewrapEngine, tmp_path: Path, commits: tuple[CloneSource, CloneSource], record: bytes | None
) -> None:
    """Its record is missing or damaged: it may hold work."""
    await fail_after_the_clone(engine, tmp_path, commits[0])
    beside = tmp_path / "disk/clone.json"
    beside.unlink()
    if record is not None:
        beside.write_bytes(record)
    with pytest.raises(EngineFailedError, match="not recorded"):
        await engine.create(spec(tmp_path, commits[0]))
    assert (tmp_path / "disk/clone/file").read_text() == "one"


@pytest.mark.guarantee("CAP-7")
async def test_a_removed_sandbox_s_work_is_there_when_it_is_made_anew(
    engine: BubblewrapEngine, tmp_path: Path, commits: tuple[CloneSource, CloneSource]
) -> None:
    """The disk is the core's and stays: what the agent committed since is in the clone, although its head is another commit now."""
    await engine.create(spec(tmp_path, commits[1]))
    commit = "git -c user.name=a -c user.email=a@example.org commit -q -a -m work"
    head = await said(engine, f"echo work > file; {commit}; git rev-parse HEAD")
    await engine.remove(NAME)
    await engine.create(spec(tmp_path, commits[1]))
    assert await said(engine, "cat file; git rev-parse HEAD; git status --porcelain") == f"work\n{head}"


@pytest.mark.guarantee("CAP-7")
async def test_host_processes_use_no_clone_of_another_commit(tmp_path: Path, commits: tuple[CloneSource, CloneSource]) -> None:
    """The same holds without a sandbox around it, where the clone is seen at its place on the disk."""
    first, second = (source.model_copy(update={"guest_path": str(tmp_path / "disk/clone")}) for source in commits)
    root = Files().make_private(tmp_path / "engine")
    async with open_local(EngineContext(root=root, runtime=root)) as engine:
        await engine.create(spec(tmp_path, first))
        await engine.remove(NAME)
        with pytest.raises(EngineFailedError, match=f"of commit {first.commit}, and {second.commit} is wanted"):
            await engine.create(spec(tmp_path, second))
        await engine.create(spec(tmp_path, first))
    assert (tmp_path / "disk/clone/file").read_text() == "one"


@pytest.mark.guarantee("ENG-6")
async def test_a_home_that_is_gone_is_made_anew_and_a_clone_is_not(
    engine: BubblewrapEngine, tmp_path: Path, commits: tuple[CloneSource, CloneSource]
) -> None:
    """A home may be emptied by its guest at any time. A clone held work: its loss is said at each start, and nothing stands in for it."""
    await engine.create(spec(tmp_path, commits[0]))
    await engine.stop(NAME)
    shutil.rmtree(tmp_path / "disk/home")
    await engine.start(NAME)
    assert await said(engine, "ls -A ~ | wc -l") == "0"
    await engine.stop(NAME)
    shutil.rmtree(tmp_path / "disk/clone")
    with pytest.raises(EngineFailedError, match=r"the private clone .* is gone, with what was in it"):
        await engine.start(NAME)
    assert not (tmp_path / "disk/clone").exists()
    assert await engine.presence(NAME) is Presence.STOPPED
