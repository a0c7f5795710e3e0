"""An export that changes while it is read, and one whose listing is arbitrary: refused, never followed, never waited for (WS-6, SEC-7)."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jamcore.continuity.exporting.listing import checked, read_listing
from jamcore.continuity.exporting.rebuild import Rebuild
from jamcore.continuity.generations.content import DigestsOnly
from jamcore.domain.checkpoint_exports import CheckpointImportRefusedError
from jamcore.domain.continuity import CaptureEntry, CaptureKind, CaptureList
from jamcore.system.trees import open_root, owned
from tests.unit.continuity.exporting.carrying import Json, asked, builder, carry
from tests.unit.continuity.removing import Removals, require_sound

if TYPE_CHECKING:
    from tests.unit.continuity.conftest import MakeWorld

pytestmark = [pytest.mark.unprivileged]

CAPTURES = CaptureList(
    entries=(
        CaptureEntry(pattern="home/sessions/**/*.jsonl", kind=CaptureKind.APPEND_ONLY),
        CaptureEntry(pattern="home/config/**", kind=CaptureKind.WHOLE),
    )
)
LOG = "files/home/sessions/a.jsonl"


@pytest.fixture(scope="module")
def export(make_world: MakeWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint in an export."""
    base = tmp_path_factory.mktemp("export")

    async def make() -> None:
        async with make_world(base / "app", captures=CAPTURES) as world:
            world.log().write_bytes(b"{}\n" * 50_000)
            world.write("home/config/a", b"plain")
            (world.state / "home/config/link").symlink_to("a")
            carry(world, await world.capture(), base / "checkpoint")

    anyio.run(make)
    return base / "checkpoint"


@pytest.fixture
def copy(export: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    shutil.copytree(export, tmp_path / "copy", symlinks=True)
    return tmp_path / "copy"


def read(path: Path, alive: Callable[[], None] = lambda: None) -> None:
    """Read an export whole. ``alive`` is called before each name and each block."""
    with owned(open_root(path)) as directory:
        Rebuild(DigestsOnly(), checked(read_listing(directory, None), CAPTURES), alive).run(directory)


def to_link(path: Path) -> None:
    """Exchange something for a link to itself: followed, it would give the very bytes that are listed."""
    path.rename(path.with_name(f"{path.name}-moved"))
    path.symlink_to(f"{path.name}-moved")


def to_fifo(path: Path) -> None:
    """Exchange something for what would wait for ever."""
    path.unlink()
    os.mkfifo(path)


CHANGES: list[tuple[str, Callable[[Path], object]]] = [
    (LOG, to_link),
    (LOG, to_fifo),
    (LOG, lambda path: os.truncate(path, 40_000)),
    (LOG, lambda path: path.write_bytes(b"x" * path.stat().st_size)),
    ("files/home/sessions", to_link),
    ("files/home/config/link", lambda path: path.symlink_to("/etc")),
]


@pytest.mark.guarantee("WS-6", "SEC-7")
@pytest.mark.parametrize("change", CHANGES, ids=["link", "FIFO", "cut", "rewritten", "directory to link", "link more"])
def test_a_change_at_any_moment_is_refused_or_comes_too_late(copy: Path, change: tuple[str, Callable[[Path], object]]) -> None:
    """Whatever is exchanged before whichever name or block: nothing outside is read, and bytes that are taken are the listed ones."""
    moments = 0

    def count() -> None:
        nonlocal moments
        moments += 1

    read(copy, count)
    refused = 0
    for moment in range(moments):
        attempt = copy.with_name(f"attempt-{moment}")
        shutil.copytree(copy, attempt, symlinks=True)
        left = iter(range(moments))

        def alive(attempt: Path = attempt, moment: int = moment, left: Iterator[int] = left) -> None:
            if next(left) == moment:
                change[1](attempt / change[0])

        try:
            read(attempt, alive)
        except CheckpointImportRefusedError:
            refused += 1
    assert refused >= 1
    assert moments > 8


@pytest.mark.guarantee("WS-6")
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_listing_does_anything_but_be_refused(export: Path, data: st.DataObject) -> None:
    """One changed byte, or one changed value anywhere in it: it is refused by type, or says the same of the same bytes."""
    good = (export / "checkpoint.json").read_bytes()
    with tempfile.TemporaryDirectory() as directory:
        moved = Path(directory, "moved")
        shutil.copytree(export, moved, symlinks=True)
        listing = moved / "checkpoint.json"
        if data.draw(st.booleans()):
            at = data.draw(st.integers(0, len(good) - 1))
            listing.write_bytes(good[:at] + data.draw(st.binary(max_size=3)) + good[at + 1 :])
        else:
            changed = json.loads(good)
            _change(changed, data)
            listing.write_text(json.dumps(changed, sort_keys=True, separators=(",", ":"), ensure_ascii=False), errors="replace")
        with suppress(CheckpointImportRefusedError):
            read(moved)
        if listing.read_bytes() != good:
            with pytest.raises(CheckpointImportRefusedError), owned(open_root(moved)) as opened:
                read_listing(opened, hashlib.sha256(good).hexdigest())


def _change(found: Json, data: st.DataObject) -> None:
    """Change one value somewhere."""
    node: object = found
    while True:
        assert isinstance(node, dict | list)
        key = data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
        below = node[key]
        if isinstance(below, dict | list) and below and data.draw(st.booleans()):
            node = below
            continue
        node[key] = data.draw(
            st.one_of(st.none(), st.integers(), st.text(max_size=8), st.booleans(), st.just([]), st.just("../../x"), st.floats())
        )
        return


@pytest.mark.anyio
@pytest.mark.guarantee("WS-9")
async def test_a_generation_from_an_export_can_be_removed_as_any_other(make_world: MakeWorld, tmp_path: Path) -> None:
    """What later generations share with it stays."""
    async with make_world(tmp_path / "here") as here, make_world(tmp_path / "there") as there:
        here.log().write_bytes(b"{}\n" * 50_000)
        made = await builder(there).build(asked(there, carry(here, await here.capture(), tmp_path / "export")))
        shutil.rmtree(there.state)
        await there.place()
        later = []
        for line in (b"one\n", b"two\n"):
            with there.log().open("ab") as stream:
                stream.write(line)
            later.append(await there.capture())
        await Removals(there).remove(made)
        there.restart()
        assert there.generations.is_retired(there.host.id, made.id)
        require_sound(there, later)
        assert await Removals(there).replay() == ()
