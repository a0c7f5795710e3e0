"""Guests that attack their own sandbox's helpers: they harm themselves, and the host's view stays true."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from jamcore.domain.sandboxes import Resources, SandboxSpec
from jamcore.engines.bubblewrap import BubblewrapEnginePlugin
from jamcore.engines.bubblewrap.machine import look
from jamcore.engines.port import Freezes, Reaches
from jamcore.system.files import Files
from jamcore.testing.engines.box import Box, Python, opened

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.needs("bubblewrap"),
    pytest.mark.unprivileged,
    pytest.mark.guarantee("SEC-5"),
]

_MACHINE = look()
PORT = 8790
ALL = "import os, sys; os.kill(-1, int(sys.argv[1])); os.write(1, b'done'); os.read(0, 1)"
CALL = f"import socket; s = socket.create_connection(('127.0.0.1', {PORT}), 5); s.sendall(b'hi'); print(s.recv(10))"


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Box]:
    disk = Files().make_private(tmp_path / "disk")
    spec = SandboxSpec(name="jam-hostile", guest_disk=str(disk), reach_ports=(PORT,), resources=Resources(processes=120))
    python = Python(
        argv=(_MACHINE.python if _MACHINE else "python3",),
        environment=(("LD_LIBRARY_PATH", _MACHINE.library_path),) if _MACHINE and _MACHINE.library_path else (),
    )
    async with opened(BubblewrapEnginePlugin, tmp_path) as engine:
        await engine.create(spec)
        yield Box(engine=engine, spec=spec, work=tmp_path, python=python)


async def test_stopped_helpers_go_on(box: Box) -> None:
    """A guest that stops everybody: the next program starts, and its own tree can be ended."""
    async with box.script(ALL, "19") as process:
        assert await process.stdout.receive() == b"done"
        with anyio.fail_after(20):
            assert (await box.run("echo", "on")).text == "on"
            await process.kill_tree()
            assert (await process.wait()).signal == 9


async def test_killed_helpers_come_back(box: Box) -> None:
    """A guest that kills everybody is killed with the helper that it killed; programs and connections work again."""
    engine = box.engine
    assert isinstance(engine, Reaches)
    engine.on_connection(box.name, PORT, greet)
    assert (await box.code(CALL)).text == "b'hello'"
    async with box.script(ALL, "9") as process:
        with anyio.fail_after(20):
            assert (await process.wait()).signal == 9
    with anyio.fail_after(20):
        assert (await box.run("echo", "on")).text == "on"
        while (await box.code(CALL)).text != "b'hello'":  # the forwarder starts again
            pass


async def test_a_freeze_holds_while_programs_start_and_fork(box: Box) -> None:
    """``vfork`` cannot stop half-way; a freeze waits for it and no longer, again and again."""
    assert isinstance(box.engine, Freezes)
    busy = "while :; do /usr/bin/true; done"
    async with (
        box.started("sh", "-c", busy),
        box.script("import os\nwhile True: os.waitpid(os.posix_spawn('/usr/bin/true', ['true'], {}), 0)"),
    ):
        for _ in range(30):
            with anyio.fail_after(5):
                async with box.engine.frozen(box.name) as report:
                    assert report.processes >= 2
                assert (await box.run("echo", "on")).text == "on"


async def test_no_process_is_left_for_a_program(box: Box) -> None:
    """At the bound a program is refused with the reason, and starts when there is room again."""
    grow = "try:\n  while True:\n    if os.fork() == 0: time.sleep(600)\nexcept OSError: os.write(1, b'full')"
    code = f"import os, time\n{grow}\ntime.sleep(600)"
    async with box.script(code) as process:
        assert await process.stdout.receive() == b"full"
        with anyio.fail_after(20):
            await process.kill_tree()
    assert (await box.run("echo", "on")).text == "on"


def greet(end: socket.socket) -> None:
    with end:
        end.send(b"hello")
