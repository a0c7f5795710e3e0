"""A program that unpacks the rest of itself does so when it is installed: once, alone, within bounds, and the whole stays atomic."""

from __future__ import annotations

import os
import re
import signal
import stat
import sys
from pathlib import Path

import anyio
import pytest

import jamcore.system.confined as confined_module
from jamcore.domain.providers import ToolchainMissingError, ToolchainSpec, UnpackStep, WheelFile
from jamcore.sandbox.archives import digest_of
from jamcore.sandbox.toolchain import CompletionRecord, ToolchainInstallError, Toolchains, this_machine
from jamcore.system.files import Files
from jamcore.system.process import spawned
from jamcore.testing.archives import Failing, Killed, make_wheel

pytestmark = [pytest.mark.anyio, pytest.mark.needs("bubblewrap")]

UNPACKS = 'mkdir -p "$CACHE/bin" && echo whole > "$CACHE/bin/real" && echo text > "$CACHE/text" && chmod 6755 "$CACHE/bin/real"'
LONG = 10_000_000 + os.getpid()
"""Seconds that no test waits for, and no other run of these tests names."""
STEP = UnpackStep(command=("bin/stub", "--unpack"), environment=(("CACHE", "{root}/cache"),))


def spec_for(directory: Path, script: str, step: UnpackStep = STEP) -> ToolchainSpec:
    """Write a wheel whose program runs a script, and pin it."""
    wheel = make_wheel(
        directory, {"good_bin/tree/bin/stub": f"#!/bin/sh\n{script}\n".encode(), "good_bin/tree/share/data": b"data"}
    )
    return ToolchainSpec(
        distribution="good-bin",
        version="1.0",
        wheels=(WheelFile(platform=this_machine(), sha256=digest_of(wheel)),),
        root="good_bin/tree",
        program="cache/bin/real",
        executables=("cache/bin/real",),
        unpack=step,
    )


def toolchains(tmp_path: Path, files: Files | None = None) -> Toolchains:
    return Toolchains(
        tmp_path / "app", files=files or Files(), wheel_directory=tmp_path / "wheels", environment={"GOOD_KEY": "sk-x"}
    )


def place(tmp_path: Path) -> Path:
    return tmp_path / "app/toolchains/good/1.0/good_bin/tree"


def nothing_is_left(tmp_path: Path) -> bool:
    return list((tmp_path / "app/toolchains/good").iterdir()) == []


async def failure(tmp_path: Path, script: str) -> str:
    """Install what must fail, and return why it did."""
    tools, spec = toolchains(tmp_path), spec_for(tmp_path / "wheels", script)
    with pytest.raises(ToolchainInstallError) as caught:
        await tools.install("good", spec)
    assert caught.value.step == "self-unpack"
    assert nothing_is_left(tmp_path)
    with pytest.raises(ToolchainMissingError):
        tools.require("good", spec)
    return caught.value.detail


async def test_what_it_unpacks_is_part_of_the_installation(tmp_path: Path) -> None:
    """At its place below the root, executable where it made it so, without special modes; the completion record says what came of it."""
    tools, spec = toolchains(tmp_path), spec_for(tmp_path / "wheels", UNPACKS)
    await tools.install("good", spec)
    root = place(tmp_path)
    modes = {str(path.relative_to(root)): stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*")}
    assert modes == {
        "bin": 0o755,
        "bin/stub": 0o755,
        "cache": 0o755,
        "cache/bin": 0o755,
        "cache/bin/real": 0o755,
        "cache/text": 0o644,
        "share": 0o755,
        "share/data": 0o644,
    }
    record = CompletionRecord.model_validate_json((tmp_path / "app/toolchains/good/1.0/.complete").read_bytes())
    assert record.unpacked is not None
    assert (record.files, record.unpacked.files, record.unpacked.bytes, record.unpacked.confined) == (2, 2, 11, True)
    assert tools.require("good", spec).version == "1.0"
    assert [path.name for path in (tmp_path / "app/toolchains/good").iterdir()] == ["1.0"]


async def test_it_gets_nothing_but_its_arguments_and_a_home_that_is_thrown_away(tmp_path: Path) -> None:
    """No variable of the daemon; the root's path wherever the plugin wrote its name; its own directory as the place that it starts in."""
    step = UnpackStep(command=("bin/stub", "--to={root}/x"), environment=(("CACHE", "{root}/cache"),))
    says = 'env > "$CACHE/env"; echo "$1" > "$CACHE/words"; pwd > "$CACHE/pwd"; echo left > "$HOME/left"; id -u > "$CACHE/id"'
    await toolchains(tmp_path).install("good", spec_for(tmp_path / "wheels", f"{UNPACKS}; {says}", step))
    cache = place(tmp_path) / "cache"
    variables = dict(line.split("=", 1) for line in (cache / "env").read_text().splitlines())
    assert set(variables) - {"PWD", "SHLVL", "_", "OLDPWD"} == {"PATH", "HOME", "TMPDIR", "LANG", "CACHE"}
    root = variables["CACHE"].removesuffix("/cache")
    assert (cache / "words").read_text() == f"--to={root}/x\n"
    assert (cache / "pwd").read_text() == f"{root}\n"
    assert (cache / "id").read_text() != "0\n"
    assert not list((tmp_path / "app").rglob("left"))


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo cannot do it >&2; exit 3", "code 3: cannot do it"),
        ("true", "holds no program cache/bin/real"),
        ("kill -9 $$", "code 137"),
        ("exec /nowhere", "code 127"),
    ],
)
async def test_a_failure_is_told_by_type(tmp_path: Path, script: str, words: str) -> None:
    """With the program's own last words; nothing of the attempt is left."""
    assert words in await failure(tmp_path, script)


async def test_one_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what left its session."""
    monkeypatch.setattr("jamcore.sandbox.self_unpacking.TOOLCHAIN_UNPACK_S", 1.0)
    assert "did not end within 1 s" in await failure(tmp_path, f"setsid sleep {LONG} & sleep {LONG}")
    assert not running(LONG)


async def test_one_that_grows_beyond_the_bound_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it grows, in many files as in one."""
    monkeypatch.setattr("jamcore.sandbox.self_unpacking.TOOLCHAIN_BYTES", 1 << 20)
    many = f'{UNPACKS}; i=0; while :; do i=$((i+1)); head -c 65536 /dev/zero > "$CACHE/$i"; sleep 0.01; done'
    assert "more than a program should" in await failure(tmp_path, many)
    one = f'{UNPACKS}; head -c 9000000 /dev/zero > "$CACHE/one" || exit 7'
    assert re.search("code|more than", await failure(tmp_path, one))


@pytest.mark.parametrize(
    "leaves",
    [
        'ln -s /etc/passwd "$CACHE/link"',
        'ln -s /etc "$CACHE/link"',
        'ln -s text "$CACHE/link"',
        'ln "$CACHE/text" "$CACHE/link"',
        'mkfifo "$CACHE/pipe"',
    ],
)
async def test_it_leaves_plain_files_alone(tmp_path: Path, leaves: str) -> None:
    """A link or a pipe is refused, wherever it leads."""
    assert re.search("no plain file|a link", await failure(tmp_path, f"{UNPACKS}; {leaves}"))


async def test_a_directory_that_it_closed_is_looked_through(tmp_path: Path) -> None:
    """Modes are the installer's, and hide nothing from it."""
    script = f'{UNPACKS}; mkdir "$CACHE/closed"; ln -s /etc "$CACHE/closed/link"; chmod 0 "$CACHE/closed"'
    assert "a link" in await failure(tmp_path, script)


async def test_nothing_else_is_in_its_reach(tmp_path: Path) -> None:
    """No file of the person or of Jam is seen, none can be written, and there is no network but a loopback that is down."""
    (tmp_path / "secret").write_text("sk-secret")
    script = (
        f'{UNPACKS}; cat {tmp_path}/secret > "$CACHE/read" 2>/dev/null; ls {tmp_path} > "$CACHE/seen";'
        f"echo x > {tmp_path}/written; echo x > /usr/written; mkdir -p {tmp_path}/made;"
        'tail -n +3 /proc/net/dev | cut -d: -f1 > "$CACHE/network"; true'
    )
    await toolchains(tmp_path).install("good", spec_for(tmp_path / "wheels", script))
    cache = place(tmp_path) / "cache"
    assert ((cache / "read").read_text(), (cache / "seen").read_text()) == ("", "app\n")
    assert (cache / "network").read_text().split() == ["lo"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app", "secret", "wheels"]
    assert not Path("/usr/written").exists()


@pytest.mark.parametrize(
    ("line", "instead", "networks"),
    [(r"_NAMESPACES = .*", "_NAMESPACES = 1", None), (r"_MOUNT_SETATTR, (.*) = 442,", r"_MOUNT_SETATTR, \1 = 9999,", "lo")],
    ids=["no namespaces", "an old kernel"],
)
async def test_a_machine_that_cannot_confine_it_runs_it_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, instead: str, networks: str | None
) -> None:
    """As confined as it can be; the record says that it was not wholly."""
    text, count = re.subn(line, instead, Path(confined_module.__file__).read_text())
    assert count == 1
    (tmp_path / "confined.py").write_text(text)
    monkeypatch.setattr(confined_module, "__file__", str(tmp_path / "confined.py"))
    script = f'{UNPACKS}; tail -n +3 /proc/net/dev | cut -d: -f1 | xargs > "$CACHE/network"; true'
    await toolchains(tmp_path).install("good", spec_for(tmp_path / "wheels", script))
    record = CompletionRecord.model_validate_json((tmp_path / "app/toolchains/good/1.0/.complete").read_bytes())
    assert record.unpacked is not None
    assert not record.unpacked.confined
    if networks is not None:
        assert (place(tmp_path) / "cache/network").read_text().split() == [networks]


async def test_another_way_to_unpack_is_another_build(tmp_path: Path) -> None:
    """The same archive, installed by an older plugin that unpacked nothing, is not selected; an installation puts it right."""
    spec = spec_for(tmp_path / "wheels", UNPACKS)
    older = spec.model_copy(update={"unpack": None, "program": "bin/stub", "executables": ("bin/stub",)})
    tools = toolchains(tmp_path)
    await tools.install("good", older)
    with pytest.raises(ToolchainMissingError, match="another build"):
        tools.require("good", spec)
    assert not (await tools.install("good", spec)).already
    tools.require("good", spec)


@pytest.mark.parametrize("at", range(8, 34, 4))
async def test_one_that_is_interrupted_selects_nothing(tmp_path: Path, at: int) -> None:
    """Killed before, at or after its own unpacking: it is whole, or not selected, and the next attempt works."""
    spec = spec_for(tmp_path / "wheels", UNPACKS)
    try:
        await toolchains(tmp_path, Failing(at)).install("good", spec)
        cut = False
    except Killed:
        cut = True
    fresh = toolchains(tmp_path)
    if cut:
        await fresh.install("good", spec)
    fresh.require("good", spec)
    assert os.access(place(tmp_path) / "cache/bin/real", os.X_OK)


async def test_whoever_gives_up_ends_it(tmp_path: Path) -> None:
    """A daemon that stops meanwhile leaves neither the program nor half of an installation."""
    spec, tools = spec_for(tmp_path / "wheels", f'echo > "$CACHE.begun"; sleep {LONG}'), toolchains(tmp_path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tools.install, "good", spec)
        with anyio.fail_after(30):
            while not list((tmp_path / "app").rglob("cache.begun")):  # noqa: ASYNC110 - another program's file
                await anyio.sleep(0.02)
        tasks.cancel_scope.cancel()
    assert nothing_is_left(tmp_path)


INSTALLS = """
import sys
from pathlib import Path
import anyio
from jamcore.domain.providers import ToolchainSpec
from jamcore.sandbox.toolchain import Toolchains
from jamcore.system.files import Files
tools = Toolchains(Path(sys.argv[1]), files=Files(), wheel_directory=Path(sys.argv[2]), environment={})
anyio.run(tools.install, "good", ToolchainSpec.model_validate_json(sys.argv[3]))
"""


async def test_a_killed_daemon_takes_it_along(tmp_path: Path) -> None:
    """Nothing runs on that nobody waits for, and the next attempt begins anew."""
    spec = spec_for(tmp_path / "wheels", f"exec sleep {LONG}")
    argv = (sys.executable, "-c", INSTALLS, str(tmp_path / "app"), str(tmp_path / "wheels"), spec.model_dump_json())
    async with spawned(argv, env=os.environ) as daemon:
        with anyio.fail_after(60):
            while not running(LONG):  # noqa: ASYNC110 - another process's work
                await anyio.sleep(0.02)
        daemon.signal(signal.SIGKILL)
        with anyio.fail_after(60):
            while running(LONG):  # noqa: ASYNC110 - the kernel's work
                await anyio.sleep(0.02)
    (tmp_path / "wheels").rename(tmp_path / "former")
    await toolchains(tmp_path).install("good", spec_for(tmp_path / "wheels", UNPACKS))
    assert [path.name for path in (tmp_path / "app/toolchains/good").iterdir()] == ["1.0"]


def running(number: int) -> bool:
    """Whether a process of the machine has an argument of its own that is this number."""
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(number).encode() in process.read_bytes().split(b"\0"):
                return True
        except (FileNotFoundError, ProcessLookupError):
            continue
    return False
