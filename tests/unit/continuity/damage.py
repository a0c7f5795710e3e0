"""Two generations of one host and everything one can do to them on disk: what the tests of corruption are made of."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from jamcore.continuity.generations.content import read_leaves
from jamcore.continuity.generations.format import Unit
from jamcore.continuity.generations.objects import read_root, walk_tree
from jamcore.continuity.generations.packs import ENTRY_BYTES, PackEntry, scan
from jamcore.continuity.generations.publish import Generation

if TYPE_CHECKING:
    from jamcore.domain.continuity import Checkpoint
    from tests.unit.continuity.conftest import World

_ENTRY = struct.Struct(">BBIII32s")
LOG = b"home/sessions/a.jsonl"


@dataclass
class Scene:
    """A host whose newer generation needs blocks of the older one's pack, with two sessions. ``content`` is what was captured last."""

    world: World
    older: Checkpoint
    newer: Checkpoint
    content: dict[str, bytes]

    @property
    def complete(self) -> Path:
        """The published root of the newer generation."""
        return self.world.complete(self.newer)

    def pack(self, checkpoint: Checkpoint | None = None) -> Path:
        """The pack of a generation, by default the newer one."""
        return self.world.packs[0].with_name(f"{(checkpoint or self.newer).id}.pack")

    def words(self, text: str) -> str:
        """Put the names of this scene into what a problem is expected to say."""
        return text.format(old=self.pack(self.older).name, new=self.pack().name)

    def live(self) -> dict[str, bytes]:
        """Return the live files of the provider's state."""
        home = self.world.state / "home"
        return {path.relative_to(home).as_posix(): path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()}


async def make_scene(world: World) -> Scene:
    """Capture a log of a dozen blocks twice, the second time with a line more and another file beside."""
    noise = random.Random(7)
    world.add_session("thread-2")
    world.log().write_bytes(b"".join(b"%s\n" % noise.randbytes(40).hex().encode() for _ in range(4000)))
    world.write("home/config/a", b"same in both")
    older = await world.capture()
    with world.log().open("ab") as stream:
        stream.write(b"the last turn\n")
    world.write("home/config/b", b"only in the newer")
    newer = await world.capture()
    scene = Scene(world, older, newer, {})
    scene.content = scene.live()
    return scene


def on_disk(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return everything below a directory but the database: kind and mode, time, content. Nothing that may block is opened."""
    found = {}
    for top, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(top, name)
            if name.startswith("jam.db"):
                continue
            status = path.lstat()
            link, file = path.is_symlink(), path.is_file() and not path.is_symlink()
            content = os.fsencode(path.readlink()) if link else path.read_bytes() if file else b""
            found[str(path.relative_to(root))] = (status.st_mode, status.st_mtime_ns if file else 0, content)
    return found


# ------------------------------------------------------------------------------------------------------------- units


def digest_of_unit(scene: Scene, what: str) -> bytes:
    """Return the digest of a unit of the newer generation: the root, the top directory, the log's node, its first or last block."""
    with scene.world.generations.blocks(scene.world.host.id).reader() as source:
        root = read_root(source, bytes.fromhex(scene.newer.root_digest))
        log = next(entry.content for path, entry in walk_tree(source, root) if b"/".join(path) == LOG)
        leaves = read_leaves(source, log)
    known = {"root": bytes.fromhex(scene.newer.root_digest), "directory": root.content.digest, "node": log.digest}
    return {**known, "leaf": leaves[0], "tail": leaves[-1]}[what]


def place_of(scene: Scene, what: str) -> tuple[Path, PackEntry]:
    """Return the pack and the entry of a unit."""
    digest = digest_of_unit(scene, what)
    for checkpoint in (scene.newer, scene.older):
        for entry in entries(scene.pack(checkpoint), checkpoint.id):
            if entry.digest == digest:
                return scene.pack(checkpoint), entry
    raise LookupError(what)


def entries(pack: Path, checkpoint: UUID) -> list[PackEntry]:
    """Return the entries of a sound pack."""
    with pack.open("rb") as stream:
        found = list(scan(stream.fileno(), checkpoint))
    assert None not in found
    return [entry for entry in found if entry is not None]


def flip(path: Path, at: int, bit: int = 1) -> None:
    """Change one byte of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= bit
    path.write_bytes(data)


def flip_body(what: str) -> Callable[[Scene], None]:
    """Return what flips a byte in the middle of a unit's stored bytes."""

    def do(scene: Scene) -> None:
        pack, entry = place_of(scene, what)
        flip(pack, entry.offset + ENTRY_BYTES + entry.stored // 2)

    return do


def flip_header(what: str) -> Callable[[Scene], None]:
    """Return what flips a byte in a unit's entry header."""

    def do(scene: Scene) -> None:
        pack, entry = place_of(scene, what)
        flip(pack, entry.offset + 3)

    return do


def append_copy(what: str, *, under: str) -> Callable[[Scene], None]:
    """Return what appends the stored bytes of one unit to the newer pack, with a sound header that bears another unit's digest."""

    def do(scene: Scene) -> None:
        pack, entry = place_of(scene, what)
        raw = pack.read_bytes()[entry.offset :]
        digest = digest_of_unit(scene, under)
        _, codec, plain, stored, check, _ = _ENTRY.unpack_from(raw)
        unit = {"root": Unit.ROOT, "node": Unit.NODE}.get(under, Unit.LEAF)
        header = _ENTRY.pack(unit, codec, plain, stored, check, digest)
        with scene.pack().open("ab") as stream:
            stream.write(header + struct.pack(">I", zlib.crc32(header)) + raw[ENTRY_BYTES : ENTRY_BYTES + stored])

    return do


# ---------------------------------------------------------------------------------------------------------- whole files


def cut_pack(where: Callable[[list[PackEntry]], int]) -> Callable[[Scene], None]:
    """Return what truncates the newer pack."""

    def do(scene: Scene) -> None:
        os.truncate(scene.pack(), where(entries(scene.pack(), scene.newer.id)))

    return do


def become(path: Callable[[Scene], Path], kind: str) -> Callable[[Scene], None]:
    """Return what puts something else in a file's place: a link to it, a FIFO, a directory, or nothing."""

    def do(scene: Scene) -> None:
        target = path(scene)
        moved = scene.world.app / "moved"
        target.rename(moved)
        if kind == "link":
            target.symlink_to(moved)
        elif kind == "FIFO":
            os.mkfifo(target)
        elif kind == "directory":
            target.mkdir()

    return do


def rewrite(**fields: object) -> Callable[[Scene], None]:
    """Return what writes other values into the newer ``complete.json`` without a new checksum."""

    def do(scene: Scene) -> None:
        document = json.loads(scene.complete.read_bytes()) | fields
        scene.complete.write_bytes(json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode())

    return do


def reseal(change: Callable[[Generation], dict[str, object]]) -> Callable[[Scene], None]:
    """Return what writes other values into the newer ``complete.json`` with the checksum that belongs to them."""

    def do(scene: Scene) -> None:
        generation = Generation.model_validate_json(scene.complete.read_bytes())
        scene.complete.write_bytes(generation.model_copy(update=change(generation)).sealed().canonical_json())

    return do


def add_a_line(scene: Scene) -> None:
    """Put a line break behind the newer ``complete.json``."""
    scene.complete.write_bytes(scene.complete.read_bytes() + b"\n")


def swap_complete(scene: Scene) -> None:
    """Exchange the two generations' ``complete.json``."""
    one, two = scene.world.complete(scene.older), scene.complete
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)


def swap_packs(scene: Scene) -> None:
    """Exchange the two generations' packs."""
    aside = scene.pack().with_suffix(".aside")
    scene.pack().rename(aside)
    scene.pack(scene.older).rename(scene.pack())
    aside.rename(scene.pack(scene.older))


def swap_sessions(generation: Generation) -> dict[str, object]:
    """Give each of the two sessions the other's identity."""
    one, two = generation.sessions
    return {
        "sessions": (
            one.model_copy(update={"provider_identity": two.provider_identity}),
            two.model_copy(update={"provider_identity": one.provider_identity}),
        )
    }


def lose_directory(scene: Scene) -> None:
    """Remove the newer generation's directory and its pack."""
    shutil.rmtree(scene.complete.parent)
    scene.pack().unlink()


# ----------------------------------------------------------------------------------------------------------------- rows


def edit_row(scene: Scene, **fields: object) -> None:
    """Change what the database says of the newer generation."""
    record = json.dumps(scene.newer.model_dump(mode="json") | fields)
    _execute(scene, "UPDATE checkpoints SET record = ? WHERE id = ?", record, str(scene.newer.id))


def lose_row(scene: Scene, checkpoint: Checkpoint) -> None:
    """Remove a generation's row, which Jam never does."""
    _execute(scene, "UPDATE turns SET checkpoint_id = NULL, state = 'completed' WHERE checkpoint_id = ?", str(checkpoint.id))
    _execute(scene, "DELETE FROM checkpoints WHERE id = ?", str(checkpoint.id))


def _execute(scene: Scene, statement: str, *values: str) -> None:
    def work(repos: object) -> None:
        connection = repos.agents._connection  # type: ignore[attr-defined]
        assert connection.exec_driver_sql(statement, values).rowcount >= 0

    scene.world.store.now(work)
