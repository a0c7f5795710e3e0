"""A program that is an npm package is installed whole and verified, or not at all, and none of its scripts runs."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path

import anyio
import pytest
from aiohttp import web

from jamcore.domain.errors import JamError
from jamcore.domain.providers import PackageFile, ToolchainMissingError, ToolchainSpec
from jamcore.sandbox.archives import BadArchiveError
from jamcore.sandbox.origins import ToolchainClientMissingError, classify_npm, npm_environment
from jamcore.sandbox.tarballs import unpack_tarball
from jamcore.sandbox.toolchain import (
    CompletionRecord,
    ToolchainDigestError,
    ToolchainInstallError,
    Toolchains,
    ToolchainUnreachableError,
    this_machine,
)
from jamcore.system.files import Files
from jamcore.system.process import Finished
from jamcore.testing import archives
from jamcore.testing.archives import Failing, Killed, entry

pytestmark = pytest.mark.anyio

PROGRAM = ("package/bin/good", b"#!/bin/sh\necho good\n")
MANIFEST = ("package/package.json", b'{"name": "@good/agent-linux", "version": "1.2.3"}')
Member = tuple[tarfile.TarInfo, bytes]


GOOD = (
    entry("package", type=tarfile.DIRTYPE, mode=0o755),
    entry(*PROGRAM, mode=0o6777),
    entry(*MANIFEST),
    entry("package/share/a", b"a" * 99),
)


def make_tarball(directory: Path, members: Iterable[Member] = GOOD, *, name: str = "good-agent-linux-1.2.3.tgz") -> Path:
    """Write a tarball as a registry has it."""
    return archives.make_tarball(directory / name, members)


def spec_for(tarball: Path, *, platform: str | None = None) -> ToolchainSpec:
    digest = hashlib.sha512(tarball.read_bytes()).hexdigest()
    return ToolchainSpec(
        distribution="good-agent",
        version="1.2.3",
        packages=(PackageFile(platform=platform or this_machine(), name="@good/agent-linux", sha512=digest),),
        root="package",
        program="bin/good",
        executables=("bin/good",),
    )


def fake_npm(place: Path, script: str) -> dict[str, str]:
    """Put an npm of a few lines on the path; it keeps how it was called beside itself. Returns an environment with a secret in it."""
    place.mkdir()
    (place / "npm").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {place}/words\nenv > {place}/env\npwd > {place}/pwd\n{script}\n')
    (place / "npm").chmod(0o755)
    return {"PATH": f"{place}:/usr/bin:/bin", "GOOD_KEY": "sk-x", "npm_config_registry": "http://127.0.0.1:1", "HOME": "/nowhere"}


def toolchains(app: Path, environment: dict[str, str], *, tarballs: Path | None = None, files: Files | None = None) -> Toolchains:
    return Toolchains(app, files=files or Files(), wheel_directory=tarballs, environment=environment)


def tree(app: Path) -> dict[str, int]:
    root = app / "toolchains"
    return {str(path.relative_to(root)): stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*") if path.is_file()}


async def test_the_npm_client_brings_the_pinned_package(tmp_path: Path) -> None:
    """Exactly that one, without scripts, away from any project; the tarball is unpacked by Jam, with modes of its own."""
    tarball = make_tarball(tmp_path / "registry")
    environment = fake_npm(tmp_path / "bin", f'cp {tarball} "$4"')
    tools, spec, steps = toolchains(tmp_path / "app", environment), spec_for(tarball), list[str]()
    installed = await tools.install("good", spec, progress=steps.append)
    assert steps == ["downloading", "verifying", "unpacking"]
    assert (installed.digest, installed.already) == (spec.packages[0].sha512, False)
    assert tree(tmp_path / "app") == {
        "good/1.2.3/.complete": 0o600,
        "good/1.2.3/package/bin/good": 0o755,
        "good/1.2.3/package/package.json": 0o644,
        "good/1.2.3/package/share/a": 0o644,
    }
    record = CompletionRecord.model_validate_json((tmp_path / "app/toolchains/good/1.2.3/.complete").read_bytes())
    assert (record.package_sha512, record.wheel_sha256, record.files, record.unpacked) == (installed.digest, "", 3, None)
    words = (tmp_path / "bin/words").read_text().splitlines()
    assert words[:3] == ["pack", "@good/agent-linux@1.2.3", "--pack-destination"]
    assert {"--ignore-scripts", "--no-update-notifier"} <= set(words)
    assert "/toolchains/good/.staging-" in (tmp_path / "bin/pwd").read_text()
    names = {line.partition("=")[0] for line in (tmp_path / "bin/env").read_text().splitlines()}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} == {"PATH", "HOME", "TMPDIR", "npm_config_registry"}
    assert (await tools.install("good", spec)).already
    assert tools.require("good", spec).digest == installed.digest


def test_npm_gets_nothing_of_the_environment_but_what_it_needs() -> None:
    """Where to look, and by what right: a person's configuration, proxies, and a registry's token."""
    kept = {
        "PATH": "/bin",
        "HOME": "/h",
        "NPM_CONFIG_USERCONFIG": "c",
        "npm_config_registry": "r",
        "NPM_TOKEN": "t",
        "HTTPS_PROXY": "p",
    }
    assert npm_environment(kept | {"GOOD_KEY": "sk-x", "PIP_INDEX_URL": "u", "NODE_OPTIONS": "--require=x"}) == kept


@pytest.mark.parametrize("name", ["good-agent-linux-1.2.3.tgz", "agent-linux-1.2.3.tgz"])
async def test_a_tarball_from_the_directory_needs_no_npm(tmp_path: Path, name: str) -> None:
    """Under the name that npm gives it, or that of the registry."""
    tarball = make_tarball(tmp_path / "tarballs", name=name)
    tools = toolchains(tmp_path / "app", {"PATH": "/nowhere"}, tarballs=tmp_path / "tarballs")
    assert not (await tools.install("good", spec_for(tarball))).already


async def test_a_machine_without_npm_is_told_what_to_do(tmp_path: Path) -> None:
    """The refusal names the client; the hint says how to get it, and how to do without."""
    spec = spec_for(make_tarball(tmp_path / "registry"))
    with pytest.raises(ToolchainClientMissingError) as caught:
        await toolchains(tmp_path / "app", {"PATH": "/nowhere"}).install("good", spec)
    assert (caught.value.client, caught.value.wanted) == ("npm", "@good/agent-linux@1.2.3")
    assert "apt install npm" in caught.value.hint
    assert "wheel_directory" in caught.value.hint
    assert list((tmp_path / "app/toolchains/good").iterdir()) == []


async def test_a_machine_without_a_package_is_refused(tmp_path: Path) -> None:
    """By name, with what there is."""
    spec = spec_for(make_tarball(tmp_path / "registry"), platform="plan9-mips")
    with pytest.raises(ToolchainMissingError, match="plan9-mips"):
        await toolchains(tmp_path / "app", {"PATH": "/nowhere"}).install("good", spec)


async def test_other_bytes_than_the_pinned_ones_are_refused(tmp_path: Path) -> None:
    """From the directory and from npm alike: nothing is unpacked, and a wrong one in the directory does not hide the right one."""
    right = make_tarball(tmp_path / "right")
    wrong = make_tarball(tmp_path / "wrong", (*GOOD, entry("package/more", b"x")))
    app, spec = tmp_path / "app", spec_for(right)
    bad = fake_npm(tmp_path / "bad", f'cp {wrong} "$4"')
    with pytest.raises(ToolchainDigestError) as caught:
        await toolchains(app, bad, tarballs=tmp_path / "wrong").install("good", spec)
    assert (caught.value.archive, caught.value.expected) == (wrong.name, spec.packages[0].sha512)
    assert tree(app) == {}
    await toolchains(app, fake_npm(tmp_path / "good", f'cp {right} "$4"'), tarballs=tmp_path / "wrong").install("good", spec)


async def test_a_client_that_brings_nothing_is_a_failure(tmp_path: Path) -> None:
    """Though it says that all is well."""
    spec = spec_for(make_tarball(tmp_path / "registry"))
    with pytest.raises(ToolchainInstallError, match="no tarball of that name"):
        await toolchains(tmp_path / "app", fake_npm(tmp_path / "bin", "exit 0")).install("good", spec)


def npm_says(code: str, *more: str) -> bytes:
    lines = (f"npm error code {code}", *more, "npm error A complete log of this run can be found in: /x.log")
    return "\n".join(lines).encode()


SAMPLES: tuple[tuple[bytes, type[JamError]], ...] = (
    (npm_says("ECONNREFUSED", "npm error errno ECONNREFUSED"), ToolchainUnreachableError),
    (npm_says("ENOTFOUND", "npm error network request to http://r/a failed"), ToolchainUnreachableError),
    (npm_says("ENOTCACHED"), ToolchainUnreachableError),
    (npm_says("ERR_SOCKET_TIMEOUT"), ToolchainUnreachableError),
    (npm_says("SELF_SIGNED_CERT_IN_CHAIN"), ToolchainUnreachableError),
    (b"npm ERR! code EAI_AGAIN\nnpm ERR! syscall getaddrinfo\n", ToolchainUnreachableError),
    (npm_says("E404", "npm error 404 Not Found - GET http://r/ECONNREFUSED"), ToolchainMissingError),
    (b"npm ERR! code ETARGET\nnpm ERR! notarget No matching version found for a@9.9.9.\n", ToolchainMissingError),
    (npm_says("EINTEGRITY", "npm error sha512-x integrity checksum failed"), ToolchainInstallError),
    (npm_says("ENOSPC", "npm error nospc There appears to be insufficient space"), ToolchainInstallError),
    (b"/usr/bin/env: 'node': No such file or directory\n", ToolchainInstallError),
    (b"", ToolchainInstallError),
)


@pytest.mark.parametrize(("words", "kind"), SAMPLES, ids=range(len(SAMPLES)))
def test_npms_words_are_classified_in_one_place(words: bytes, kind: type[JamError]) -> None:
    """By its codes, which are the same since npm 7; samples of what it says."""
    error = classify_npm(Finished(1, b"", words), provider="good", wanted="a@1.2.3")
    assert type(error) is kind
    assert "complete log" not in str(error.context())
    assert isinstance(classify_npm(Finished(-9, b"", b"", timed_out=True), provider="g", wanted="a"), ToolchainUnreachableError)


# --------------------------------------------------------------------------------------------------------- bad tarballs

HUGE_NAME = entry("package/" + "n" * (2 << 20), b"x")
BAD: dict[str, tuple[Member, ...]] = {
    "climbs": (*GOOD, entry("package/../../escaped", b"x")),
    "climbs at the end": (*GOOD, entry("package/..", b"x")),
    "backslash": (*GOOD, entry("package/a\\..\\b", b"x")),
    "symbolic link": (*GOOD, entry("package/link", type=tarfile.SYMTYPE, linkname="/etc/passwd")),
    "link to write through": (
        *GOOD,
        entry("package/out", type=tarfile.SYMTYPE, linkname="../../../.."),
        entry("package/out/escaped", b"x"),
    ),
    "hard link": (*GOOD, entry("package/link", type=tarfile.LNKTYPE, linkname="package/bin/good")),
    "device": (*GOOD, entry("package/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)),
    "pipe": (*GOOD, entry("package/pipe", type=tarfile.FIFOTYPE)),
    "unknown kind": (*GOOD, entry("package/odd", type=b"Z")),
    "twice": (*GOOD, entry(*PROGRAM)),
    "twice but for case": (*GOOD, entry("package/BIN/good", b"x")),
    "file and directory": (*GOOD, entry("package/bin", b"x")),
    "directory and file": (entry("package/bin", b"x"), *GOOD),
    "no program": (entry(*MANIFEST),),
    "all elsewhere": (entry("other/bin/good", b"x"), entry("/package/bin/good", b"x")),
    "huge header": (*GOOD, HUGE_NAME),
}


@pytest.mark.parametrize("how", BAD)
async def test_a_tarball_with_what_none_should_hold_leaves_nothing(tmp_path: Path, how: str) -> None:
    """Even with the right digest: nothing leaves the target, no link or device is made, and nothing can be selected."""
    tarball = make_tarball(tmp_path / "tarballs", BAD[how])
    tools, spec = toolchains(tmp_path / "app", {}, tarballs=tmp_path / "tarballs"), spec_for(tarball)
    with pytest.raises(ToolchainInstallError):
        await tools.install("good", spec)
    assert list((tmp_path / "app/toolchains/good").iterdir()) == []
    assert not list(tmp_path.rglob("escaped"))
    with pytest.raises(ToolchainMissingError):
        tools.require("good", spec)


def altered(data: bytes, at: int, field: bytes) -> bytes:
    """Return a tar with one field of its first header replaced, and the checksum put right."""
    header = bytearray(data[:512])
    header[at : at + len(field)] = field
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + data[512:]


RAW: dict[str, Callable[[bytes], bytes]] = {
    "not compressed": lambda tar: tar,
    "cut short": lambda tar: gzip.compress(tar)[:-40],
    "other bytes": lambda _tar: b"<html>blocked by the proxy</html>",
    "nothing": lambda _tar: b"",
    "damaged header": lambda tar: gzip.compress(b"x" * 512 + tar[512:]),
    "negative size": lambda tar: gzip.compress(altered(tar, 124, b"\xff" * 12)),
    "negative size of a header": lambda tar: gzip.compress(altered(altered(tar, 156, b"L"), 124, b"\xff" * 12)),
    "size beyond all": lambda tar: gzip.compress(altered(tar, 124, b"\x80" + b"\0" * 3 + b"\x7f" * 8)),
    "more than is there": lambda tar: gzip.compress(altered(tar, 124, b"00000100000\0")),
    "file with holes": lambda tar: gzip.compress(altered(tar, 156, b"S")),
}


@pytest.mark.parametrize("how", RAW)
async def test_a_tarball_that_cannot_be_read_is_told_by_type(tmp_path: Path, how: str) -> None:
    """Whatever is wrong with its bytes."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for info, data in GOOD[1:]:
            archive.addfile(info, io.BytesIO(data))
    (tmp_path / "tarballs").mkdir()
    tarball = tmp_path / "tarballs/good-agent-linux-1.2.3.tgz"
    tarball.write_bytes(RAW[how](plain.getvalue()))
    with pytest.raises(ToolchainInstallError):
        await toolchains(tmp_path / "app", {}, tarballs=tmp_path / "tarballs").install("good", spec_for(tarball))
    assert tree(tmp_path / "app") == {}


@pytest.mark.parametrize("name", ["package/zeros", "elsewhere/zeros"])
def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """By the size that its header declares, also of what is only read to come to the rest."""
    monkeypatch.setattr("jamcore.sandbox.archives.TOOLCHAIN_BYTES", 1000)
    tarball = make_tarball(tmp_path / "tarballs", (*GOOD, entry(name, bytes(1 << 20))))
    (tmp_path / "tree").mkdir()
    with pytest.raises(BadArchiveError, match="more than a program should"):
        unpack_tarball(tarball, spec_for(tarball), tmp_path / "tree", files=Files())
    assert not list(tmp_path.rglob("zeros"))


def test_a_bomb_of_names_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Directories count too."""
    monkeypatch.setattr("jamcore.sandbox.archives.TOOLCHAIN_FILES", 10)
    members = (*GOOD, *(entry(f"package/{number}", type=tarfile.DIRTYPE) for number in range(10)))
    tarball = make_tarball(tmp_path / "tarballs", members)
    (tmp_path / "tree").mkdir()
    with pytest.raises(BadArchiveError, match="more than a program should"):
        unpack_tarball(tarball, spec_for(tarball), tmp_path / "tree", files=Files())


def test_a_bomb_of_headers_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no member and is read all the same has an end too."""
    monkeypatch.setattr("jamcore.sandbox.tarballs._SLACK_BYTES", 0)
    monkeypatch.setattr("jamcore.sandbox.tarballs.TOOLCHAIN_BYTES", 4096)
    members = (entry("package/" + "n" * 200, b"x", pax_headers={"comment": "c" * 9000}), *GOOD)
    tarball = make_tarball(tmp_path / "tarballs", members)
    (tmp_path / "tree").mkdir()
    with pytest.raises(BadArchiveError, match="more than a program should"):
        unpack_tarball(tarball, spec_for(tarball), tmp_path / "tree", files=Files())


@pytest.mark.parametrize("at", range(1, 20, 3))
async def test_an_interrupted_installation_selects_nothing(tmp_path: Path, at: int) -> None:
    """Killed at a durable effect: it is whole, or not selected, and the next attempt works."""
    tarball = make_tarball(tmp_path / "tarballs")
    spec, app = spec_for(tarball), tmp_path / "app"
    try:
        await toolchains(app, {}, tarballs=tmp_path / "tarballs", files=Failing(at)).install("good", spec)
        cut = False
    except Killed:
        cut = True
    fresh = toolchains(app, {}, tarballs=tmp_path / "tarballs")
    if cut:
        await fresh.install("good", spec)
    fresh.require("good", spec)
    assert len(tree(app)) == 4
    assert [path.name for path in (app / "toolchains/good").iterdir()] == ["1.2.3"]


# ----------------------------------------------------------------------------------------------------------- real client


@pytest.mark.needs("npm")
async def test_the_real_client_runs_no_script_and_says_how_far_it_is(tmp_path: Path) -> None:
    """From a registry on the loopback, as a person's configuration names it: the bytes are the registry's, and rise as they come."""
    ran, held = tmp_path / "ran", anyio.Event()
    scripts = ", ".join(f'"{name}": "touch {ran}"' for name in ("preinstall", "install", "postinstall", "prepack", "prepare"))
    manifest = f'{{"name": "@good/agent-linux", "version": "1.2.3", "scripts": {{{scripts}}}}}'.encode()
    noise = entry("package/noise", os.urandom(3 << 20))
    tarball = make_tarball(tmp_path / "registry", (entry(*PROGRAM), entry("package/package.json", manifest), noise))
    data = tarball.read_bytes()

    async def about(request: web.Request) -> web.Response:
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
        dist = {"tarball": f"http://{request.host}/{tarball.name}", "integrity": integrity}
        version = {"name": "@good/agent-linux", "version": "1.2.3", "dist": dist}
        return web.json_response({"name": "@good/agent-linux", "dist-tags": {"latest": "1.2.3"}, "versions": {"1.2.3": version}})

    async def file(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(len(data))})
        await response.prepare(request)
        await response.write(data[: len(data) // 2])
        await held.wait()
        await response.write(data[len(data) // 2 :])
        return response

    app = web.Application()
    app.router.add_get(f"/{tarball.name}", file)
    app.router.add_get("/{name:.*}", about)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    (tmp_path / "npmrc").write_text(f"registry={site.name}/\nignore-scripts=false\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "NPM_CONFIG_USERCONFIG": str(tmp_path / "npmrc")}
    tools = toolchains(tmp_path / "app", environment)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tools.install, "good", spec_for(tarball))
            with anyio.fail_after(60):
                while (seen := tools.progress_of("good")).bytes < len(data) // 4:  # noqa: ASYNC110 - npm's files
                    await anyio.sleep(0.02)
            held.set()
    finally:
        await runner.cleanup()
    assert seen.step == "downloading"
    assert tools.require("good", spec_for(tarball)).version == "1.2.3"
    assert not ran.exists()
    assert not (tmp_path / ".npm").exists()  # no cache, no logs of it at home


@pytest.mark.needs("npm")
async def test_the_real_client_without_network(tmp_path: Path) -> None:
    """A registry that refuses connections."""
    spec = spec_for(make_tarball(tmp_path / "registry"))
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "npm_config_registry": "http://127.0.0.1:1"}
    tools = toolchains(tmp_path / "app", environment | {"npm_config_fetch_retries": "0"})
    with pytest.raises(ToolchainUnreachableError):
        await tools.install("good", spec)
