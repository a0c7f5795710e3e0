"""Live state beside a damaged newest generation resumes if it provably holds all of it, and nothing else does (CONT-1, CONT-11)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from jamcore.continuity.generations.restoring import MARKER
from jamcore.domain.continuity import Activation, ContinuityFailure, ContinuityRefusedError, ResumeSource
from tests.unit.continuity.damage import Scene, become, flip_body, flip_header, make_scene, on_disk, rewrite

if TYPE_CHECKING:
    from tests.unit.continuity.conftest import World

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.guarantee("CONT-1", "CONT-7", "CONT-11")]

HELD: dict[str, Callable[[Scene], None]] = {
    "a block of a log": flip_body("leaf"),
    "the end of a log": flip_body("tail"),
    "the index of a log": flip_body("node"),
    "all that the older pack holds": become(lambda scene: scene.pack(scene.older), "nothing"),
}
"""Damage to bytes that the live state has as well; the directories are sound."""

UNTOLD: dict[str, Callable[[Scene], None]] = {
    "the root": flip_body("root"),
    "a directory": flip_body("directory"),
    "what stands before the root": flip_header("tail"),
    "complete.json": rewrite(provider="other"),
}
"""Damage after which nobody can say what was captured."""


@pytest.fixture
async def scene(world: World) -> Scene:
    """Two generations, and the live state that they were made of, gone on by a line."""
    (world.state / "home" / "config").mkdir()
    (world.state / "home" / "config" / "link").symlink_to("elsewhere")
    made = await make_scene(world)
    with world.log().open("ab") as stream:
        stream.write(b"not captured yet\n")
    return made


@pytest.mark.parametrize("damage", HELD.values(), ids=HELD)
async def test_live_state_that_holds_all_of_it_is_resumed_and_captured_anew(scene: Scene, damage: Callable[[Scene], None]) -> None:
    """The decision says what is damaged and that nothing is lost; the next checkpoint is whole, also for the next life."""
    world = scene.world
    damage(scene)
    world.restart()
    assert (await world.inspect()).failure is ContinuityFailure.CORRUPT, (
        "without the live state there is nothing to hold it against"
    )
    decision = await world.inspect(live=True)
    assert (decision.outcome, decision.evidence.generation_state) == (Activation.EXACT_RESUME, "corrupt")
    assert decision.evidence.problem.endswith("; the live state holds all of it, and is resumed")
    before = scene.live()
    assert (await world.place(decision)).source is ResumeSource.LIVE
    assert scene.live() == before
    await world.capture()
    for _ in range(2):
        found = await world.inspect()
        assert (found.outcome, found.evidence.generation_state) == (Activation.EXACT_RESUME, "verified")
        world.restart()


def lose_the_end(scene: Scene) -> None:
    """Cut the log within what was captured."""
    data = scene.world.log().read_bytes()
    scene.world.log().write_bytes(data[: len(data) // 2])


def change_the_beginning(scene: Scene) -> None:
    """Change one byte of the log."""
    data = scene.world.log().read_bytes()
    scene.world.log().write_bytes(b"!" + data[1:])


def change_a_whole_file(scene: Scene) -> None:
    """Change a file that is captured whole, in place."""
    scene.world.write("home/config/a", b"Same in both")


def change_a_link(scene: Scene) -> None:
    """Let the link name something else of the same length."""
    link = scene.world.state / "home" / "config" / "link"
    link.unlink()
    link.symlink_to("elsewherE")


def lose_everything(scene: Scene) -> None:
    """Remove the state root."""
    shutil.rmtree(scene.world.state)


def half_restore(scene: Scene) -> None:
    """Leave the marker of a restore that was cut."""
    (scene.world.recovery / MARKER).write_bytes(b"x")


@pytest.mark.parametrize(
    "lose", [lose_the_end, change_the_beginning, change_a_whole_file, change_a_link, lose_everything, half_restore]
)
@pytest.mark.parametrize("damage", HELD.values(), ids=HELD)
async def test_live_state_that_lacks_anything_proves_nothing(
    scene: Scene, damage: Callable[[Scene], None], lose: Callable[[Scene], None]
) -> None:
    """The refusal says both, what is damaged and what is lost besides, and changes nothing."""
    world = scene.world
    damage(scene)
    lose(scene)
    world.restart()
    before = on_disk(world.app)
    decision = await world.inspect(live=True)
    assert (decision.outcome, decision.failure) == (Activation.REFUSE_NO_CHECKPOINT, ContinuityFailure.CORRUPT)
    assert "; the live state does not hold all of it: " in decision.evidence.problem
    with pytest.raises(ContinuityRefusedError):
        await world.place(decision)
    assert on_disk(world.app) == before


@pytest.mark.parametrize("damage", UNTOLD.values(), ids=UNTOLD)
async def test_where_nobody_can_say_what_was_captured_it_is_refused(scene: Scene, damage: Callable[[Scene], None]) -> None:
    """Live state is proven by the directories; where these are damaged, or are not the recorded ones, it is not."""
    damage(scene)
    scene.world.restart()
    assert (await scene.world.inspect(live=True)).failure is ContinuityFailure.CORRUPT


async def test_a_damaged_generation_is_never_restored(scene: Scene) -> None:
    """What changed after the decision ends the resume: a restore would be of what is damaged."""
    world = scene.world
    flip_body("leaf")(scene)
    decision = await world.inspect(live=True)
    assert decision.outcome is Activation.EXACT_RESUME
    lose_the_end(scene)
    before = on_disk(world.app)
    for known in (None, "a database differs"):
        with pytest.raises(ContinuityRefusedError) as refused:
            await world.place(decision, why_not_live=known)
        assert refused.value.failure == ContinuityFailure.CORRUPT
    assert on_disk(world.app) == before


@pytest.mark.parametrize("known", ["identity", "version"])
async def test_proof_of_the_bytes_is_not_all(scene: Scene, known: str) -> None:
    """A session that it does not hold and a version that it does not fit are refused as always."""
    flip_body("leaf")(scene)
    other = scene.world.session.model_copy(update={"provider_identity": "thread-9"})
    decision = await (
        scene.world.inspect(other, live=True) if known == "identity" else scene.world.inspect(current="2.0.0", live=True)
    )
    assert decision.outcome is Activation.REFUSE_UNUSABLE


async def test_a_whole_file_is_compared_to_its_last_byte(world: World) -> None:
    """Only logs may end in a line that was half written: a file that is captured whole and changed there is restored."""
    world.log().write_bytes(b"{}\n")
    config = world.write("home/config/a", b"first\nmodel=one")
    await world.capture()
    config.write_bytes(b"first\nmodel=two")
    placed = await world.place()
    assert (placed.source, config.read_bytes()) == (ResumeSource.GENERATION, b"first\nmodel=one")
