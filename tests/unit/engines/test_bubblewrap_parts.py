"""The parts that need no sandbox: frames, requests, bwrap's words, specifications, records, the host user."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jamcore.domain.sandboxes import (
    Access,
    CloneSource,
    EngineFailedError,
    EngineUnavailableError,
    EngineUnknownError,
    HostMount,
    SandboxSpec,
)
from jamcore.engines.bubblewrap import classify, launch
from jamcore.engines.bubblewrap.identity import FIRST_UID, UIDS, give, host_user
from jamcore.engines.bubblewrap.specification import require_possible
from jamcore.engines.supervised.clone import make_clone
from jamcore.engines.supervised.directories import require_real_directories
from jamcore.engines.supervised.guest import frames
from jamcore.engines.supervised.records import RunningAs, SandboxRecord, SandboxRecords, open_process, running_as
from jamcore.system.files import Files
from jamcore.system.git import run_git
from jamcore.system.process import RunAs

WORDS = st.binary().filter(lambda data: b"\0" not in data)


@pytest.mark.guarantee("SEC-5")
@given(
    st.lists(st.tuples(st.sampled_from(["exec", "kill", "gone"]), st.integers(0, 2**40), st.integers(-1, 2**32), st.integers(0, 4)))
)
def test_frames_survive_any_cut(sent: list[frames.Frame]) -> None:
    """A stream has no borders: whatever part arrives first, the same frames come out."""
    stream = b"".join(frames.pack(*frame) for frame in sent)
    for cut in {0, 1, len(stream) // 2, max(0, len(stream) - 1), len(stream)}:
        first, rest = frames.unpack(stream[:cut])
        second, left = frames.unpack(rest + stream[cut:])
        assert ([*first, *second], left) == (sent, b"")


@pytest.mark.guarantee("SEC-5")
@pytest.mark.parametrize("data", [b"\xff\xff", b"\x00\x04exec", b"\x00\x0bexec 1 0 99", b"\x00\x0aexec x 0 0", b"\x00\x02\xff\xfe"])
def test_what_is_no_frame_is_an_error(data: bytes) -> None:
    """Too long, too short, too many descriptors, no number, no text: nothing is guessed."""
    with pytest.raises(ValueError, match=r".*"):
        frames.unpack(data)


@given(st.lists(WORDS, min_size=1), WORDS, st.dictionaries(WORDS.filter(lambda w: b"=" not in w and w), WORDS), st.booleans())
def test_requests_carry_any_bytes(argv: list[bytes], cwd: bytes, env: dict[bytes, bytes], terminal: bool) -> None:
    """Arguments, directory and environment arrive as they were."""
    entries = [name + b"=" + value for name, value in env.items()]
    found = frames.Request.decode(frames.Request(argv, cwd, entries, terminal=terminal).encode())
    assert (found.argv, found.cwd, found.env, found.terminal) == (argv, cwd, entries, terminal)


@pytest.mark.guarantee("SEC-5")
def test_descriptors_beyond_the_bound_are_refused_and_none_is_kept() -> None:
    """Truncated descriptors end the conversation; those that came are closed."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        before = set(Path("/proc/self/fd").iterdir())
        socket.send_fds(ours, [b"x"], [0] * (frames.DESCRIPTORS + 5))
        with pytest.raises(OSError, match="lost"):
            frames.receive(theirs, 10)
        assert set(Path("/proc/self/fd").iterdir()) == before
        socket.send_fds(ours, [b"x"], [0])
        _, (descriptor,) = frames.receive(theirs, 10)
        assert not os.get_inheritable(descriptor)
        os.close(descriptor)


@pytest.mark.guarantee("CAP-1")
@pytest.mark.parametrize(
    "said",
    [
        b"bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user namespaces.",
        b"bwrap: No permissions to create a new namespace, likely because the kernel does not allow non-privileged user namespaces.",
        b"bwrap: Creating new namespace failed: No space left on device",
        b"bwrap: setting up uid map: Permission denied",
        b"setpriv: setresuid failed: Invalid argument",
    ],
)
def test_refused_namespaces_are_told_from_other_failures(said: bytes) -> None:
    """Each of bwrap's wordings is the machine's refusal."""
    assert isinstance(classify.explain(said), EngineUnavailableError)


def test_other_words_are_a_failure_with_those_words() -> None:
    """Nothing is guessed from a message that nobody knows; silence is said to be silence."""
    for said, shown in ((b"bwrap: Can't mkdir /x: Read-only file system", "Read-only"), (b"", "without a word")):
        failure = classify.explain(said)
        assert isinstance(failure, EngineFailedError)
        assert shown in failure.detail


def test_the_setting_that_refuses_is_named(tmp_path: Path) -> None:
    """The first known setting with a refusing value is the answer; absent ones are passed over."""
    (tmp_path / "limit").write_text("0\n")
    settings = ((str(tmp_path / "absent"), "0", "a=1"), (str(tmp_path / "limit"), "0", "user.max_user_namespaces=15000"))
    assert classify.refusing_setting(settings) == "user.max_user_namespaces=15000"
    (tmp_path / "limit").write_text("7\n")
    assert classify.refusing_setting(settings) is None


@pytest.mark.guarantee("ENG-6", "PLAN-4")
@pytest.mark.parametrize("path", ["work", "/jam/../etc", "/", "/usr/lib/x", "/proc", "/jam/init", "/etc/passwd", "/jam//x"])
def test_no_mount_hides_the_sandboxs_own_system(tmp_path: Path, path: str) -> None:
    """Guest paths are plain, absolute, and not where the system lies."""
    mount = HostMount(host_path=str(tmp_path), guest_path=path, access=Access.READ_WRITE)
    with pytest.raises(EngineFailedError):
        require_possible(SandboxSpec(name="x", guest_disk=str(tmp_path), mounts=(mount,)))


@pytest.mark.guarantee("ENG-6")
def test_a_mount_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    """The core resolved every path; a link in one appeared later, and nobody meant where it leads."""
    (tmp_path / "real/inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    for path, fine in (("real/inner", True), ("link", False), ("link/inner", False), ("absent", False)):
        mount = HostMount(host_path=str(tmp_path / path), guest_path="/jam/work", access=Access.READ_WRITE)
        spec = SandboxSpec(name="x", guest_disk=str(tmp_path), mounts=(mount,))
        if fine:
            require_real_directories(spec, engine="bubblewrap")
        else:
            with pytest.raises(EngineFailedError):
                require_real_directories(spec, engine="bubblewrap")


def test_a_damaged_record_is_unknown_and_never_absent(tmp_path: Path) -> None:
    """Nothing may be cleaned up on it."""
    records = SandboxRecords(tmp_path, engine="bubblewrap", files=Files())
    assert records.read("a") is None
    records.write(SandboxRecord(spec=SandboxSpec(name="a", guest_disk="/x")))
    assert records.names() == ("a",)
    (tmp_path / "a.json").write_bytes(b'{"spec":')
    with pytest.raises(EngineUnknownError):
        records.read("a")


def test_only_exactly_the_recorded_process_is_held() -> None:
    """A later process with the same number, or one of an earlier boot, is somebody else."""
    me = running_as(os.getpid())
    assert me is not None
    descriptor = open_process(me)
    assert descriptor is not None
    os.close(descriptor)
    assert open_process(RunningAs(pid=me.pid, started="1", boot=me.boot)) is None
    assert open_process(RunningAs(pid=me.pid, started=me.started, boot="another")) is None


@pytest.mark.guarantee("SEC-1")
def test_roots_sandboxes_have_users_of_their_own() -> None:
    """The same at each start, from the documented range, never root; an ordinary user's run as that user."""
    one = host_user("jam-a", root=True)
    assert one is not None
    assert one == host_user("jam-a", root=True) != host_user("jam-b", root=True)
    assert FIRST_UID <= one.uid == one.gid < FIRST_UID + UIDS
    assert host_user("jam-a", root=False) is None


@pytest.mark.needs("root")
@pytest.mark.guarantee("SEC-1")
def test_giving_follows_no_link_and_leaves_hard_links_that_lead_out(tmp_path: Path) -> None:
    """A guest that plants links to a person's files does not get them at the next start."""
    inside, outside = tmp_path / "disk", tmp_path / "person"
    (inside / "deep").mkdir(parents=True)
    outside.write_text("mine")
    (inside / "link").symlink_to(outside)
    (inside / "deep/hard").hardlink_to(outside)
    (inside / "deep/own").write_text("x")
    (inside / "deep/two").write_text("x")
    (inside / "names").hardlink_to(inside / "deep/two")
    give(inside, RunAs(uid=FIRST_UID, gid=FIRST_UID))
    assert outside.stat().st_uid == 0
    assert {p.lstat().st_uid for p in (inside, inside / "deep", inside / "deep/own", inside / "link", inside / "names")} == {
        FIRST_UID
    }


def test_the_command_line_is_a_pure_function() -> None:
    """Golden: the isolation, the order, and exactly the descriptors that were named."""
    wanted = launch.Launch(
        program="/b/bwrap",
        system=launch.HostSystem(links=(("/bin", "usr/bin"),), directories=("/lib64",)),
        binds=(launch.Bind("/h/home", "/home/agent", Access.READ_WRITE), launch.Bind("/h/ro", "/jam/ro", Access.READ_ONLY)),
        files={"/etc/passwd": 11},
        seccomp=12,
        control=13,
        relay=14,
        info=15,
        ports=(80, 81),
        python="/jam/python/bin/python3",
        library_path="/jam/python/lib",
        processes=99,
    )
    line = " ".join(launch.arguments(wanted))
    for part in (
        "--unshare-user --unshare-ipc --unshare-pid --unshare-net --unshare-uts --unshare-cgroup-try --uid 1000 --gid 1000",
        "--disable-userns --hostname jam --die-with-parent --new-session --as-pid-1 --cap-drop ALL --clearenv",
        "--ro-bind /usr /usr --symlink usr/bin /bin --ro-bind /lib64 /lib64",
        "--perms 0444 --file 11 /etc/passwd",
        "--bind /h/home /home/agent --ro-bind /h/ro /jam/ro --remount-ro / --info-fd 15 --seccomp 12 --chdir /",
        "-- /jam/python/bin/python3 -I -S -c",
    ):
        assert part in line
    assert launch.arguments(wanted)[-4:] == ("13", "14", "99", "80,81")
    assert line.index("--tmpfs /tmp") < line.index("--bind /h/home")


@pytest.mark.anyio
@pytest.mark.needs("git")
@pytest.mark.needs("root")
@pytest.mark.guarantee("CAP-7", "SEC-2")
async def test_root_clones_a_checkout_of_another_user(tmp_path: Path) -> None:
    """Git distrusts directories of others; the clone is made all the same, runs nothing of them and names no path of the host."""
    source = tmp_path / "source"
    source.mkdir()
    person = ("-c", "user.name=p", "-c", "user.email=p@example.org")
    (source / "file").write_text("words")
    for argv in (("init", "-q", "-b", "main"), ("add", "."), (*person, "commit", "-q", "-m", "one")):
        assert (await run_git(*argv, cwd=source)).ok
    commit = (await run_git("rev-parse", "HEAD", cwd=source)).stdout.decode().strip()
    for path in (source, *source.rglob("*")):
        os.chown(path, 54321, 54321)
    clone = CloneSource(host_path=str(source), commit=commit, guest_path="/jam/work")
    await make_clone(clone, tmp_path / "clone", engine="bubblewrap", files=Files())
    assert (tmp_path / "clone/file").read_text() == "words"
    assert not [p for p in (tmp_path / "clone/.git").rglob("*") if p.is_file() and str(tmp_path).encode() in p.read_bytes()]
