"""Everything one can do to a generation on disk is found, named, and changes nothing (CONT-1, CONT-4, CONT-7)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast
from uuid import UUID

import pytest

from jamcore.continuity.generations.format import SCHEMA
from jamcore.continuity.generations.packs import HEADER_BYTES
from jamcore.daemon.checkpoints import Checkpoints
from jamcore.domain.continuity import Activation, ContinuityFailure, ContinuityRefusedError, ResumeSource
from jamcore.system.files import Files
from tests.unit.continuity import damage
from tests.unit.continuity.damage import Scene

if TYPE_CHECKING:
    from jamcore.store import Store
    from tests.unit.continuity.conftest import World

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

OTHER = UUID("01890000-0000-7000-8000-000000000001")


@dataclass(frozen=True)
class Row:
    """One kind of damage: what does it, what the inspection must find, and the words that must name it."""

    name: str
    do: Callable[[Scene], object]
    words: tuple[str, ...]
    failure: ContinuityFailure = ContinuityFailure.CORRUPT

    @property
    def state(self) -> str:
        """What the evidence must say of the generation."""
        return "incomplete" if self.failure is ContinuityFailure.MISSING else "corrupt"


def gone(scene: Scene) -> Path:
    """Where the newer generation's pack is."""
    return scene.pack()


def complete(scene: Scene) -> Path:
    """Where the newer generation's root is."""
    return scene.complete


PACKS = (
    Row("a flip in the pack's header", lambda scene: damage.flip(scene.pack(), 4), ("no published pack holds it", "{new}")),
    Row("a flip in the schema of a pack", lambda scene: damage.flip(scene.pack(), 9), ("no published pack holds it", "{new}")),
    Row("a flip in the algorithm of a pack", lambda scene: damage.flip(scene.pack(), 10), ("no published pack holds it", "{new}")),
    Row("a flip in the root", damage.flip_body("root"), ("stored bytes are damaged", "a root in {new}")),
    Row("a flip in a directory", damage.flip_body("directory"), ("stored bytes are damaged", "{new}", "of the directory .")),
    Row("a flip in a node", damage.flip_body("node"), ("stored bytes are damaged", "a node in {new}", "home/sessions/a.jsonl")),
    Row("a flip in a block of an older pack", damage.flip_body("leaf"), ("a leaf in {old}", "of home/sessions/a.jsonl")),
    Row("a flip in a block of its own pack", damage.flip_body("tail"), ("a leaf in {new}", "of home/sessions/a.jsonl")),
    Row("a flip in a root's header", damage.flip_header("root"), ("no published pack holds it", "{new}")),
    Row("a flip in a node's header", damage.flip_header("node"), ("no published pack holds it", "{new}")),
    Row("a flip in a block's header", damage.flip_header("leaf"), ("no published pack holds it", "{old}", "a.jsonl")),
    Row("an empty pack", damage.cut_pack(lambda _: 0), ("no published pack holds it", "{new}")),
    Row("a pack cut in its header", damage.cut_pack(lambda _: HEADER_BYTES - 1), ("no published pack holds it", "{new}")),
    Row("a pack cut after its header", damage.cut_pack(lambda _: HEADER_BYTES), ("no published pack holds it",)),
    Row("a pack cut in an entry's header", damage.cut_pack(lambda found: found[1].offset + 9), ("no published", "{new}")),
    Row("a pack cut in an entry's bytes", damage.cut_pack(lambda found: found[-1].offset + 60), ("no published", "{new}")),
    Row("a pack cut between entries", damage.cut_pack(lambda found: found[-1].offset), ("no published pack holds it",)),
    Row("a missing pack", lambda scene: scene.pack().unlink(), ("no published pack holds it", "{new} is not there")),
    Row("a missing older pack", lambda scene: scene.pack(scene.older).unlink(), ("{old} is not there", "of home/")),
    Row("a link for the pack", damage.become(gone, "link"), ("no published pack holds it", "{new}")),
    Row("a FIFO for the pack", damage.become(gone, "FIFO"), ("no published pack holds it", "{new}")),
    Row("a directory for the pack", damage.become(gone, "directory"), ("no published pack holds it", "{new}")),
    Row("another checkpoint's pack under this name", damage.swap_packs, ("no published pack holds it", "{old}", "{new}")),
    Row("a block under another's digest", damage.append_copy("node", under="tail"), ("another digest", "{new}", "a.jsonl")),
    Row(
        "a directory under the root's digest", damage.append_copy("directory", under="root"), ("another digest", "a root in {new}")
    ),
)

MANIFESTS = (
    Row("no complete.json", lambda scene: scene.complete.unlink(), ("complete.json", "gone"), ContinuityFailure.MISSING),
    Row("no directory and no pack", damage.lose_directory, ("complete.json", "gone"), ContinuityFailure.MISSING),
    Row("an empty complete.json", lambda scene: scene.complete.write_bytes(b""), ("complete.json is not readable",)),
    Row("half a complete.json", lambda scene: scene.complete.write_bytes(scene.complete.read_bytes()[:200]), ("not readable",)),
    Row("a complete.json with more behind it", damage.add_a_line, ("its checksum",)),
    Row("a link for complete.json", damage.become(complete, "link"), ("complete.json is not a file",)),
    Row("a FIFO for complete.json", damage.become(complete, "FIFO"), ("complete.json is not a file",)),
    Row("a directory for complete.json", damage.become(complete, "directory"), ("complete.json is not a file",)),
    Row("two generations' complete.json swapped", damage.swap_complete, ("belongs to another generation",)),
    Row("an unknown newer schema", damage.rewrite(schema_version=SCHEMA + 1), ("schema_version",)),
    Row("an unknown older schema", damage.rewrite(schema_version=0), ("schema_version",)),
    Row("an unknown algorithm", damage.rewrite(algorithm="md5"), ("algorithm",)),
    Row("a field that Jam does not know", damage.rewrite(extra=1), ("extra",)),
    Row("another host, sealed", damage.reseal(lambda _: {"host_id": OTHER}), ("belongs to another generation",)),
    Row("another agent, sealed", damage.reseal(lambda _: {"agent_id": OTHER}), ("recorded", "agent_id")),
    Row("another provider, sealed", damage.reseal(lambda _: {"provider": "other"}), ("recorded", "provider")),
    Row("another version, sealed", damage.reseal(lambda _: {"provider_version": "9"}), ("recorded", "provider_version")),
    Row("another root, sealed", damage.reseal(lambda found: {"root_digest": found.root_digest[::-1]}), ("recorded", "root_digest")),
    Row("sessions swapped, sealed", damage.reseal(damage.swap_sessions), ("recorded", "sessions")),
    Row("no sessions, sealed", damage.reseal(lambda _: {"sessions": ()}), ("recorded", "sessions")),
    Row("another count, sealed", damage.reseal(lambda found: {"files": found.files + 1}), ("recorded", "files")),
    Row("other bytes, sealed", damage.reseal(lambda found: {"bytes_total": found.bytes_total + 1}), ("recorded", "bytes_total")),
    Row("another size, sealed", damage.reseal(lambda _: {"bytes_written": 1}), ("recorded", "bytes_written")),
    Row("another time, sealed", damage.reseal(lambda found: {"created_at": found.created_at.replace(year=2001)}), ("created_at",)),
)

ROWS = (
    Row("the row's agent", lambda scene: damage.edit_row(scene, agent_id=str(OTHER)), ("recorded", "agent_id")),
    Row("the row's root", lambda scene: damage.edit_row(scene, root_digest="00" * 32), ("recorded", "root_digest")),
    Row("the row's sessions", lambda scene: damage.edit_row(scene, sessions=[]), ("recorded", "sessions")),
    Row("the row's version", lambda scene: damage.edit_row(scene, provider_version="9"), ("recorded", "provider_version")),
    Row("the row's files", lambda scene: damage.edit_row(scene, files=0), ("recorded", "files")),
)

FIELDS = {
    "reason": "before-stop",
    "root_digest": "00" * 32,
    "sessions": [],
    "files": 1,
    "bytes_total": 1,
    "bytes_written": 1,
    "guest_frozen": True,
    "created_at": "2001-01-01T00:00:00Z",
    "provider": "other",
    "provider_version": "9",
    "agent_id": str(OTHER),
    "host_id": str(OTHER),
    "checkpoint_id": str(OTHER),
    "checksum": "00" * 32,
}
FLIPS = tuple(Row(f"{name} of complete.json", damage.rewrite(**{name: value}), ("checksum",)) for name, value in FIELDS.items())

TABLE = (*PACKS, *MANIFESTS, *ROWS, *FLIPS)


def checkpoints(world: World) -> Checkpoints:
    """What `jam checkpoint verify` asks."""
    return Checkpoints(world.app, store=cast("Store", world.store), files=Files())


@pytest.mark.guarantee("CONT-1", "CONT-4", "CONT-7")
@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
async def test_damage_is_found_named_refused_and_healed(world: World, row: Row) -> None:
    """The inspection, asked twice, and `jam checkpoint verify` name the same; nothing is changed; the next checkpoint is sound."""
    scene = await damage.make_scene(world)
    row.do(scene)
    world.restart()
    before = damage.on_disk(world.app)
    decision, again = await world.inspect(), await world.inspect()
    for each in (decision, again):  # of several damaged units either may be met first
        assert (each.outcome, each.failure) == (Activation.REFUSE_NO_CHECKPOINT, row.failure)
        assert each.evidence.generation_state == row.state
        assert [word for word in row.words if scene.words(word) not in each.evidence.problem] == []
    verdict = await checkpoints(world).verify(str(scene.newer.id))
    assert not verdict.sound
    assert [word for word in row.words if scene.words(word) not in verdict.problem] == []
    with pytest.raises(ContinuityRefusedError) as refused:
        await world.place(decision)
    assert (refused.value.failure, refused.value.detail) == (row.failure.value, decision.evidence.problem)
    assert damage.on_disk(world.app) == before
    assert scene.live() == scene.content

    healed = await world.capture()
    world.restart()
    assert (await world.inspect()).outcome is Activation.EXACT_RESUME
    assert (await checkpoints(world).verify(str(healed.id))).problem == ""
    shutil.rmtree(world.state / "home")
    assert (await world.place()).source is ResumeSource.GENERATION
    assert scene.live() == scene.content


@pytest.mark.guarantee("CONT-4")
async def test_the_table_covers_every_field_of_complete_json(world: World) -> None:
    """A field that is added to the format must be added to the table."""
    scene = await damage.make_scene(world)
    generation = world.generations.read(world.host.id, scene.newer.id)
    assert generation is not None
    assert set(type(generation).model_fields) - {"schema_version", "algorithm"} == set(FIELDS)
