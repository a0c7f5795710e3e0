"""The life of a sandbox: made, parked, brought back, removed; and what is left when something goes wrong in between."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from jamcore.domain.cells import Ability
from jamcore.domain.errors import JamError
from jamcore.domain.sandboxes import (
    Access,
    EngineFailedError,
    HostMount,
    InventoryItem,
    Isolation,
    Presence,
    SandboxGoneError,
    SandboxSpec,
)
from jamcore.engines.port import Engine
from jamcore.testing.engines.base import EngineTests
from jamcore.testing.engines.box import Box, eventually, opened
from jamcore.testing.engines.checks import Topic, check


def count_for_ever(box: Box) -> str:
    """Return shell code that writes a number to the mount all the time."""
    return f"i=0; while :; do i=$((i+1)); echo $i > {box.guest_work}/count; done"


class LifecycleTests(EngineTests):
    """Create, start, stop, remove, presence and inventory."""

    @pytest.mark.guarantee("CAP-1")
    @check(Topic.LIFE, "A probe that raises for a missing program is a daemon that does not start.")
    async def test_a_probe_is_an_answer(self, engine: Engine) -> None:
        """Where the suite runs the engine is usable, and says what it looked at."""
        health = await engine.probe()
        assert health.usable, health.findings
        assert health.engine == engine.name == self.plugin.name
        assert engine.abilities == self.plugin.abilities
        assert engine.isolation == self.plugin.isolation
        assert all(finding.ok or finding.hint for finding in health.findings)

    @check(Topic.LIFE, "Everything that is cleaned up or brought back is decided on these answers.")
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

    @check(Topic.CREATION, "'Already exists' taken for success is two sessions in one sandbox.")
    async def test_a_name_exists_once(self, box: Box) -> None:
        """A second creation is refused and changes nothing, running or stopped."""
        for stopped in (False, True):
            if stopped:
                await box.engine.stop(box.name)
            with pytest.raises(EngineFailedError):
                await box.engine.create(box.spec)
        await box.engine.start(box.name)
        assert (await box.run("echo", "same")).text == "same"

    @check(Topic.DISK, "Second and later stops were seen to lose files, and a start to make a blank sandbox on an old workspace.")
    async def test_the_disk_stays_and_everything_else_goes(self, box: Box) -> None:
        """Home and mounts are whole after every stop and start, with what was written right before it; programs are gone."""
        mark, script = box.mark("gone"), f"echo $0 >> ~/file; echo $0 >> {box.guest_work}/file"
        for turn in range(3):
            assert (await box.run("sh", "-c", script, str(turn))).status.ok
            await box.start(*box.sleep_argv(mark), environment=box.python.environment)
            await box.engine.stop(box.name)
            await box.engine.start(box.name)
            assert await box.pids_of(mark) == ()
        assert (await box.run("sh", "-c", f"cat ~/file {box.guest_work}/file")).text.split() == ["0", "1", "2"] * 2

    @check(
        Topic.DISK,
        "What survives a stop outside home and mounts is in no checkpoint, and is there or not by chance.",
        isolation=Isolation.NAMESPACE,
    )
    async def test_temporary_places_are_empty_after_a_start(self, box: Box) -> None:
        """``/tmp`` and shared memory are the sandbox's own and do not outlive it."""
        assert (await box.run("sh", "-c", "echo gone > /tmp/file; echo gone > /dev/shm/file")).status.ok
        await box.engine.stop(box.name)
        await box.engine.start(box.name)
        assert (await box.run("sh", "-c", "ls /tmp /dev/shm | grep -c file")).text == "0"

    @check(Topic.LIFE, "A park that is answered before it is a fact lets a guest write into its own checkpoint.")
    async def test_when_stop_returns_nothing_runs(self, box: Box) -> None:
        """A guest that writes all the time writes no more: park is a fact when it is answered."""
        await box.start("sh", "-c", count_for_ever(box))
        count = box.work / "count"
        await eventually(count.exists)
        await box.engine.stop(box.name)
        before = count.stat().st_mtime_ns, count.read_bytes()
        await anyio.sleep(0.05)
        assert (count.stat().st_mtime_ns, count.read_bytes()) == before
        await box.engine.stop(box.name)

    @check(Topic.LIFE, "A reaper, a person and a shutdown stop the same sandbox; none may fail for the others.")
    async def test_stops_at_the_same_time_are_one(self, box: Box) -> None:
        """Three stops and a presence at once: all come back, and the sandbox is stopped."""
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(box.engine.stop, box.name)
            tasks.start_soon(box.engine.presence, box.name)
        assert await box.engine.presence(box.name) is Presence.STOPPED

    @check(Topic.LIFE, "A wake was seen to run a second supervisor over one database.")
    async def test_starting_what_runs_changes_nothing(self, box: Box) -> None:
        """Its processes go on."""
        async with box.sleeper("runs") as mark:
            await box.engine.start(box.name)
            assert len(await box.pids_of(mark)) == 1

    @check(Topic.LIFE, "Clean-up is repeated after a crash; an error for what is gone already blocks it for ever.")
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

    @check(Topic.DISK, "A removal that deletes a workspace deletes the only copy of somebody's work.")
    async def test_removal_leaves_mounts_as_they_are(self, box: Box) -> None:
        """Whoever mounted a directory owns it."""
        await box.run("sh", "-c", f"echo mine > {box.guest_work}/file")
        await box.engine.remove(box.name)
        assert (box.work / "file").read_text() == "mine\n"

    @check(Topic.DISK, "A removal is let through without a look at the clone: what it takes is gone.", Ability.KEEPS_DISK)
    async def test_removal_leaves_the_disk_to_its_owner(self, box: Box) -> None:
        """The core owns the guest's disk; an engine forgets, it does not delete."""
        await box.run("sh", "-c", "echo mine > ~/file")
        await box.engine.remove(box.name)
        assert [path.name for path in Path(box.spec.guest_disk).rglob("file")] == ["file"]

    @check(Topic.LIFE, "A daemon that forgets a stopped sandbox makes a new one over its workspace.")
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
    @check(
        Topic.MOUNTS,
        "A read-only reference that can be written is a person's directory changed by an agent.",
        isolation=Isolation.NAMESPACE,
    )
    async def test_mounts_are_where_and_what_the_plan_says(self, engine: Engine, spec: SandboxSpec, tmp_path: Path) -> None:
        """Read-only is read-only, and host names with any byte are shown where the plan says."""
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
        script = "cat /jam/state/odd/note; echo x 2>/dev/null > /jam/state/odd/new || echo refused"
        assert (await box.run("sh", "-c", script)).text == "read merefused"

    @check(Topic.MOUNTS, "A workspace that is a copy is work that the host never sees.")
    @pytest.mark.guarantee("PLAN-4")
    async def test_a_mount_is_the_hosts_own_directory(self, box: Box) -> None:
        """What a guest writes in its mount the host reads at once, and the other way round."""
        (box.work / "from-host").write_text("hello\n")
        ran = await box.run("sh", "-c", "cat from-host; echo hi > from-guest", cwd=box.guest_work)
        assert ran.text == "hello"
        assert (box.work / "from-guest").read_text() == "hi\n"

    @check(Topic.CREATION, "A sandbox that was made and could not start is left by engines whose id is read on success only.")
    async def test_a_creation_that_fails_leaves_nothing(self, engine: Engine, spec: SandboxSpec, tmp_path: Path) -> None:
        """A mount whose directory is not there: a typed error, no sandbox, and the name is free."""
        missing = tmp_path / "not-there"
        bad = HostMount(host_path=str(missing), guest_path=self.guest_place(missing, "/jam/state/x"), access=Access.READ_WRITE)
        with pytest.raises(JamError):
            await engine.create(spec.model_copy(update={"mounts": (*spec.mounts, bad)}))
        assert await engine.presence(spec.name) is Presence.ABSENT
        assert await engine.inventory() == ()
        await engine.create(spec)
        assert (await self.box_of(engine, spec).run("echo", "up")).text == "up"

    @pytest.mark.parametrize("delay_ms", [0, 2, 5, 10, 15, 20, 30, 45])
    @check(Topic.CREATION, "Ctrl-C during a start leaves half a sandbox that holds the name.")
    async def test_a_cancelled_creation_leaves_nothing(self, engine: Engine, spec: SandboxSpec, delay_ms: int) -> None:
        """Whenever it is cancelled, the sandbox is wholly there or wholly absent, and the name can be used."""
        with anyio.move_on_after(delay_ms / 1000) as scope:
            await engine.create(spec)
        assert await engine.presence(spec.name) is (Presence.ABSENT if scope.cancelled_caught else Presence.RUNNING)
        if scope.cancelled_caught:
            await engine.create(spec)
        assert (await self.box_of(engine, spec).run("echo", "up")).text == "up"

    @pytest.mark.parametrize("delay_ms", [0, 1, 2, 4, 8])
    @check(Topic.TREES, "A caller that stops waiting leaves a program that nobody owns.")
    async def test_a_cancelled_exec_leaves_no_process(self, box: Box, delay_ms: int) -> None:
        """Whoever stops waiting for a program to start does not leave it running."""
        mark = box.mark("cancelled")
        with anyio.fail_after(15), anyio.move_on_after(delay_ms / 1000) as scope:
            process = await box.start(*box.sleep_argv(mark), environment=box.python.environment)
        if not scope.cancelled_caught:
            await process.aclose()
        assert await box.pids_of(mark) == ()

    @check(
        Topic.CREATION,
        "A removal 21 ms after an install found nothing to remove; then the install finished, and nobody knew of it.",
    )
    @pytest.mark.parametrize("delay_ms", [0, 5, 20])
    async def test_a_removal_during_a_creation_leaves_no_half(self, engine: Engine, spec: SandboxSpec, delay_ms: int) -> None:
        """Removing what is being created ends with the sandbox absent or whole, and the inventory says which."""

        async def create() -> None:
            with suppress(JamError):
                await engine.create(spec)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(create)
            await anyio.sleep(delay_ms / 1000)
            await engine.remove(spec.name)
        presence = await engine.presence(spec.name)
        listed = [item.name for item in await engine.inventory()]
        assert listed == ([] if presence is Presence.ABSENT else [spec.name])
        if presence is not Presence.ABSENT:
            assert (await self.box_of(engine, spec).run("echo", "whole")).text == "whole"
        await engine.remove(spec.name)
        assert await engine.presence(spec.name) is Presence.ABSENT

    @check(Topic.LIFE, "Two daemons of two people were seen to share one sandbox because its name was the same.")
    async def test_two_roots_know_nothing_of_each_other(self, tmp_path: Path) -> None:
        """One name under two engine roots is two sandboxes: neither daemon sees, stops or removes the other's."""
        async with opened(self.plugin, tmp_path / "a") as one, opened(self.plugin, tmp_path / "b") as two:
            mine, theirs = self.make_spec(tmp_path / "a", "jam-same"), self.make_spec(tmp_path / "b", "jam-same")
            await one.create(mine)
            assert await two.presence("jam-same") is Presence.ABSENT
            await two.create(theirs)
            await two.remove("jam-same")
            assert await one.presence("jam-same") is Presence.RUNNING
            assert (await self.box_of(one, mine).run("echo", "mine")).text == "mine"


def _is_text(path: Path) -> bool:
    """Whether the name can be written in a specification, which is JSON."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True
