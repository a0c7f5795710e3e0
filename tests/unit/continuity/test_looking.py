"""A generation can be looked into, verified and compared, and nothing is changed by it (CONT-4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from jamcore.continuity.generations.looking import Look, differing, shown
from jamcore.continuity.generations.publish import Generations
from jamcore.domain.continuity import CheckpointCorruptError, EntryKind
from jamcore.system.files import Files
from tests.unit.continuity.conftest import World

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
