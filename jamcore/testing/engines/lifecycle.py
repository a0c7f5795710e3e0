"""The life of a sandbox: made, parked, brought back, removed; and what is left when something goes wrong in between."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from jamcore.domain.errors import JamError
from jamcore.domain.sandboxes import (
    Access,
    EngineFailedError,
    HostMount,
    InventoryItem,
    Presence,
    SandboxGoneError,
    SandboxSpec,
)
from jamcore.engines.port import Engine
from jamcore.testing.engines.base import EngineTests
from jamcore.testing.engines.box import Box, eventually, opened

COUNT_FOR_EVER = "i=0; while :; do i=$((i+1)); echo $i > /jam/work/count; done"


class LifecycleTests(EngineTests):
    """Create, start, stop, remove, presence and inventory."""

    @pytest.mark.guarantee("CAP-1")
    async def test_a_probe_is_an_answer(self, engine: Engine) -> None:
        """Where the suite runs the engine is usable, and says what it looked at."""
        health = await engine.probe()
        assert health.usable, health.findings
        assert health.engine == engine.name == self.plugin.name
        assert engine.abilities == self.plugin.abilities
        assert engine.isolation == self.plugin.isolation
        assert all(finding.ok or finding.hint for finding in health.findings)

    async def test_presence_and_inventory_follow_the_life(self, engine: Engine, spec: SandboxSpec, tmp_path: Path) -> None:
        """Absent, running, stopped, running, absent; the inventory says the same."""
        assert await engine.presence(spec.name) is Presence.ABSENT
        assert await engine.inventory() == ()
        await engine.create(spec)
        assert await engine.presence(spec.name) is Presence.RUNNING
        other = self.make_spec(tmp_path, "jam-a-second")
        await engine.create(other)
        await engine.stop(spec.name)
        assert await engine.inventory() == (
            InventoryItem(other.name, Presence.RUNNING),
            InventoryItem(spec.name, Presence.STOPPED),
        )
        await engine.start(spec.name)
        assert await engine.presence(spec.name) is Presence.RUNNING
        for name in (spec.name, other.name):
            await engine.remove(name)
            assert await engine.presence(name) is Presence.ABSENT
        assert await engine.inventory() == ()

    async def test_a_name_exists_once(self, box: Box) -> None:
        """A second creation is refused and changes nothing, running or stopped."""
        for stopped in (False, True):
            if stopped:
                await box.engine.stop(box.name)
            with pytest.raises(EngineFailedError):
                await box.engine.create(box.spec)
        await box.engine.start(box.name)
        assert (await box.run("echo", "same")).text == "same"

    async def test_the_disk_stays_and_everything_else_goes(self, box: Box) -> None:
        """After a stop and a start home and mounts are as they were; /tmp, shared memory and processes are not."""
        ran = await box.run(
            "sh", "-c", "echo kept > ~/file; echo kept > /jam/work/file; echo gone > /tmp/file; echo gone > /dev/shm/file"
        )
        assert ran.status.ok, ran.err
        await box.start("sleep", "602")
        await box.engine.stop(box.name)
        await box.engine.start(box.name)
        ran = await box.run("sh", "-c", "cat ~/file /jam/work/file; ls /tmp /dev/shm | grep -c file")
        assert ran.text.split() == ["kept", "kept", "0"]
        assert await box.pids_of("sleep\x00602") == ()

    async def test_when_stop_returns_nothing_runs(self, box: Box) -> None:
        """A guest that writes all the time writes no more: park is a fact when it is answered."""
        await box.start("sh", "-c", COUNT_FOR_EVER)
        count = box.work / "count"
        await eventually(count.exists)
        await box.engine.stop(box.name)
        before = count.stat().st_mtime_ns, count.read_bytes()
        await anyio.sleep(0.05)
        assert (count.stat().st_mtime_ns, count.read_bytes()) == before
        await box.engine.stop(box.name)

    async def test_stops_at_the_same_time_are_one(self, box: Box) -> None:
        """Three stops and a presence at once: all come back, and the sandbox is stopped."""
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(box.engine.stop, box.name)
            tasks.start_soon(box.engine.presence, box.name)
        assert await box.engine.presence(box.name) is Presence.STOPPED

    async def test_starting_what_runs_changes_nothing(self, box: Box) -> None:
        """Its processes go on."""
        async with box.started("sleep", "603"):
            await box.engine.start(box.name)
            assert len(await box.pids_of("sleep\x00603")) == 1

    async def test_what_does_not_exist_is_gone_and_removal_is_idempotent(self, engine: Engine, box: Box) -> None:
        """Starting or using an unknown sandbox is a typed fault; removing or stopping it is nothing."""
        with pytest.raises(SandboxGoneError):
            await engine.start("jam-unknown")
        await engine.stop("jam-unknown")
        await engine.remove("jam-unknown")
        await engine.remove(box.name)
        await engine.remove(box.name)
        with pytest.raises(SandboxGoneError):
            await box.start("true")

    async def test_removal_leaves_the_disk_to_its_owner(self, box: Box) -> None:
        """The core owns disk and mounts; an engine forgets, it does not delete."""
        await box.run("sh", "-c", "echo mine > ~/file; echo mine > /jam/work/file")
        await box.engine.remove(box.name)
        assert (box.work / "file").read_text() == "mine\n"
        assert [path.name for path in Path(box.spec.guest_disk).rglob("file")] == ["file"]

    async def test_a_new_daemon_finds_what_the_last_one_made(self, spec: SandboxSpec, tmp_path: Path) -> None:
        """Closed and opened again over the same root: stopped, never absent; and it starts with its disk."""
        async with opened(self.plugin, tmp_path) as engine:
            await engine.create(spec)
            assert (await self.box_of(engine, spec).run("sh", "-c", "echo kept > ~/file")).status.ok
        async with opened(self.plugin, tmp_path) as engine:
            assert await engine.presence(spec.name) is Presence.STOPPED
            await engine.start(spec.name)
            assert (await self.box_of(engine, spec).run("sh", "-c", "cat ~/file")).text == "kept"

    @pytest.mark.guarantee("PLAN-4")
    async def test_mounts_are_where_and_what_the_plan_says(self, engine: Engine, spec: SandboxSpec, tmp_path: Path) -> None:
        """Read-only is read-only, read-write is shared with the host, and host names with any byte work."""
        odd = tmp_path / "a b\nc \u00e9 'x' \udcff"
        odd.mkdir()
        (odd / "note").write_text("read me")
        mounts = (*spec.mounts, HostMount(host_path=str(odd), guest_path="/jam/state/odd", access=Access.READ_ONLY))
        if not _is_text(odd):
            mounts = (
                *spec.mounts,
                HostMount(
                    host_path=str(odd.rename(tmp_path / "a b\nc \u00e9")), guest_path="/jam/state/odd", access=Access.READ_ONLY
                ),
            )
        await engine.create(spec.model_copy(update={"mounts": mounts}))
        box = self.box_of(engine, spec)
        script = "cat /jam/state/odd/note; echo x 2>/dev/null > /jam/state/odd/new || echo refused; echo hi > /jam/work/new"
        assert (await box.run("sh", "-c", script)).text == "read merefused"
        assert (box.work / "new").read_text() == "hi\n"

    async def test_a_creation_that_fails_leaves_nothing(self, engine: Engine, spec: SandboxSpec, tmp_path: Path) -> None:
        """A mount whose directory is not there: a typed error, no sandbox, and the name is free."""
        bad = HostMount(host_path=str(tmp_path / "not-there"), guest_path="/jam/state/x", access=Access.READ_WRITE)
        with pytest.raises(JamError):
            await engine.create(spec.model_copy(update={"mounts": (*spec.mounts, bad)}))
        assert await engine.presence(spec.name) is Presence.ABSENT
        assert await engine.inventory() == ()
        await engine.create(spec)
        assert (await self.box_of(engine, spec).run("echo", "up")).text == "up"

    @pytest.mark.parametrize("delay_ms", [0, 2, 5, 10, 15, 20, 30, 45])
    async def test_a_cancelled_creation_leaves_nothing(self, engine: Engine, spec: SandboxSpec, delay_ms: int) -> None:
        """Whenever it is cancelled, the sandbox is wholly there or wholly absent, and the name can be used."""
        with anyio.move_on_after(delay_ms / 1000) as scope:
            await engine.create(spec)
        assert await engine.presence(spec.name) is (Presence.ABSENT if scope.cancelled_caught else Presence.RUNNING)
        if scope.cancelled_caught:
            await engine.create(spec)
        assert (await self.box_of(engine, spec).run("echo", "up")).text == "up"

    @pytest.mark.parametrize("delay_ms", [0, 1, 2, 4, 8])
    async def test_a_cancelled_exec_leaves_no_process(self, box: Box, delay_ms: int) -> None:
        """Whoever stops waiting for a program to start does not leave it running."""
        with anyio.move_on_after(delay_ms / 1000) as scope:
            process = await box.start("sleep", "604")
        if not scope.cancelled_caught:
            await process.aclose()
        assert await box.pids_of("sleep\x00604") == ()


def _is_text(path: Path) -> bool:
    """Whether the name can be written in a specification, which is JSON."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True
