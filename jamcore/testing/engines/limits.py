"""Limits of a sandbox: what is held stops a hog that works without it; what is not held is refused, never attempted."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from jamcore.domain.cells import Ability
from jamcore.domain.resources import FIELDS, Limit, LimitNotHeldError
from jamcore.domain.sandboxes import Presence, Resources, SandboxSpec
from jamcore.engines.port import Engine, LimitsResources
from jamcore.testing.engines.base import EngineTests
from jamcore.testing.engines.box import TEST_LIMIT_S, Box
from jamcore.testing.engines.checks import NOT_CLAIMED, Topic, check

MANY, FEW = 160, 48
LARGE, SMALL = 400 << 20, 160 << 20
SHARE = 0.1
"""So little that also a busy machine gives an unlimited loop twice as much, which tells the two apart."""

COUNT_CHILDREN = """
import os, sys
n, back = 0, os.pipe()
try:
    while n < int(sys.argv[1]):
        if os.fork() == 0:
            os.close(back[1]); os.read(back[0], 1); os._exit(0)
        n += 1
except OSError: pass
print(n)
"""
"""How many children there can be at once, up to a number."""

TAKE_MEMORY = """
import sys
taken = []
while len(taken) < int(sys.argv[1]) >> 20:
    taken.append(bytearray(1 << 20))
print(len(taken) << 20)
"""

SPLIT_MEMORY = """
import os, sys
each, parts, back = int(sys.argv[1]) >> 3, [], os.pipe()
for _ in range(8):
    done, tell = os.pipe()
    if os.fork() == 0:
        os.close(back[1]); taken = bytearray(each); os.write(tell, b"x"); os.read(back[0], 1); os._exit(0)
    os.close(tell); parts.append(done)
print(sum(len(os.read(done, 1)) for done in parts))
"""
"""The same memory, an eighth in each of eight processes that all live at once; prints how many got theirs."""

USE_PROCESSOR = """
import time
begin, used = time.monotonic(), time.process_time()
while time.monotonic() - begin < 1.0: pass
print((time.process_time() - used) / (time.monotonic() - begin))
"""

FILL_DISK = """
import os, sys
with open(os.path.expanduser("~/fill"), "wb", buffering=0) as stream:
    for _ in range(int(sys.argv[1]) >> 20): stream.write(bytes(1 << 20))
os.unlink(os.path.expanduser("~/fill"))
print("filled")
"""


class ResourceTests(EngineTests):
    """RESOURCES."""

    async def limited(self, engine: Engine, spec: SandboxSpec, limit: Limit, value: float) -> Box:
        """Return a running sandbox with one limit; says "not claimed" with the engine's reason where it cannot be held here."""
        assert isinstance(engine, LimitsResources)
        found = {holding.limit: holding for holding in await engine.holdings()}[limit]
        if not found.held:
            pytest.skip(f"{NOT_CLAIMED}{self.plugin.name} does not hold {limit} here: {found.detail}")
        wanted = spec.model_copy(update={"resources": Resources.model_validate({FIELDS[limit]: value})})
        await engine.create(wanted)
        return self.box_of(engine, wanted)

    async def free(self, engine: Engine, tmp_path: Path) -> Box:
        """Return a running sandbox without limits: the control, in which the hog must work."""
        spec = self.make_spec(tmp_path, "jam-free")
        await engine.create(spec)
        return self.box_of(engine, spec)

    @check(Topic.RESOURCES, "A doctor that does not know what is limited lets people rely on what is not there.", Ability.RESOURCES)
    @pytest.mark.guarantee("PLAN-1")
    async def test_every_limit_has_an_answer(self, engine: Engine) -> None:
        """For each limit the engine says what holds it here, or what it tried and what a person can do."""
        assert isinstance(engine, LimitsResources)
        found = await engine.holdings()
        assert [holding.limit for holding in found] == list(Limit)
        assert all(holding.detail and (holding.held or holding.remedy) for holding in found)

    @check(Topic.RESOURCES, "A limit that is silently not applied is found out by the machine that went down.", Ability.RESOURCES)
    @pytest.mark.guarantee("CAP-4")
    async def test_what_is_not_held_is_refused_before_anything_is_made(self, engine: Engine, spec: SandboxSpec) -> None:
        """The refusal names the limit and the means; there is no sandbox, no file on its disk, and the name is free."""
        assert isinstance(engine, LimitsResources)
        values: dict[Limit, float] = dict.fromkeys(Limit, 1 << 30) | {Limit.CPUS: 1.0, Limit.PIDS: 100}
        for holding in await engine.holdings():
            if not holding.held:
                wanted = Resources.model_validate({FIELDS[holding.limit]: values[holding.limit]})
                with pytest.raises(LimitNotHeldError) as caught:
                    await engine.create(spec.model_copy(update={"resources": wanted}))
                assert (caught.value.limit, caught.value.tried) == (holding.limit, holding.detail)
        assert await engine.presence(spec.name) is Presence.ABSENT
        assert list(Path(spec.guest_disk).iterdir()) == []
        await engine.create(spec)

    @check(
        Topic.RESOURCES,
        "A fork bomb in one sandbox was seen to leave the host without a process for its own login.",
        Ability.RESOURCES,
    )
    @pytest.mark.guarantee("PLAN-1")
    async def test_a_fork_bomb_stops_at_the_limit_and_can_be_ended(self, engine: Engine, spec: SandboxSpec, tmp_path: Path) -> None:
        """The limit holds, a bomb ends with its tree, and the sandbox is usable after; also after a stop and a start."""
        box = await self.limited(engine, spec, Limit.PIDS, FEW)
        control = await self.free(engine, tmp_path)
        assert int((await control.code(COUNT_CHILDREN, str(MANY))).text) == MANY
        for _ in range(2):
            assert FEW // 4 < int((await box.code(COUNT_CHILDREN, str(MANY))).text) < FEW
            async with box.script("import os\nos.write(1, b'go')\nwhile True:\n  try: os.fork()\n  except OSError: pass") as bomb:
                assert await bomb.stdout.receive() == b"go"
                await anyio.sleep(0.2)
                with anyio.fail_after(TEST_LIMIT_S):
                    await bomb.kill_tree()
            assert (await box.run("echo", "on")).text == "on"
            await engine.stop(box.name)
            await engine.start(box.name)

    @check(Topic.RESOURCES, "One leaking build was seen to end the host's own database.", Ability.RESOURCES)
    @pytest.mark.guarantee("PLAN-1")
    @pytest.mark.parametrize("hog", [TAKE_MEMORY, SPLIT_MEMORY], ids=["one-process", "eight-processes"])
    async def test_a_memory_limit_is_of_the_whole_sandbox(
        self, engine: Engine, spec: SandboxSpec, tmp_path: Path, hog: str
    ) -> None:
        """What one process cannot have eight cannot have together, and the sandbox goes on."""
        box = await self.limited(engine, spec, Limit.MEMORY, SMALL)
        control = await self.free(engine, tmp_path)
        whole = (await control.code(hog, str(LARGE))).text
        assert whole in {str(LARGE), "8"}
        assert (await box.code(hog, str(LARGE))).text != whole
        assert (await box.code(hog, str(SMALL // 4))).status.ok
        assert (await box.run("echo", "on")).text == "on"

    @check(
        Topic.RESOURCES,
        "Where only single processes can be bounded, that is worth having, and no more than that.",
        Ability.RESOURCES,
    )
    @pytest.mark.guarantee("PLAN-1")
    async def test_a_limit_of_each_process_holds(self, engine: Engine, spec: SandboxSpec, tmp_path: Path) -> None:
        """A process gets an error for memory beyond the limit, and the next one starts as if nothing had been."""
        box = await self.limited(engine, spec, Limit.MEMORY_PER_PROCESS, LARGE)
        control = await self.free(engine, tmp_path)
        assert (await control.code(TAKE_MEMORY, str(LARGE))).text == str(LARGE)
        ran = await box.code(TAKE_MEMORY, str(LARGE))
        assert not ran.status.ok
        assert b"MemoryError" in ran.err
        assert (await box.code(TAKE_MEMORY, str(SMALL))).text == str(SMALL)

    @check(Topic.RESOURCES, "An agent's endless loop takes the machine from the person who sits at it.", Ability.RESOURCES)
    @pytest.mark.guarantee("PLAN-1")
    async def test_a_share_of_the_processors_holds(self, engine: Engine, spec: SandboxSpec, tmp_path: Path) -> None:
        """A loop that gets more without the limit gets no more than its share with it: a busy machine can only give it less."""
        box = await self.limited(engine, spec, Limit.CPUS, SHARE)
        control = await self.free(engine, tmp_path)
        with anyio.fail_after(TEST_LIMIT_S):
            while float((await control.code(USE_PROCESSOR)).text) <= SHARE * 2:
                pass  # the machine is busy with something else
        assert float((await box.code(USE_PROCESSOR)).text) < SHARE * 2

    @check(
        Topic.RESOURCES, "A full disk was seen to end the recording of every session on the machine for hours.", Ability.RESOURCES
    )
    @pytest.mark.guarantee("PLAN-1")
    async def test_a_disk_limit_holds(self, engine: Engine, spec: SandboxSpec, tmp_path: Path) -> None:
        """The guest runs out of space at the limit, and its host does not."""
        box = await self.limited(engine, spec, Limit.DISK, 64 << 20)
        control = await self.free(engine, tmp_path)
        assert (await control.code(FILL_DISK, str(80 << 20))).text == "filled"
        ran = await box.code(FILL_DISK, str(80 << 20))
        assert not ran.status.ok
        assert b"No space left" in ran.err
