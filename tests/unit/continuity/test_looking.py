"""A generation can be looked into, verified and compared, and nothing is changed by it (CONT-4)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from jamcore.continuity.generations.looking import Look, differing, shown
from jamcore.continuity.generations.packs import ENTRY_BYTES, HEADER_BYTES
from jamcore.continuity.generations.publish import Generations
from jamcore.daemon.checkpoints import Checkpoints
from jamcore.domain.continuity import CheckpointCorruptError, EntryKind
from jamcore.system.files import Files
from tests.unit.continuity.conftest import World

if TYPE_CHECKING:
    from jamcore.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.guarantee("CONT-4")]


def look(world: World) -> Look:
    """Look with an index of its own."""
    return Look(Generations(world.app, files=Files()))


def on_disk(world: World) -> dict[Path, tuple[int, bytes]]:
    """Return everything below the app directory, byte for byte."""
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in world.app.rglob("*") if path.is_file()}


async def test_what_a_generation_holds_and_what_lies_between_two(world: World) -> None:
    """Files, directories and links by path; added, changed and removed ones; a file that only got another time is the same."""
    world.log().write_bytes(b"one\n")
    world.write("home/config/stays", b"same")
    world.write("home/config/goes", b"x")
    first = await world.capture()
    world.log().write_bytes(b"one\ntwo\n")
    world.log("n\xe4w\n.jsonl").write_bytes(b"new\n")
    world.write("home/config/stays", b"same")
    (world.state / "home/config/goes").unlink()
    (world.state / "home/config/link").symlink_to("/etc/passwd")
    second = await world.capture()
    before = on_disk(world)
    old, new = (look(world).entries(world.host.id, each.id) for each in (first, second))
    assert old[b"home/sessions/a.jsonl"].content.size == 4
    added, changed, removed = differing(old, new)
    assert added == [b"home/config/link", "home/sessions/n\xe4w\n.jsonl".encode()]
    assert changed == [b"home/sessions/a.jsonl"]
    assert removed == [b"home/config/goes"]
    link = shown(added[0], new[added[0]])
    assert (link.kind, link.bytes) == (EntryKind.LINK, len("/etc/passwd"))
    assert shown(added[1], new[added[1]]).path == "home/sessions/n\xe4w\\n.jsonl"
    assert shown(b"home", new[b"home"]).bytes == 0
    assert differing(new, new) == ([], [], [])
    assert on_disk(world) == before


async def test_every_flipped_byte_is_found(world: World) -> None:
    """Verifying reads the whole: a byte of any pack, a pack or a complete.json that is gone; the sound one before stays sound."""
    world.log().write_bytes(b"one\n" * 50)
    first = await world.capture()
    world.write("home/config/a", b"more" * 50)
    second = await world.capture()
    assert look(world).verify(world.host.id, second.id).row().files == second.files
    pack = world.packs[-1]
    whole = pack.read_bytes()
    for place in range(0, len(whole), 7):
        pack.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(CheckpointCorruptError):
            look(world).verify(world.host.id, second.id)
        look(world).verify(world.host.id, first.id)
    pack.unlink()
    with pytest.raises(CheckpointCorruptError):
        look(world).verify(world.host.id, second.id)
    with pytest.raises(CheckpointCorruptError):
        look(world).entries(world.host.id, second.id)
    world.complete(first).unlink()
    with pytest.raises(CheckpointCorruptError):
        look(world).verify(world.host.id, first.id)


async def test_a_sound_one_with_a_damaged_pack_is_said_to_be_so(world: World) -> None:
    """A later pack holds what its own lost, so it resumes; the damage is named all the same, with the pack that stands in."""
    world.log().write_bytes(b"one\n" * 50)
    first = await world.capture()
    assert look(world).damaged_copies(world.host.id, first.id) == ""
    pack = world.packs[0]
    sound = pack.read_bytes()
    pack.write_bytes(sound[: HEADER_BYTES + ENTRY_BYTES] + b"\0" + sound[HEADER_BYTES + ENTRY_BYTES + 1 :])
    assert (await world.inspect()).failure is not None
    world.write("home/config/a", b"more")
    second = await world.capture()
    before = on_disk(world)
    look(world).verify(world.host.id, first.id)
    assert look(world).damaged_copies(world.host.id, first.id) == (
        f"damaged units in {pack.name}: 1; sound copies of them lie in {second.id}.pack"
    )
    verdict = await Checkpoints(world.app, store=cast("Store", world.store), files=Files()).verify(str(first.id))
    assert (verdict.sound, verdict.problem) == (True, "")
    assert pack.name in verdict.note
    assert look(world).damaged_copies(world.host.id, second.id) == ""
    assert on_disk(world)[pack] == before[pack]


@pytest.mark.parametrize("loss", ["gone", "cut"])
async def test_a_pack_that_is_not_whole_and_that_nobody_needs_is_noted(world: World, loss: str) -> None:
    """Also where its entries cannot be told any more."""
    world.log().write_bytes(b"one\n" * 50)
    first = await world.capture()
    pack = world.packs[0]
    data = pack.read_bytes()
    pack.unlink()
    world.restart()
    assert (await world.inspect()).failure is not None
    await world.capture()
    if loss == "cut":
        pack.write_bytes(data[:-1])
    found = look(world).damaged_copies(world.host.id, first.id)
    what = "is gone" if loss == "gone" else "is not whole to its end"
    assert found == f"{pack.name} {what}; other packs hold all that is needed of it"
