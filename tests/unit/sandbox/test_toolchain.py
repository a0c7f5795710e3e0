"""A pinned program is installed whole and verified, or not at all."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest
from aiohttp import web

from jamcore.domain.errors import JamError
from jamcore.domain.providers import ToolchainMissingError, ToolchainSpec, WheelFile
from jamcore.domain.requests import InstallProgress
from jamcore.sandbox.archives import digest_of
from jamcore.sandbox.origins import classify_pip, pip_environment
from jamcore.sandbox.toolchain import (
    CompletionRecord,
    ToolchainDigestError,
    ToolchainInstallError,
    Toolchains,
    ToolchainUnreachableError,
    this_machine,
)
from jamcore.sandbox.wheels import unpack_wheel
from jamcore.system.files import Files
from jamcore.system.process import Finished
from jamcore.testing import archives
from jamcore.testing.archives import Failing, Killed

pytestmark = pytest.mark.anyio

MEMBERS: Mapping[str, bytes] = {
    "good_bin/__init__.py": b"",
    "good_bin/tree/bin/good": b"#!/bin/sh\necho good\n",
    "good_bin/tree/bin/helper": b"#!/bin/sh\n",
    "good_bin/tree/share/data.txt": b"data" * 100,
}


def make_wheel(
    directory: Path, members: Mapping[str, bytes] = MEMBERS, *, version: str = "1.0", modes: Mapping[str, int] | None = None
) -> Path:
    """Write a wheel that pip accepts."""
    return archives.make_wheel(directory, members, version=version, modes=modes)


def spec_for(wheel: Path, *, version: str = "1.0", platform: str | None = None) -> ToolchainSpec:
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return ToolchainSpec(
        distribution="good-bin",
        version=version,
        wheels=(WheelFile(platform=platform or this_machine(), sha256=digest),),
        root="good_bin/tree",
        program="bin/good",
        executables=("bin/good", "bin/helper"),
    )


def toolchains(app: Path, *, wheels: Path | None = None, links: Path | None = None, files: Files | None = None) -> Toolchains:
    """Toolchains whose pip can only look into ``links``: no test leaves the machine."""
    environment = {
        **os.environ,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(links or app / "nowhere"),
        "PIP_CONFIG_FILE": os.devnull,
    }
    return Toolchains(app, files=files or Files(), wheel_directory=wheels, environment=environment)


def tree(app: Path) -> dict[str, int]:
    root = app / "toolchains"
    return {str(path.relative_to(root)): stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*") if path.is_file()}


async def test_a_wheel_from_the_directory_is_installed_without_pip(tmp_path: Path) -> None:
    """Only the program's directory is unpacked, executable where it must be, readable by whoever the guest runs as."""
    wheel = make_wheel(tmp_path / "wheels")
    steps: list[str] = []
    tools, spec = toolchains(tmp_path, wheels=tmp_path / "wheels"), spec_for(wheel)
    installed = await tools.install("good", spec, progress=steps.append)
    assert not installed.already
    assert installed.path == str(tmp_path / "toolchains/good/1.0")
    assert tree(tmp_path) == {
        "good/1.0/.complete": 0o600,
        "good/1.0/good_bin/tree/bin/good": 0o755,
        "good/1.0/good_bin/tree/bin/helper": 0o755,
        "good/1.0/good_bin/tree/share/data.txt": 0o644,
    }
    assert steps == ["verifying", "unpacking"]
    assert stat.S_IMODE((tmp_path / "toolchains/good/1.0/good_bin/tree").stat().st_mode) == 0o755
    assert tools.require("good", spec).digest == spec.wheels[0].sha256
    again = await tools.install("good", spec, progress=steps.append)
    assert again.already
    assert len(steps) == 2


async def test_verifying_and_unpacking_say_how_far_they_are(tmp_path: Path) -> None:
    """Each in bytes of the whole, to its end; a wheel is not held in memory for it."""
    noise = os.urandom(3 << 20)
    wheel = make_wheel(tmp_path / "wheels", {**MEMBERS, "good_bin/tree/share/noise": noise})
    told: list[tuple[int, int]] = []
    assert digest_of(wheel, told=lambda done, total: told.append((done, total))) == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert (len(told) > 2, told[-1]) == (True, (wheel.stat().st_size,) * 2)
    told.clear()
    (tmp_path / "tree").mkdir()
    unpack_wheel(wheel, spec_for(wheel), tmp_path / "tree", files=Files(), told=lambda done, total: told.append((done, total)))
    whole = len(noise) + sum(len(data) for name, data in MEMBERS.items() if name.startswith("good_bin/tree/"))
    assert (len(told) > 3, told[-1], told) == (True, (whole, whole), sorted(told))


async def test_pip_brings_a_wheel_that_is_not_in_the_directory(tmp_path: Path) -> None:
    """The real pip, told to look at a local directory: download, verify, unpack; its scratch is gone afterwards."""
    wheel = make_wheel(tmp_path / "registry")
    (tmp_path / "wheels").mkdir()
    steps: list[str] = []
    tools = toolchains(tmp_path, wheels=tmp_path / "wheels", links=tmp_path / "registry")
    await tools.install("good", spec_for(wheel), progress=steps.append)
    assert steps == ["verifying", "downloading", "verifying", "unpacking"]
    assert [path.name for path in (tmp_path / "toolchains/good").iterdir()] == ["1.0"]


async def test_other_bytes_than_the_pinned_ones_are_refused(tmp_path: Path) -> None:
    """From the directory and from pip alike; nothing is unpacked."""
    spec = spec_for(make_wheel(tmp_path / "right"))
    make_wheel(tmp_path / "wrong", {**MEMBERS, "good_bin/tree/bin/good": b"#!/bin/sh\necho bad\n"})
    tools = toolchains(tmp_path, wheels=tmp_path / "wrong", links=tmp_path / "wrong")
    with pytest.raises(ToolchainDigestError):
        await tools.install("good", spec)
    assert tree(tmp_path) == {}
    # A wrong one in the directory does not hide the right one of the registry.
    await toolchains(tmp_path, wheels=tmp_path / "wrong", links=tmp_path / "right").install("good", spec)


async def test_what_the_registry_does_not_have_is_said(tmp_path: Path) -> None:
    """The real pip finds nothing."""
    spec = spec_for(make_wheel(tmp_path / "elsewhere"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ToolchainMissingError, match="has no good-bin==1"):
        await toolchains(tmp_path, links=tmp_path / "empty").install("good", spec)
    assert list((tmp_path / "toolchains/good").iterdir()) == []


async def test_no_network_is_said(tmp_path: Path) -> None:
    """The real pip with a registry that refuses connections."""
    spec = spec_for(make_wheel(tmp_path / "elsewhere"))
    environment = {
        "PATH": os.environ["PATH"],
        "PIP_INDEX_URL": "http://127.0.0.1:1/simple",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_RETRIES": "0",
    }
    with pytest.raises(ToolchainUnreachableError):
        await Toolchains(tmp_path, files=Files(), environment=environment).install("good", spec)


async def test_a_machine_without_a_build_is_refused(tmp_path: Path) -> None:
    """By name, with what there is."""
    spec = spec_for(make_wheel(tmp_path / "wheels"), platform="plan9-mips")
    tools = toolchains(tmp_path, wheels=tmp_path / "wheels")
    for attempt in (tools.install("good", spec),):
        with pytest.raises(ToolchainMissingError, match="plan9-mips"):
            await attempt
    with pytest.raises(ToolchainMissingError, match=this_machine()):
        tools.require("good", spec)


BAD: dict[str, tuple[Mapping[str, bytes], Mapping[str, int]]] = {
    "climbs": ({**MEMBERS, "good_bin/tree/../../../escaped": b"x"}, {}),
    "climbs at the end": ({**MEMBERS, "good_bin/tree/..": b"x"}, {}),
    "backslash": ({**MEMBERS, "good_bin/tree/a\\..\\b": b"x"}, {}),
    "link": ({**MEMBERS, "good_bin/tree/link": b"/etc/passwd"}, {"good_bin/tree/link": stat.S_IFLNK | 0o777}),
    "device": ({**MEMBERS, "good_bin/tree/null": b""}, {"good_bin/tree/null": stat.S_IFCHR | 0o666}),
    "twice": ({**MEMBERS, "good_bin/tree/BIN/good": b"x"}, {}),
    "no program": ({"good_bin/tree/bin/helper": b"x"}, {}),
    "file and directory": ({**MEMBERS, "good_bin/tree/bin": b"x"}, {}),
}


@pytest.mark.parametrize("how", BAD)
async def test_a_wheel_with_what_no_wheel_should_hold_leaves_nothing(tmp_path: Path, how: str) -> None:
    """Even with the right digest: nothing leaves the target, no link or device is made, and nothing can be selected."""
    members, modes = BAD[how]
    wheel = make_wheel(tmp_path / "wheels", members, modes=modes)
    tools, spec = toolchains(tmp_path, wheels=tmp_path / "wheels"), spec_for(wheel)
    with pytest.raises(ToolchainInstallError):
        await tools.install("good", spec)
    assert tree(tmp_path) == {}
    assert not list(tmp_path.rglob("escaped"))
    with pytest.raises(ToolchainMissingError):
        tools.require("good", spec)


async def test_set_id_bits_of_a_wheel_do_not_survive(tmp_path: Path) -> None:
    """Modes are the installer's, not the wheel's."""
    name = "good_bin/tree/bin/good"
    wheel = make_wheel(tmp_path / "wheels", modes={name: stat.S_IFREG | 0o6777})
    await toolchains(tmp_path, wheels=tmp_path / "wheels").install("good", spec_for(wheel))
    assert tree(tmp_path)["good/1.0/" + name] == 0o755


async def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The declared sizes are added up first."""
    monkeypatch.setattr("jamcore.sandbox.archives.TOOLCHAIN_BYTES", 1000)
    wheel = make_wheel(tmp_path / "wheels", {**MEMBERS, "good_bin/tree/zeros": bytes(100_000)})
    with pytest.raises(ToolchainInstallError, match="more than a program should"):
        await toolchains(tmp_path, wheels=tmp_path / "wheels").install("good", spec_for(wheel))
    monkeypatch.setattr("jamcore.sandbox.archives.TOOLCHAIN_FILES", 2)
    monkeypatch.setattr("jamcore.sandbox.archives.TOOLCHAIN_BYTES", 10**9)
    with pytest.raises(ToolchainInstallError, match="more than a program should"):
        await toolchains(tmp_path, wheels=tmp_path / "wheels").install("good", spec_for(wheel))


@pytest.mark.parametrize("at", range(1, 22))
async def test_an_interrupted_installation_selects_nothing(tmp_path: Path, at: int) -> None:
    """The disk fails, or the process is killed, at any durable effect: either it is whole, or not selected; the next attempt works."""
    wheel = make_wheel(tmp_path / "wheels")
    spec = spec_for(wheel)
    for number, error in enumerate((OSError(28, "No space left on device"), Killed())):
        app = tmp_path / f"app{number}"
        tools = toolchains(app, wheels=tmp_path / "wheels", files=Failing(at, error))
        try:
            await tools.install("good", spec)
        except (ToolchainInstallError, Killed):
            reached = True
        else:
            reached = False
        fresh = toolchains(app, wheels=tmp_path / "wheels")
        if not reached:
            fresh.require("good", spec)
            continue
        try:
            fresh.require("good", spec)
        except ToolchainMissingError:
            assert not (await fresh.install("good", spec)).already
        fresh.require("good", spec)
        record = CompletionRecord.model_validate_json((app / "toolchains/good/1.0/.complete").read_bytes())
        assert record.files == 3
        assert len(tree(app)) == 4


async def test_what_is_not_whole_is_replaced(tmp_path: Path) -> None:
    """A damaged record, a lost program or another pin is not selected, and an installation puts it right."""
    wheel = make_wheel(tmp_path / "wheels")
    tools, spec = toolchains(tmp_path, wheels=tmp_path / "wheels"), spec_for(wheel)
    await tools.install("good", spec)
    home = tmp_path / "toolchains/good/1.0"
    program = home / "good_bin/tree/bin/good"
    for damaged, content in ((home / ".complete", b"{"), (home / ".complete", None), (program, None)):
        damaged.unlink() if content is None else damaged.write_bytes(content)
        with pytest.raises(ToolchainMissingError):
            tools.require("good", spec)
        assert not (await tools.install("good", spec)).already
    other = spec_for(make_wheel(tmp_path / "other", {**MEMBERS, "good_bin/tree/new": b""}))
    with pytest.raises(ToolchainMissingError, match="another build"):
        tools.require("good", other)


async def test_a_broken_program_is_installed_again(tmp_path: Path) -> None:
    """One of another size is seen at a look, one of other bytes by an installation, which reads it. What is as it was stays."""
    tools, spec = toolchains(tmp_path, wheels=tmp_path / "wheels"), spec_for(make_wheel(tmp_path / "wheels"))
    await tools.install("good", spec)
    helper = tmp_path / "toolchains/good/1.0/good_bin/tree/bin/helper"
    helper.write_bytes(b"garbage")
    with pytest.raises(ToolchainMissingError, match="bin/helper is not what was installed"):
        tools.require_whole("good", spec)
    assert not (await tools.install("good", spec)).already
    helper.write_bytes(MEMBERS["good_bin/tree/bin/helper"][::-1])
    tools.require_whole("good", spec)
    assert not (await tools.install("good", spec)).already
    assert helper.read_bytes() == MEMBERS["good_bin/tree/bin/helper"]
    assert (await tools.install("good", spec)).already


async def test_a_record_of_an_older_jam_is_good_for_as_long_as_its_program_is_there(tmp_path: Path) -> None:
    """It names no file that is executed, so nothing is held against them."""
    tools, spec = toolchains(tmp_path, wheels=tmp_path / "wheels"), spec_for(make_wheel(tmp_path / "wheels"))
    await tools.install("good", spec)
    complete = tmp_path / "toolchains/good/1.0/.complete"
    record = CompletionRecord.model_validate_json(complete.read_bytes())
    complete.write_text(record.model_dump_json(exclude={"executables"}))
    assert (await tools.install("good", spec)).already


async def test_what_a_killed_installation_left_is_removed(tmp_path: Path) -> None:
    """Staging directories of former attempts do not pile up."""
    wheel = make_wheel(tmp_path / "wheels")
    left = tmp_path / "toolchains/good/.staging-12345678/download"
    left.mkdir(parents=True)
    (left / "half.whl").write_bytes(b"x")
    await toolchains(tmp_path, wheels=tmp_path / "wheels").install("good", spec_for(wheel))
    assert [path.name for path in (tmp_path / "toolchains/good").iterdir()] == ["1.0"]


async def test_two_at_once_install_once(tmp_path: Path) -> None:
    """The second waits and finds it there."""
    wheel = make_wheel(tmp_path / "wheels")
    tools, spec = toolchains(tmp_path, wheels=tmp_path / "wheels"), spec_for(wheel)
    already: list[bool] = []

    async def install() -> None:
        already.append((await tools.install("good", spec)).already)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(install)
    assert sorted(already) == [False, True, True]


NOT_FOUND = (
    b"ERROR: Could not find a version that satisfies the requirement x==1 (from versions: none)\n"
    b"ERROR: No matching distribution found for x==1\n"
)
SAMPLES: tuple[tuple[bytes, type[JamError]], ...] = (
    (b"WARNING: Retrying ... NewConnectionError('...: [Errno 111] Connection refused')\n" + NOT_FOUND, ToolchainUnreachableError),
    (b"WARNING: Retrying ... NameResolutionError(...)\n" + NOT_FOUND, ToolchainUnreachableError),
    (NOT_FOUND, ToolchainMissingError),
    (b"ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n", ToolchainInstallError),
    (b"/venv/bin/python: No module named pip\n", ToolchainInstallError),
    (b"", ToolchainInstallError),
)


@pytest.mark.parametrize(("words", "kind"), SAMPLES, ids=range(len(SAMPLES)))
def test_pips_words_are_classified_in_one_place(words: bytes, kind: type[JamError]) -> None:
    """Samples of what pip says."""
    error = classify_pip(Finished(1, b"", words), provider="good", wanted="x==1")
    assert type(error) is kind
    assert isinstance(classify_pip(Finished(-9, b"", words, timed_out=True), provider="g", wanted="x"), ToolchainUnreachableError)


def test_pip_gets_nothing_of_the_environment_but_what_it_needs() -> None:
    """A secret of the daemon is not in the environment of a download."""
    environment = {"PATH": "/bin", "GOOD_KEY": "sk-x", "PIP_INDEX_URL": "u", "HOME": "/h", "NPM_TOKEN": "t"}
    assert pip_environment(environment) == {"PATH": "/bin", "PIP_INDEX_URL": "u", "HOME": "/h"}


@pytest.mark.parametrize("option", ["raw", "off"])
async def test_how_far_a_download_is_can_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    """The real pip against a slow registry on the loopback: bytes rise while it runs, of the total if pip tells it; else nothing runs."""
    monkeypatch.setattr("jamcore.sandbox.origins.progress_option", lambda: option)
    wheel = make_wheel(tmp_path / "registry", {**MEMBERS, "good_bin/tree/share/noise": os.urandom(3 << 20)})
    spec, held = spec_for(wheel), anyio.Event()

    async def index(_request: web.Request) -> web.Response:
        return web.Response(text=f'<a href="/{wheel.name}">{wheel.name}</a>', content_type="text/html")

    async def file(request: web.Request) -> web.StreamResponse:
        data = wheel.read_bytes()
        response = web.StreamResponse(headers={"Content-Length": str(len(data))})
        await response.prepare(request)
        await response.write(data[: len(data) // 2])
        await held.wait()
        await response.write(data[len(data) // 2 :])
        return response

    app = web.Application()
    app.router.add_get("/simple/good-bin/", index)
    app.router.add_get(f"/{wheel.name}", file)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    environment = {**os.environ, "PIP_INDEX_URL": f"{site.name}/simple", "PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1"}
    tools = Toolchains(tmp_path / "app", files=Files(), environment=environment)
    assert tools.progress_of("good") == InstallProgress()
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tools.install, "good", spec)
            with anyio.fail_after(60):
                while not (seen := tools.progress_of("good")).bytes:  # noqa: ASYNC110 - pip's output
                    await anyio.sleep(0.02)
            held.set()
        assert seen.step == "downloading"
        assert 0 < seen.bytes < wheel.stat().st_size
        assert seen.total == (wheel.stat().st_size if option == "raw" else 0)
        assert tools.progress_of("good") == InstallProgress()
    finally:
        await runner.cleanup()
