"""What only some engines can do; each part is skipped where it is not claimed."""

from __future__ import annotations

import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest

from jamcore.domain.cells import Ability
from jamcore.domain.sandboxes import EngineFailedError, ExecSpec, SandboxGoneError, SandboxSpec
from jamcore.engines.port import Engine, Freezes, HostView, Reaches
from jamcore.testing.engines.base import REACH_PORT, EngineTests
from jamcore.testing.engines.box import TEST_LIMIT_S, Box, eventually, finish, read_until
from jamcore.testing.engines.checks import Topic, check
from jamcore.testing.engines.lifecycle import count_for_ever

CALL = f"""
import socket, sys
size = int(sys.argv[1])
with socket.create_connection(("127.0.0.1", {REACH_PORT})) as call:
    import threading
    def send():
        for _ in range(size // 65536): call.sendall(bytes(65536))
        call.shutdown(socket.SHUT_WR)
    threading.Thread(target=send).start()
    got = 0
    while data := call.recv(65536): got += len(data)
print(got)
"""


class FreezeTests(EngineTests):
    """FREEZE."""

    @pytest.mark.guarantee("CONT-2")
    @check(
        Topic.FREEZE,
        "A checkpoint of files that change while they are read is a checkpoint of nothing that ever was.",
        Ability.FREEZE,
    )
    async def test_frozen_guests_write_nothing_and_go_on_after(self, box: Box) -> None:
        """While frozen no byte changes, also from processes that fork all the time; afterwards all go on."""
        assert isinstance(box.engine, Freezes)
        count, forks = box.work / "count", box.work / "forks"
        busy = f"({count_for_ever(box)}) & while :; do date +%N > {box.guest_work}/forks; done"
        async with box.started("sh", "-c", busy):
            await eventually(count.exists)
            await eventually(forks.exists)
            for _ in range(5):
                async with box.engine.frozen(box.name) as report:
                    assert report.processes >= 2
                    before = [(path.stat().st_mtime_ns, path.read_bytes()) for path in (count, forks)]
                    await anyio.sleep(0.03)
                    assert [(path.stat().st_mtime_ns, path.read_bytes()) for path in (count, forks)] == before
                for path, (moment, _) in zip((count, forks), before, strict=True):
                    await eventually(partial(_written_since, path, moment))

    @check(Topic.FREEZE, "A failed checkpoint must not leave an agent standing still for ever.", Ability.FREEZE)
    async def test_a_frozen_sandbox_thaws_after_an_error_and_after_cancellation(self, box: Box) -> None:
        """However the block ends, guests run again; a program that was asked for meanwhile starts then."""
        assert isinstance(box.engine, Freezes)
        with pytest.raises(KeyError):
            async with box.engine.frozen(box.name):
                raise KeyError
        with anyio.move_on_after(0.05):
            async with box.engine.frozen(box.name):
                await anyio.sleep(60)
        assert (await box.run("echo", "warm")).text == "warm"

    @pytest.mark.guarantee("CONT-5")
    @check(Topic.FREEZE, "A database is copied while its writers stand still: by a program that does not.", Ability.FREEZE)
    async def test_a_program_of_jams_own_runs_while_all_others_stand_still(self, box: Box) -> None:
        """One of ``while_frozen`` starts in a frozen sandbox, or goes on in it at SIGCONT; it reads, writes, and wakes nobody."""
        assert isinstance(box.engine, Freezes)
        count = box.work / "count"
        helper = ExecSpec(argv=("sh", "-c", "read word; echo $word"), cwd="/", while_frozen=True)
        async with box.started("sh", "-c", count_for_ever(box)):
            await eventually(count.exists)
            ready = await box.engine.exec(box.name, helper)
            async with box.engine.frozen(box.name):
                before = count.read_bytes()
                await ready.signal(signal.SIGCONT)
                with anyio.fail_after(TEST_LIMIT_S):
                    await ready.stdin.send(b"went on\n")
                    assert await read_until(ready, b"on\n") == b"went on\n"
                    begun = await box.engine.exec(box.name, helper)
                    await begun.stdin.send(b"began\n")
                    assert await read_until(begun, b"began\n") == b"began\n"
                assert count.read_bytes() == before
            for process in (ready, begun):
                assert (await finish(process)).status.ok
            await eventually(lambda: count.read_bytes() != before)

    @check(Topic.FREEZE, "A person who stopped a program did not ask for it to go on at the next checkpoint.", Ability.FREEZE)
    async def test_what_stood_still_before_stands_still_after(self, box: Box) -> None:
        """A thaw does not start what a person or a shell had stopped."""
        assert isinstance(box.engine, Freezes)
        work = box.guest_work
        async with box.started("sh", "-c", f"echo $$ > {work}/pid; kill -STOP $$; echo woke > {work}/woke"):
            await eventually(lambda: (box.work / "pid").exists() and (box.work / "pid").read_text().strip().isdigit())
            pid = (box.work / "pid").read_text().strip()
            stopped = ("sh", "-c", f"until grep -q '^State:.T' /proc/{pid}/status; do sleep 0.01; done")
            assert (await box.run(*stopped)).status.ok
            async with box.engine.frozen(box.name):
                pass
            await box.run("sleep", "0.05")
            assert not (box.work / "woke").exists()

    @check(Topic.FREEZE, "A stop that waits for a thaw is a daemon that cannot shut down.", Ability.FREEZE)
    async def test_a_frozen_sandbox_can_be_stopped(self, box: Box) -> None:
        """Stopping does not wait for a thaw, and a stopped sandbox cannot be frozen."""
        assert isinstance(box.engine, Freezes)
        with anyio.fail_after(20):
            async with box.engine.frozen(box.name):
                await box.engine.stop(box.name)
        with pytest.raises(SandboxGoneError):
            async with box.engine.frozen(box.name):
                pass


class ReachTests(EngineTests):
    """REACH."""

    @pytest.mark.guarantee("SEC-4")
    @check(Topic.REACH, "The model's answers pass here: a lost byte or a missing end is a broken turn.", Ability.REACH)
    async def test_connections_arrive_connected_and_half_close(self, engine: Engine, spec: SandboxSpec) -> None:
        """Ten connections at once, 8 MiB each way, with half-close; also after a stop and a start."""
        assert isinstance(engine, Reaches)
        async with _taken(engine, spec, lambda end: tasks.start_soon(_echo, end)), anyio.create_task_group() as tasks:
            await engine.create(spec)
            box = self.box_of(engine, spec)
            size = 8 << 20
            found: list[str] = []

            async def call() -> None:
                found.append((await box.code(CALL, str(size))).text)

            async with anyio.create_task_group() as calls:
                for _ in range(10):
                    calls.start_soon(call)
            assert found == [str(size)] * 10
            await engine.stop(spec.name)
            await engine.start(spec.name)
            assert (await box.code(CALL, "65536")).text == "65536"
            tasks.cancel_scope.cancel()

    @check(
        Topic.REACH,
        "A connection that hangs is a turn that hangs; one that ends is an error the provider can report.",
        Ability.REACH,
    )
    async def test_nobody_takes_the_port_and_the_guest_sees_an_end(self, box: Box) -> None:
        """Without a taker a connection ends at once; it never hangs."""
        with anyio.fail_after(20):
            ran = await box.code(f"import socket; print(socket.create_connection(('127.0.0.1', {REACH_PORT})).recv(1))")
        assert ran.text == "b''" or b"Connection" in ran.err

    @check(Topic.REACH, "Connections without bound are descriptors that a guest takes from the daemon.", Ability.REACH)
    async def test_more_connections_than_the_bound_wait(self, engine: Engine, spec: SandboxSpec) -> None:
        """The 65th waits in the guest until one ends, and the sandbox still runs programs."""
        assert isinstance(engine, Reaches)
        code = f"""
import socket, sys
calls = [socket.create_connection(("127.0.0.1", {REACH_PORT})) for _ in range(65)]
print("all", flush=True)
sys.stdin.read()
"""
        async with _taken(engine, spec) as ends:
            await engine.create(spec)
            box = self.box_of(engine, spec)
            async with box.script(code) as process:
                await read_until(process, b"all")
                await eventually(lambda: len(ends) == 64)
                assert (await box.run("echo", "on")).text == "on"
                assert len(ends) == 64
                ends.pop().close()
                await eventually(lambda: len(ends) == 64)


class HostViewTests(EngineTests):
    """HOST_VIEW."""

    @check(
        Topic.VIEW,
        "Jam reads checkpoints through these paths: one that leads out of a mount reads the host's files for a guest.",
        Ability.HOST_VIEW,
    )
    async def test_guest_files_are_found_on_the_host(self, box: Box, tmp_path: Path) -> None:
        """Home and mounts map to host paths; a link of the guest is never followed; other paths have none."""
        view = box.engine
        assert isinstance(view, HostView)
        (tmp_path / "secret").write_text("host")
        work = box.guest_work
        script = f"mkdir -p ~/a; echo in-home > ~/a/f; echo in-work > {work}/f; ln -s ../.. ~/up; ln -s / ~/top"
        ran = await box.run("sh", "-c", f"{script}; ln -s {tmp_path}/secret {work}/link")
        assert ran.status.ok, ran.err
        home = (await box.run("sh", "-c", "echo ~")).text
        assert view.host_path(box.name, f"{home}/a/f").read_text() == "in-home\n"
        assert view.host_path(box.name, f"{work}/f").read_text() == "in-work\n"
        assert view.host_path(box.name, work) == box.work
        for path in (
            "/etc/passwd",
            "/",
            "/tmp/x",  # noqa: S108 - the guest's
            f"{work}other",
            f"{home}/up/x",
            f"{home}/top/etc/passwd",
            f"{work}/link",
            f"{work}/../../etc/passwd",
        ):
            with pytest.raises(EngineFailedError):
                view.host_path(box.name, path)


@asynccontextmanager
async def _taken(
    engine: Reaches, spec: SandboxSpec, take: Callable[[socket.socket], object] = lambda _: None
) -> AsyncIterator[list[socket.socket]]:
    """Take the connections of the port. Whatever a check leaves is closed, and so is what arrives behind it."""
    ends: list[socket.socket] = []

    def accept(end: socket.socket) -> None:
        ends.append(end)
        take(end)

    engine.on_connection(spec.name, REACH_PORT, accept)
    try:
        yield ends
    finally:
        engine.on_connection(spec.name, REACH_PORT, socket.socket.close)
        for end in ends:
            end.close()


async def _echo(end: socket.socket) -> None:
    """Send back everything that comes, then the end."""
    end.setblocking(False)
    try:
        while True:
            await anyio.wait_readable(end)
            data = end.recv(1 << 16)
            if not data:
                break
            view = memoryview(data)
            while view:
                try:
                    view = view[end.send(view) :]
                except BlockingIOError:
                    await anyio.wait_writable(end)
        end.shutdown(socket.SHUT_WR)
    finally:
        end.close()


def _written_since(path: Path, moment_ns: int) -> bool:
    return path.stat().st_mtime_ns != moment_ns
