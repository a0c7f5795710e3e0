"""The battery of escapes: each attempt works on the host, and is refused inside or not claimed by name (ENG-5)."""

from __future__ import annotations

import os
import socket
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import pytest

from jamcore.domain.sandboxes import Isolation
from jamcore.system.files import Files
from jamcore.system.process import run_bounded, spawned
from jamcore.testing.engines.base import EngineTests
from jamcore.testing.engines.box import Box
from jamcore.testing.engines.checks import NOT_CLAIMED, Topic, check
from jamcore.testing.engines.escapes import ATTEMPTS, BLIND, Attempt

CONTROL_LIMIT_S = 20.0


@dataclass(frozen=True, slots=True)
class Host:
    """What there is to find on the host."""

    place: Path
    port: int
    abstract: str

    def arguments(self, own: str) -> tuple[str, ...]:
        """What every attempt is given; ``own`` is a path where it may write."""
        return (str(self.place), str(self.port), self.abstract, own)


class EscapeTests(EngineTests):
    """Attempts to get out. ``unclaimed`` maps an attempt's name to the reason, as the engine's documentation gives it."""

    unclaimed: ClassVar[Mapping[str, str]] = MappingProxyType({})

    @pytest.fixture
    def host(self, tmp_path: Path) -> Iterator[Host]:
        """A secret, a TCP port and two sockets, all open to everybody on the host."""
        place = Files().make_private(tmp_path / "h")
        (place / "secret").write_text("secret-words")
        abstract = f"jam-{uuid.uuid4().hex[:12]}"
        with ExitStack() as stack:
            tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            for address in (str(place / "s"), f"\0{abstract}"):
                listener = stack.enter_context(socket.socket(socket.AF_UNIX))
                listener.bind(address)
                listener.listen()
            yield Host(place, tcp.getsockname()[1], abstract)

    @check(
        Topic.ESCAPES,
        "A boundary that nobody pushed against is a boundary on paper; one that a missing program holds is none.",
        isolation=Isolation.NAMESPACE,
    )
    @pytest.mark.guarantee("SEC-1", "SEC-4")
    @pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.name)
    async def test_what_works_unconfined_is_refused_inside(self, attempt: Attempt, box: Box, host: Host, tmp_path: Path) -> None:
        """The same program: on the host it escapes, in the sandbox it does not."""
        if reason := self.unclaimed.get(attempt.name):
            pytest.skip(f"{NOT_CLAIMED}{self.plugin.name} does not refuse {attempt.name}: {reason}")
        # By a name of this test's alone: what another run on the machine marks may be traced by that one already.
        marked = (sys.executable, "-c", "import time; time.sleep(600)", host.abstract)
        async with spawned(marked, env={"PATH": "/usr/bin:/bin", "MARK_OF_THE_HOST": "1"}):
            control = await _unconfined(attempt, host.arguments(str(tmp_path / "own")))
            inside = await box.code(attempt.code, *host.arguments(f"{box.guest_work}/own"))
        possible = attempt.name not in BLIND and (os.geteuid() == 0 or not attempt.root)
        if possible:
            assert "ESCAPED" in control, control
        assert inside.text.startswith("refused:"), (inside.text, inside.err)
        assert not (host.place / "written").exists() or "write-outside" in attempt.name


async def _unconfined(attempt: Attempt, arguments: tuple[str, ...]) -> str:
    """Run the attempt on the host, where it has to work: a typing error would read as a refusal."""
    argv = (sys.executable, "-I", "-S", "-c", attempt.code, *arguments)
    done = await run_bounded(argv, cwd="/", env={"PATH": "/usr/bin:/bin"}, limit_bytes=10_000, timeout_s=CONTROL_LIMIT_S)
    return (done.stdout + done.stderr).decode()
