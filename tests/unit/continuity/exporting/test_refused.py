"""What may not go into an export, what a damaged checkpoint does to one, and a build that is cut anywhere (WS-5, SEC-7, WS-12)."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jamcore.continuity.exporting.building import BUILD_POINTS
from jamcore.continuity.exporting.materialise import CheckpointExporter
from jamcore.continuity.generations.publish import CheckpointFailedError
from jamcore.domain.checkpoint_exports import CheckpointExportRefusedError
from jamcore.domain.continuity import Activation, CheckpointCorruptError, ContinuityFailure, ResumeSource
from jamcore.domain.errors import ConflictError
from jamcore.system.tree_calls import TreeCalls
from tests.unit.continuity.crashing import CrashWith, Killed
from tests.unit.continuity.exporting.carrying import asked, builder, carry, on_disk

if TYPE_CHECKING:
    from tests.unit.continuity.conftest import MakeWorld, World

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]


@pytest.mark.guarantee("SEC-7")
async def test_a_credential_never_goes_along(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that no capture knew when it was made: the file is named."""
    world.write("home/config/notes", b"the key is ghp_" + b"A1b2" * 9)
    world.log().write_bytes(b"{}\n")
    with monkeypatch.context() as blind:
        blind.setattr("jamcore.continuity.capturing.reading.SecretScan.find", lambda scan, block: None)
        row = await world.capture()
    with pytest.raises(CheckpointExportRefusedError, match=r"home/config/notes.*GitHub token"):
        carry(world, row, tmp_path / "export")
    (world.state / "home/config/notes").unlink()
    row = await world.capture()
    world.captures = world.captures.model_copy(update={"credential_patterns": ("home/sessions/*",)})
    with pytest.raises(CheckpointExportRefusedError, match=r"home/sessions/a\.jsonl.*a credential"):
        carry(world, row, tmp_path / "declared")


@pytest.mark.guarantee("WS-5", "CONT-1")
async def test_a_damaged_checkpoint_is_found_while_it_is_written(world: World, tmp_path: Path) -> None:
    """What a block holds is proven on its way; a generation that is not what was recorded is none."""
    world.log().write_bytes(b"{}\n" * 50_000)
    row = await world.capture()
    with pytest.raises(CheckpointCorruptError, match="recorded"):
        carry(world, row.model_copy(update={"files": 9}), tmp_path / "other")
    (pack,) = world.packs
    data = bytearray(pack.read_bytes())
    data[200] ^= 1
    pack.write_bytes(data)
    with pytest.raises(CheckpointCorruptError):
        carry(world, row, tmp_path / "damaged")
    world.complete(row).unlink()
    with pytest.raises(CheckpointCorruptError, match="gone"):
        carry(world, row, tmp_path / "gone")


@pytest.mark.guarantee("WS-12", "CONT-1", "CONT-4")
@pytest.mark.parametrize("point", BUILD_POINTS)
async def test_cut_at_every_boundary_it_is_done_by_a_retry_and_never_started_afresh(
    make_world: MakeWorld, tmp_path: Path, point: str
) -> None:
    """After each cut the session starts afresh, is refused, or resumes exactly as the store says of it; a retry makes it whole."""
    async with make_world(tmp_path / "here") as here, make_world(tmp_path / "there") as there:
        second = here.add_session("thread-2")
        here.log().write_bytes(b"{}\n" * 50_000)
        carried = carry(here, await here.capture(), tmp_path / "export")
        crash = CrashWith(point, there.recovery)
        there.restart(crash)
        wanted = asked(there, carried)
        with pytest.raises(Killed):
            await builder(there).build(wanted)
        crash.apply()
        there.restart()
        bound = there.store.now(lambda repos: repos.sessions.get(wanted.sessions[second.id].session_id))
        outcome = (await there.inspect(bound)).outcome
        reached = BUILD_POINTS.index(point)
        if reached < BUILD_POINTS.index("build.bound"):
            assert (bound.provider_identity, outcome) == (None, Activation.FRESH_START)
        elif reached < BUILD_POINTS.index("build.completed"):
            assert (bound.provider_identity, outcome) == ("thread-2", Activation.REFUSE_NO_CHECKPOINT)
        else:
            assert outcome is Activation.EXACT_RESUME
        made = await builder(there).build(wanted)
        assert (made.id, list(there.store.checkpoints), len(there.packs)) == (wanted.checkpoint_id, [made.id], 1)
        shutil.rmtree(there.state)
        assert (await there.place()).source is ResumeSource.GENERATION
        assert on_disk(there.state) == on_disk(here.state)


@pytest.mark.guarantee("WS-12")
async def test_the_boundaries_are_passed_in_their_order(make_world: MakeWorld, tmp_path: Path) -> None:
    """The list is what a build really passes."""

    class Passed:
        points: tuple[str, ...] = ()

        def reach(self, point: str) -> None:
            self.points = (*self.points, point)

    async with make_world(tmp_path / "here") as here, make_world(tmp_path / "there") as there:
        carried = carry(here, await here.capture(), tmp_path / "export")
        passed = Passed()
        there.restart(passed)
        await builder(there).build(asked(there, carried))
        assert passed.points == BUILD_POINTS


@pytest.mark.guarantee("WS-9")
async def test_a_removed_payload_does_not_come_back_under_its_id(make_world: MakeWorld, tmp_path: Path) -> None:
    """An exact retry after its payload was removed on purpose is refused, and leaves nothing."""
    async with make_world(tmp_path / "here") as here, make_world(tmp_path / "there") as there:
        here.log().write_bytes(b"{}\n")
        carried = carry(here, await here.capture(), tmp_path / "export")
        wanted = asked(there, carried)
        made = await builder(there).build(wanted)
        there.generations.retire(there.host.id, made.id)
        with pytest.raises(ConflictError, match="removed"):
            await builder(there).build(wanted)
        there.restart()
        with pytest.raises(ConflictError, match="removed"):
            await builder(there).build(wanted)


def open_files() -> int:
    """Return how many descriptors this process has."""
    return len(list(Path("/proc/self/fd").iterdir()))


class Failing(TreeCalls):
    """Fails at one of the system calls by which trees are read and written. ``made`` counts them."""

    def __init__(self, at: int = -1) -> None:
        self.at = at
        self.made = 0

    def __getattribute__(self, name: str) -> object:
        found = super().__getattribute__(name)
        if not callable(found) or name == "close":
            return found

        def call(*arguments: object, **named: object) -> object:
            self.made += 1
            if self.made - 1 == self.at:
                raise OSError(errno.EIO, "the disk failed")
            return found(*arguments, **named)

        return call


@pytest.mark.guarantee("WS-5", "WS-12", "CONT-4")
async def test_a_disk_that_fails_anywhere_is_a_fault_and_never_damage(make_world: MakeWorld, tmp_path: Path) -> None:
    """At whichever call, on the way out and on the way in: nothing is published, nothing stays open, and the next attempt succeeds."""
    async with make_world(tmp_path / "here") as here, make_world(tmp_path / "there") as there:
        here.log().write_bytes(b"{}\n" * 20_000)
        here.write("home/config/a", b"plain")
        row = await here.capture()
        (tmp_path / "whole").mkdir()
        out = Failing()
        CheckpointExporter(here.generations, out).materialise(row, tmp_path / "whole", captures=here.captures)
        held = open_files()
        for at in range(out.made):
            into = tmp_path / f"cut-{at}"
            into.mkdir()
            with pytest.raises(OSError, match="the disk failed"):
                CheckpointExporter(here.generations, Failing(at)).materialise(row, into, captures=here.captures)
        carried = carry(here, row, tmp_path / "export")
        wanted, calls = asked(there, carried), Failing()
        await builder(there, calls).inspect(carried.directory, captures=there.captures)
        for at in range(calls.made):
            with pytest.raises(CheckpointFailedError, match="the disk failed"):
                await builder(there, Failing(at)).build(wanted)
        assert (there.packs, there.store.checkpoints) == ([], {})
        assert open_files() == held
        assert (out.made, calls.made) > (10, 10)
        await builder(there).build(wanted)
        assert (await there.inspect()).outcome is Activation.EXACT_RESUME


@pytest.mark.guarantee("CONT-4")
async def test_a_full_disk_publishes_nothing(make_world: MakeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's trouble is a fault and never the export's."""
    async with make_world(tmp_path / "here") as here, make_world(tmp_path / "there") as there:
        carried = carry(here, await here.capture(), tmp_path / "export")
        wanted = asked(there, carried)

        def full(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as failing:
            failing.setattr(there.files, "sync", full)
            with pytest.raises(CheckpointFailedError, match="No space"):
                await builder(there).build(wanted)
        assert (there.packs, there.store.checkpoints) == ([], {})
        assert (await there.inspect()).failure is ContinuityFailure.MISSING
        await builder(there).build(wanted)
        assert (await there.inspect()).outcome is Activation.EXACT_RESUME
