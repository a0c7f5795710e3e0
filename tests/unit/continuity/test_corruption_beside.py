"""What is no damage is not taken for any, what cannot be read is no evidence, and every byte counts (CONT-1, CONT-4, CONT-7)."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jamcore.continuity.generations.looking import Look
from jamcore.continuity.generations.packs import ENTRY_BYTES, HEADER_BYTES
from jamcore.continuity.generations.publish import CheckpointFailedError, Generations
from jamcore.domain.continuity import Activation, CheckpointCorruptError, ContinuityFailure, ResumeSource
from jamcore.domain.sessions import TurnState
from jamcore.system.files import Files
from tests.unit.continuity import damage
from tests.unit.continuity.damage import Scene

if TYPE_CHECKING:
    from tests.unit.continuity.conftest import MakeWorld, World

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

OTHER = "01890000-0000-7000-8000-000000000001"


@dataclass(frozen=True)
class Beside:
    """Something that lies beside a sound generation."""

    name: str
    put: Callable[[Path, Path, Scene], object]


def _other(checkpoints: Path, kind: str) -> None:
    directory = checkpoints / OTHER
    directory.mkdir()
    if kind == "FIFO":
        os.mkfifo(directory / "complete.json")
    elif kind == "directory":
        (directory / "complete.json").mkdir()
    else:
        (directory / "complete.json").write_bytes(b"{}")


BESIDE = (
    Beside("a foreign file among packs", lambda packs, _, __: (packs / "notes.txt").write_bytes(b"x")),
    Beside("a foreign name of a pack", lambda packs, _, __: (packs / "mine.pack").write_bytes(b"x")),
    Beside("a link named as a pack", lambda packs, _, scene: (packs / f"{OTHER}.pack").symlink_to(scene.pack())),
    Beside("a FIFO named as a pack", lambda packs, _, __: os.mkfifo(packs / f"{OTHER}.pack")),
    Beside("a directory named as a pack", lambda packs, _, __: (packs / f"{OTHER}.pack").mkdir()),
    Beside("a foreign file among generations", lambda _, checkpoints, __: (checkpoints / "notes.txt").write_bytes(b"x")),
    Beside("a file named as a generation", lambda _, checkpoints, __: (checkpoints / OTHER).write_bytes(b"x")),
    Beside("a FIFO named as a generation", lambda _, checkpoints, __: os.mkfifo(checkpoints / OTHER)),
    Beside("a foreign empty directory", lambda _, checkpoints, __: (checkpoints / "mine").mkdir()),
    Beside("a link named as a generation", lambda _, checkpoints, scene: (checkpoints / OTHER).symlink_to(scene.complete.parent)),
    Beside("a generation of nobody", lambda _, checkpoints, __: _other(checkpoints, "file")),
    Beside("a FIFO as complete.json", lambda _, checkpoints, __: _other(checkpoints, "FIFO")),
    Beside("a directory as complete.json", lambda _, checkpoints, __: _other(checkpoints, "directory")),
    Beside("another's copy", lambda _, checkpoints, scene: shutil.copytree(scene.complete.parent, checkpoints / OTHER)),
    Beside("a unit twice", lambda _, __, scene: damage.append_copy("tail", under="tail")(scene)),
)


@pytest.mark.guarantee("CONT-1", "CONT-4")
@pytest.mark.parametrize("beside", BESIDE, ids=lambda beside: beside.name)
async def test_what_lies_beside_a_generation_is_left_alone(world: World, beside: Beside) -> None:
    """The session resumes exactly, what is not Jam's stays as it is, and checkpoints go on."""
    scene = await damage.make_scene(world)
    beside.put(scene.pack().parent, scene.complete.parent.parent, scene)
    world.restart()
    before = damage.on_disk(world.app)
    decision = await world.inspect()
    assert (decision.outcome, decision.evidence.checkpoint_id) == (Activation.EXACT_RESUME, scene.newer.id)
    assert decision.evidence.problem == ""
    assert damage.on_disk(world.app) == before
    world.log().write_bytes(world.log().read_bytes() + b"more\n")
    await world.capture()
    assert before.items() <= damage.on_disk(world.recovery.parent).items() | before.items()
    assert (await world.inspect()).outcome is Activation.EXACT_RESUME
    assert len(world.store.checkpoints) == 3


@pytest.mark.guarantee("CONT-4", "CONT-11")
async def test_a_payload_without_a_row_is_recorded_again(world: World) -> None:
    """The newest one becomes the newest again, with its turns; an older one never takes the place of the newest."""
    scene = await damage.make_scene(world)
    turn = world.add_turn(world.session, TurnState.COMPLETED)
    newest = await world.capture()
    damage.lose_row(scene, newest)
    assert world.store.turns[turn].state is TurnState.COMPLETED
    world.restart()
    decision = await world.inspect()
    assert (decision.outcome, decision.evidence.checkpoint_id) == (Activation.EXACT_RESUME, newest.id)
    assert world.store.turns[turn].state is TurnState.CAPTURED

    damage.lose_row(scene, scene.older)
    world.restart()
    before = damage.on_disk(world.app)
    decision = await world.inspect()
    assert (decision.outcome, decision.evidence.checkpoint_id) == (Activation.EXACT_RESUME, newest.id)
    assert damage.on_disk(world.app) == before, "its pack holds blocks of the newer ones"


@pytest.mark.guarantee("CONT-1", "CONT-4")
async def test_another_hosts_complete_json_is_found(world: World, make_world: MakeWorld, tmp_path: Path) -> None:
    """Under the name of this host's generation, sound in itself, and of another host."""
    scene = await damage.make_scene(world)
    async with make_world(tmp_path / "other") as other:
        theirs = await damage.make_scene(other)
        scene.complete.write_bytes(theirs.complete.read_bytes())
        theirs.pack().replace(scene.pack())
    world.restart()
    decision = await world.inspect()
    assert decision.failure is ContinuityFailure.CORRUPT
    assert "belongs to another generation" in decision.evidence.problem


@pytest.mark.guarantee("CONT-1", "CONT-4")
async def test_what_has_a_row_is_never_swept(world: World) -> None:
    """The pack of a generation whose ``complete.json`` is gone is kept at start-up and by captures; put back, it is sound again."""
    scene = await damage.make_scene(world)
    kept = world.complete(scene.older)
    data = kept.read_bytes()
    kept.unlink()
    world.restart()
    decision = await world.inspect()
    assert decision.failure is ContinuityFailure.CORRUPT, "the newer one needs the older one's pack, which is no generation's now"
    assert scene.pack(scene.older).exists()
    kept.write_bytes(data)
    world.restart()
    assert (await world.inspect()).outcome is Activation.EXACT_RESUME


@pytest.mark.guarantee("CONT-1")
async def test_damage_in_many_places_heals_with_one_checkpoint(world: World) -> None:
    """The inspection names the first that it meets; the next checkpoint reuses nothing that it has not read."""
    scene = await damage.make_scene(world)
    for checkpoint in (scene.older, scene.newer):
        for entry in damage.entries(scene.pack(checkpoint), checkpoint.id):
            damage.flip(scene.pack(checkpoint), entry.offset + ENTRY_BYTES)
    world.restart()
    assert (await world.inspect()).failure is ContinuityFailure.CORRUPT
    await world.capture()
    world.restart()
    assert (await world.inspect()).outcome is Activation.EXACT_RESUME
    shutil.rmtree(world.state / "home")
    assert (await world.place()).source is ResumeSource.GENERATION
    assert scene.live() == scene.content


@pytest.mark.guarantee("CONT-1")
@pytest.mark.parametrize("what", ["leaf", "node", "directory"])
async def test_a_checkpoint_over_damage_that_nobody_saw_is_found(world: World, what: str) -> None:
    """A capture reuses what it has no reason to doubt. The generation on top is found corrupt, named, and healed by the next one."""
    scene = await damage.make_scene(world)
    damage.flip_body(what)(scene)
    world.restart()
    await world.capture()
    decision = await world.inspect()
    if decision.outcome is not Activation.EXACT_RESUME:  # the capture had to read the unit, and stored it anew
        assert "stored bytes are damaged" in decision.evidence.problem
        await world.capture()
    world.restart()
    assert (await world.inspect()).outcome is Activation.EXACT_RESUME


FAULTS: dict[str, tuple[str, Callable[[World, Scene], str]]] = {
    "a pack that cannot be opened": ("open", lambda _, scene: scene.pack(scene.older).name),
    "a complete.json that cannot be opened": ("open", lambda _, __: "complete.json"),
    "a directory that cannot be listed": ("scandir", lambda _, __: "checkpoints"),
}


@pytest.mark.guarantee("CONT-7")
@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.EMFILE])
@pytest.mark.parametrize("name", FAULTS)
async def test_a_machine_that_fails_is_no_evidence(world: World, monkeypatch: pytest.MonkeyPatch, name: str, code: int) -> None:
    """Nothing is decided, nothing is condemned, nothing is changed; when the machine works again the session resumes."""
    scene = await damage.make_scene(world)
    function, target = FAULTS[name]
    part = target(world, scene)
    real = getattr(os, function)

    def fail(path: object, *arguments: object, **more: object) -> object:
        if str(path).endswith(part):
            raise OSError(code, os.strerror(code), str(path))
        return real(path, *arguments, **more)

    before = damage.on_disk(world.app)
    world.restart()
    with monkeypatch.context() as broken:
        broken.setattr(os, function, fail)
        broken.setattr(Path, "open", lambda path, *more, **_: os.fdopen(os.open(path, os.O_RDONLY), *more))
        with pytest.raises(CheckpointFailedError):
            await world.inspect()
    assert damage.on_disk(world.app) == before
    assert (await world.inspect()).outcome is Activation.EXACT_RESUME


@pytest.mark.guarantee("CONT-7")
@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
@pytest.mark.parametrize("what", ["pack", "complete", "packs"])
async def test_permissions_that_were_taken_are_no_evidence(world: World, what: str) -> None:
    """As the injected failures, by the file system itself."""
    scene = await damage.make_scene(world)
    path = {"pack": scene.pack(), "complete": scene.complete, "packs": scene.pack().parent}[what]
    mode = path.stat().st_mode
    path.chmod(0)
    world.restart()
    try:
        with pytest.raises(CheckpointFailedError):
            await world.inspect()
    finally:
        path.chmod(mode)
    assert (await world.inspect()).outcome is Activation.EXACT_RESUME


@pytest.mark.guarantee("CONT-1", "CONT-4")
async def test_no_byte_can_change_what_is_verified(world: World) -> None:
    """Each byte of each file flipped, each file cut at each place: found, or the generation is to the digest what it was."""
    world.log().write_bytes(b"".join(b"line %d of the log\n" % number for number in range(20)))
    older = await world.capture()
    world.log().write_bytes(world.log().read_bytes() + b"tail\n")
    newer = await world.capture()
    whole = {row.id: Look(world.generations).entries(world.host.id, row.id) for row in (older, newer)}
    found = {row.id: 0 for row in (older, newer)}
    for path in (*world.packs, world.complete(older), world.complete(newer)):
        data = path.read_bytes()
        flipped = (data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :] for at in _places(len(data)))
        cut = (data[:at] for at in _places(len(data)))
        for changed in (*flipped, *cut):
            path.write_bytes(changed)
            for row in (older, newer):
                look = Look(Generations(world.app, Files()))
                try:
                    look.verify(world.host.id, row.id, row)
                except CheckpointCorruptError:
                    found[row.id] += 1
                else:
                    assert look.entries(world.host.id, row.id) == whole[row.id]
        path.write_bytes(data)
    assert all(count > 100 for count in found.values()), "both were hit, and the newer one by damage to the older one's pack"


def _places(size: int) -> list[int]:
    """Return every place of the first header and of the last bytes, and every seventh between."""
    return sorted({*range(min(size, HEADER_BYTES + ENTRY_BYTES)), *range(0, size, 7), size - 1})
