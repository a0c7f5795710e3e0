"""What a checkpoint takes from the live state, and what it refuses by name (CONT-3, CONT-4, SEC-7)."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from jamcore.continuity.capturing.capture import Bounds
from jamcore.continuity.generations.content import read_stream
from jamcore.continuity.generations.format import BLOCK
from jamcore.continuity.generations.objects import Entry, Kind, read_root, walk_tree
from jamcore.continuity.generations.publish import Generation
from jamcore.domain.continuity import CaptureEntry, CaptureKind, CaptureList, CaptureRefusedError, Checkpoint
from jamcore.domain.secret_shapes import SecretScan
from jamcore.system.trees import Seen, open_file
from jamcore.testing.databases import host_databases

if TYPE_CHECKING:
    from tests.unit.continuity.conftest import MakeWorld, World

pytestmark = pytest.mark.anyio


def tree(world: World, checkpoint: Checkpoint) -> dict[bytes, Entry]:
    with world.generations.blocks(world.host.id).reader() as source:
        root = read_root(source, bytes.fromhex(checkpoint.root_digest))
        return {b"/".join(path): entry for path, entry in walk_tree(source, root)}


def generation(world: World, checkpoint: Checkpoint) -> Generation:
    """Return what complete.json says."""
    found = world.generations.read(world.host.id, checkpoint.id)
    assert found is not None
    return found


async def refused(world: World) -> CaptureRefusedError:
    with pytest.raises(CaptureRefusedError) as error:
        await world.capture()
    assert not world.packs, "a refused checkpoint leaves no pack"
    assert not world.store.checkpoints
    return error.value


@pytest.mark.guarantee("CONT-3")
async def test_only_what_is_declared_is_captured(world: World) -> None:
    """Files that match nothing, or an exception, are left alone; directories come along only for what is in them."""
    world.log().write_bytes(b"line\n")
    world.write("home/config/deep/c.toml", b"x")
    world.write("home/tmp/huge", b"x")
    world.write("home/state.sqlite", b"x")
    world.write("other/file", b"x")
    (world.state / "home/config/empty").mkdir()
    (world.state / "home/sessions/2025").mkdir()
    found = tree(world, await world.capture())
    assert set(found) == {
        b"home",
        b"home/sessions",
        b"home/sessions/a.jsonl",
        b"home/config",
        b"home/config/deep",
        b"home/config/deep/c.toml",
        b"home/config/empty",
    }


@pytest.mark.guarantee("CONT-3", "SEC-1")
async def test_links_are_kept_as_links_and_set_id_bits_are_not_kept(world: World, tmp_path: Path) -> None:
    """A link that leads out of the tree is stored as its text, never read through; set-id bits are stripped."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    for name, target in (("abs", str(outside)), ("dangling", "../nowhere"), ("escaping", "../../../../../etc/passwd")):
        config = world.state / "home/config"
        config.mkdir(exist_ok=True)
        (config / name).symlink_to(target)
    program = world.write("home/config/program", b"#!")
    program.chmod(0o6755)
    world.log().write_bytes(b"x\n")
    found = tree(world, await world.capture())
    assert [found[b"home/config/" + name].kind for name in (b"abs", b"dangling", b"escaping")] == [Kind.LINK] * 3
    assert found[b"home/config/program"].mode == 0o755
    assert not any(path.startswith(b"home/config/abs/") for path in found)


@pytest.mark.guarantee("CONT-4")
async def test_locks_are_not_captured(world: World) -> None:
    """Files, links and empty directories that say that a program runs; what a package manager pinned stays, and so does a log."""
    world.write("home/config/app.lock", b"4711\n")
    world.write("home/config/server.pid", b"")
    (world.state / "home/config/SingletonLock").symlink_to("host-4711")
    (world.state / "home/config/mutex.lock").mkdir()
    world.write("home/config/yarn.lock", b"# pinned\n" * 20)
    world.write("home/config/full.lock/file", b"x")
    (world.state / "home/sessions").mkdir(exist_ok=True)
    world.write("home/sessions/short.lock.jsonl", b"line\n")
    found = tree(world, await world.capture())
    kept = {path.rpartition(b"/")[2] for path, entry in found.items() if entry.kind is not Kind.DIRECTORY}
    assert kept == {b"yarn.lock", b"file", b"short.lock.jsonl"}
    assert b"home/config/mutex.lock" not in found
    world.write("home/config/yarn.lock", b"")
    assert b"home/config/yarn.lock" not in tree(world, await world.capture()), "by now it may be one"


@pytest.mark.guarantee("WS-13")
async def test_special_files_are_refused_by_name(world: World) -> None:
    """A FIFO, a socket or a link where a log is expected is named; none of them is opened, so nothing hangs."""
    log = world.log()
    os.mkfifo(log)
    error = await refused(world)
    assert (error.path, error.reason) == ("home/sessions/a.jsonl", "it is a FIFO")
    log.unlink()
    log.symlink_to("/etc/passwd")
    assert "symbolic link" in (await refused(world)).reason
    log.unlink()
    here = Path.cwd()
    with socket.socket(socket.AF_UNIX) as bound:
        os.chdir(log.parent)
        try:
            bound.bind("a.jsonl")
        finally:
            os.chdir(here)
    assert (await refused(world)).reason == "it is a socket"


async def test_special_files_that_are_not_declared_do_not_matter(world: World) -> None:
    """A provider's own sockets and pipes beside its logs hinder nothing."""
    os.mkfifo(world.state / "home/ipc")
    os.mkfifo(world.state / "home/sessions/ipc")
    world.log().write_bytes(b"x\n")
    assert (await world.capture()).files == 1


@pytest.mark.guarantee("CONT-4")
@pytest.mark.parametrize(
    ("bounds", "reason"),
    [
        (Bounds(files=8), "more than 8 files"),
        (Bounds(bytes_total=20), "more than 20 bytes in all"),
        (Bounds(depth=4), "deeper than 4 directories"),
    ],
)
async def test_bounds(make_world: MakeWorld, tmp_path: Path, bounds: Bounds, reason: str) -> None:
    """Each bound refuses by name, and what is just within all of them is captured."""
    async with make_world(tmp_path / "bounded", bounds=bounds) as world:
        await _bounded(world, bounds, reason)


async def _bounded(world: World, bounds: Bounds, reason: str) -> None:
    world.write("home/sessions/1/a.jsonl", b"0123456789")
    world.write("home/sessions/1/b.jsonl", b"0123456789")
    assert (await world.capture()).files == 2
    await_more = {"files": ["c", "d", "e", "f", "g"], "bytes_total": ["c"], "depth": ["2/c"]}
    which = next(name for name in await_more if getattr(bounds, name) != getattr(Bounds(), name))
    for name in await_more[which]:
        world.write(f"home/sessions/1/{name}.jsonl", b"0")
    with pytest.raises(CaptureRefusedError) as error:
        await world.capture()
    assert error.value.reason == reason


@pytest.mark.guarantee("SEC-7")
@pytest.mark.parametrize("name", ["auth.json", "id_ed25519", "token.txt"])
async def test_login_files_refuse_the_checkpoint_by_path(world: World, name: str) -> None:
    """A login file inside the captured set, known by the core or declared by the plugin, is named."""
    world.write(f"home/config/{name}", b"{}")
    error = await refused(world)
    assert (error.path, error.reason) == (f"home/config/{name}", "it is a credential")


KEY = b"-----BEGIN OPENSSH PRIVATE KEY-----\n" + b"b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAABlwAAAAdzc2gtcn\n" * 5
SECRETS = {
    "a private key": KEY,
    "an API key": b'{"key":"sk-proj-Abcdefghij0123456789Abcdefghij0123456789_-xyz"}',
    "a GitHub token": b"token=ghp_" + b"A1b2C3d4E5f6" * 3,
}


@pytest.mark.guarantee("SEC-7")
@pytest.mark.parametrize("what", SECRETS)
@pytest.mark.parametrize("before", [0, BLOCK - 20, 3 * BLOCK - 60])
async def test_secrets_refuse_the_checkpoint_by_path(world: World, what: str, before: int) -> None:
    """A whole secret is found anywhere in a file, also across two blocks."""
    world.log().write_bytes(b"." * before + b" " + SECRETS[what] + b"\n")
    error = await refused(world)
    assert (error.path, error.reason) == ("home/sessions/a.jsonl", f"it holds {what}")


@pytest.mark.guarantee("SEC-7")
async def test_a_secret_that_is_appended_to_a_large_log_is_found(world: World) -> None:
    """The tail path looks back across the block where it begins to read."""
    secret, size = SECRETS["an API key"], 2 << 20
    world.log().write_bytes(b"." * (size - 31) + b" " + secret[:30])
    await world.capture()
    with world.log().open("ab") as stream:
        stream.write(secret[30:] + b"\n")
    with pytest.raises(CaptureRefusedError, match="it holds an API key"):
        await world.capture()


@pytest.mark.parametrize(
    "harmless",
    [
        b"the key begins with -----BEGIN PRIVATE KEY----- and then base64",
        b"sk-1 disk-usage risk-assessment-of-the-whole-project-and-more-words-than-forty",
        b"gAAAAAB" + b"x_sk-Ab1" + b"A1b2-_" * 20,
        b"ghp_short",
    ],
)
def test_a_mention_is_no_secret(harmless: bytes) -> None:
    """A conversation may speak of keys, and encrypted text may contain their first letters."""
    assert SecretScan().find(harmless) is None


def test_an_escaped_private_key_is_found() -> None:
    """In a JSON line the line ends are escaped, perhaps twice."""
    for escape in (b"\\n", b"\\\\n"):
        assert SecretScan().find(KEY.replace(b"\n", escape)) == "a private key"


@pytest.mark.guarantee("CONT-5")
async def test_a_live_database_is_refused(make_world: MakeWorld, tmp_path: Path) -> None:
    """A file declared as a database is never copied from under a running program."""
    captures = CaptureList(entries=(CaptureEntry(pattern="home/*.sqlite", kind=CaptureKind.DATABASE),))
    async with make_world(tmp_path / "db", captures=captures) as world:
        world.write("home/x.sqlite", b"")
        with pytest.raises(CaptureRefusedError, match="databases are not captured from the live state"):
            await world.capture(databases=host_databases(world.home))
        assert not world.packs


@pytest.mark.needs("root")
@pytest.mark.guarantee("CONT-4")
async def test_another_file_system_is_not_entered(world: World) -> None:
    """A mount inside the state is named, not walked."""
    inside = world.state / "home/sessions/mounted"
    inside.mkdir()
    if (await anyio.run_process(["mount", "-t", "tmpfs", "none", str(inside)], check=False)).returncode:
        pytest.skip("needs mount: this root may not mount")
    try:
        (inside / "a.jsonl").touch()
        error = await refused(world)
        assert (error.path, error.reason) == ("home/sessions/mounted", "it lies on another file system")
    finally:
        await anyio.run_process(["umount", str(inside)])


@pytest.mark.unprivileged
@pytest.mark.guarantee("WS-13")
async def test_unreadable_files_are_refused_by_name(world: World) -> None:
    """An ordinary user's daemon cannot read a file of mode 000 and says so."""
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    world.log().write_bytes(b"x\n")
    world.log().chmod(0)
    assert (await refused(world)).reason == "it cannot be read"


@pytest.mark.guarantee("CONT-2")
async def test_the_guest_is_frozen_while_it_is_read_and_only_then(world: World) -> None:
    """The freeze surrounds the reading, is left before anything is synced, and the generation says whether there was one."""
    events: list[str] = []

    @asynccontextmanager
    async def freeze() -> AsyncIterator[None]:
        events.append(f"frozen after {world.files.syncs - syncs} syncs of files")
        yield
        events.append(f"thawed with {len(world.coordinators.for_host(world.host.id).holders)} holder")
        world.log().write_bytes(b"written after the thaw\n")

    world.log().write_bytes(b"x\n")
    first = await world.capture()
    assert generation(world, first).guest_frozen is False
    syncs = world.files.syncs
    world.log().write_bytes(b"x\ny\n")
    second = await world.capture(freeze=freeze)
    assert events == ["frozen after 0 syncs of files", "thawed with 1 holder"]
    assert generation(world, second).guest_frozen is True
    assert tree(world, second)[b"home/sessions/a.jsonl"].content.size == 4


@pytest.mark.guarantee("CONT-10")
async def test_a_write_of_the_same_tick_is_seen(world: World) -> None:
    """A file that changes right after it was read, keeping size and all times, is read again: young times prove nothing."""
    world.clock.ahead *= 0
    path = world.write("home/config/c", b"one")
    world.log().write_bytes(b"x\n")
    before = path.stat()
    first = tree(world, await world.capture())
    path.write_bytes(b"two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    second = tree(world, await world.capture())
    assert first[b"home/config/c"].content != second[b"home/config/c"].content


@pytest.mark.guarantee("CONT-10")
async def test_an_unchanged_file_is_not_read_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Size, times and inode being equal, a file is not opened; when a time differs, it is."""
    world.write("home/config/c", b"x" * 100)
    world.log().write_bytes(b"x\n")
    first = await world.capture()
    opened: list[bytes] = []

    def counting(seen: Seen) -> int:
        opened.append(seen.name)
        return open_file(seen)

    monkeypatch.setattr("jamcore.continuity.capturing.capture.open_file", counting)
    second = await world.capture()
    assert opened == []
    assert first.root_digest == second.root_digest
    os.utime(world.log(), ns=(1, 1))
    await world.capture()
    assert opened == [b"a.jsonl"]


@pytest.mark.guarantee("CONT-11")
async def test_a_log_that_lost_captured_bytes_refuses_the_checkpoint(world: World) -> None:
    """Removed, cut, rewritten or replaced: the last good generation stays the newest one."""
    log = world.log()
    log.write_bytes(b"one\ntwo\nthree\n")
    good = await world.capture()

    for damage in (log.unlink, lambda: log.write_bytes(b"one\n"), lambda: log.write_bytes(b"ONE\ntwo\nthree\nfour\n")):
        damage()
        with pytest.raises(CaptureRefusedError) as error:
            await world.capture()
        assert error.value.path == "home/sessions/a.jsonl"
    assert world.store.checkpoints.keys() == {good.id}
    log.write_bytes(b"one\ntwo\nthree\nfour\n")
    assert (await world.capture()).generation == good.generation + 1


async def test_a_log_may_be_moved_under_its_own_name(world: World) -> None:
    """A provider that archives a conversation moves its log, also after it grew; that loses nothing."""
    world.log().write_bytes(b"one\n" * 30_000)
    await world.capture()
    world.log().write_bytes(b"one\n" * 30_001)
    (world.state / "home/archived").mkdir()
    world.log().rename(world.state / "home/archived/a.jsonl")
    assert b"home/archived/a.jsonl" in tree(world, await world.capture())


async def test_a_torn_last_line_may_be_cut_off(world: World) -> None:
    """A killed program leaves half a line; when it comes back and removes it, nothing that was complete is lost."""
    log = world.log()
    log.write_bytes(b'{"a":1}\n{"b":')
    await world.capture()
    log.write_bytes(b'{"a":1}\n{"c":2}\n')
    await world.capture()
    log.write_bytes(b'{"a":1}\n')
    with pytest.raises(CaptureRefusedError):
        await world.capture()


@pytest.mark.guarantee("CONT-10")
async def test_a_rewritten_beginning_of_a_large_log_is_found_off_the_permit(world: World) -> None:
    """The tail path trusts nothing: a beginning that changed makes the log be read whole, and then refused."""
    log = world.log()
    log.write_bytes(b"line of text\n" * 200_000)
    await world.capture()
    with log.open("r+b") as stream:
        stream.write(b"LINE")
        stream.seek(0, os.SEEK_END)
        stream.write(b"more\n")
    with pytest.raises(CaptureRefusedError, match="lost bytes"):
        await world.capture()


@pytest.mark.guarantee("CONT-2", "CONT-11")
async def test_without_a_freeze_a_writing_guest_still_gives_whole_prefixes(world: World) -> None:
    """Where the guest cannot be held still, each generation of a growing log is a prefix of it, and whole files are never torn."""
    stop = threading.Event()
    config = world.write("home/config/c", b"0" * 5000)

    def write() -> None:
        number = 0
        with world.log().open("ab", buffering=0) as stream:
            while not stop.is_set():
                number += 1
                stream.write(b"%d\n" % number * 50)
                fresh = config.with_name("c.new")
                fresh.write_bytes(b"%d" % (number % 10) * 5000)
                fresh.rename(config)

    captures: list[Checkpoint] = []
    writer = threading.Thread(target=write)
    writer.start()
    try:
        while len(captures) < 12:
            with contextlib.suppress(CaptureRefusedError):  # the small file was never still: refused, which is right
                captures.append(await world.capture())
    finally:
        stop.set()
        writer.join()
    final = world.log().read_bytes()
    with world.generations.blocks(world.host.id).reader() as source:
        for checkpoint in captures:
            found = tree(world, checkpoint)
            assert final.startswith(read_stream(source, found[b"home/sessions/a.jsonl"].content))
            if b"home/config/c" in found:
                assert len(set(read_stream(source, found[b"home/config/c"].content))) == 1
