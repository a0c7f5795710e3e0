"""Removals over arbitrary histories: what stays comes back bit for bit, and the disk holds what it needs and nothing else (WS-9)."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jamcore.continuity.generations.content import read_stream
from jamcore.continuity.generations.format import BLOCK, Unit
from jamcore.continuity.generations.marking import Marks, mark
from jamcore.continuity.generations.objects import Kind, read_root, walk_tree
from jamcore.domain.continuity import Checkpoint
from tests.unit.continuity.removing import Removals, bytes_on_disk, require_sound, stored_units

if TYPE_CHECKING:
    from tests.unit.continuity.conftest import MakeWorld, World

pytestmark = pytest.mark.guarantee("WS-9")

FILES = ("a", "b", "deep/c", "deep/down/d")
CONTENTS = (b"", b"x", b"small\n" * 40, b"B" * BLOCK + b"1", b"B" * BLOCK + b"2", bytes(range(256)) * 300)
History = list[tuple[list[tuple[str, int | None]], int]]
WRITE = st.tuples(st.sampled_from(FILES), st.sampled_from(range(len(CONTENTS))))
CHANGE = st.lists(st.one_of(WRITE, st.tuples(st.sampled_from(FILES), st.none())), max_size=3)
HISTORY = st.lists(st.tuples(CHANGE, st.integers(0, 70_000)), min_size=3, max_size=7)
"""What happens before each capture: files are written or removed, and the log grows."""
REMOVE = st.lists(st.sets(st.integers(0, 5), min_size=1, max_size=4), min_size=1, max_size=3)
"""Which of the generations that are left go together, each time; and then captures go on."""


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=HISTORY, removals=REMOVE, seed=st.integers(0, 1 << 30))
def test_what_stays_is_whole_and_the_disk_holds_nothing_else(
    make_world: MakeWorld, tmp_path_factory: pytest.TempPathFactory, history: History, removals: list[set[int]], seed: int
) -> None:
    """Arbitrary histories, arbitrary removals, captures and restarts between them."""

    async def go() -> None:
        app = tmp_path_factory.mktemp("model")
        try:
            async with make_world(app / "app") as world:
                await Model(world, random.Random(seed)).run(history, removals)
        finally:
            shutil.rmtree(app)

    anyio.run(go)


class Model:
    """Remembers what each generation was made from."""

    def __init__(self, world: World, source: random.Random) -> None:
        self.world = world
        self.source = source
        self.trees: dict[UUID, dict[bytes, bytes]] = {}
        self.rows: list[Checkpoint] = []

    async def run(self, history: History, removals: list[set[int]]) -> None:
        """Live through it."""
        for change, grow in history:
            await self.capture(change, grow)
        for chosen in removals:
            selected = [row for number, row in enumerate(self.rows[:-1]) if number in chosen]
            if selected:
                await self.remove(selected)
            if self.source.random() < 0.5:
                self.world.restart()
            await self.capture([(self.source.choice(FILES), self.source.randrange(len(CONTENTS)))], 10)
            self.require_whole()

    async def capture(self, change: Iterable[tuple[str, int | None]], grow: int) -> None:
        """Change the tree and make a generation of it."""
        for name, content in change:
            path = self.world.state / "home/config" / name
            if content is None:
                path.unlink(missing_ok=True)
            else:
                self.world.write(f"home/config/{name}", CONTENTS[content])
        with self.world.log().open("ab") as stream:
            stream.write(self.source.randbytes(grow) + b"\n")
        row = await self.world.capture()
        self.rows.append(row)
        self.trees[row.id] = tree(self.world.state)

    async def remove(self, selected: list[Checkpoint]) -> None:
        """Remove some; exactly the planned bytes go."""
        removals = Removals(self.world)
        plan = await removals.plan(*selected)
        assert not plan.blocked
        before = bytes_on_disk(self.world)
        await removals.run(removals.intent(plan))
        assert before - bytes_on_disk(self.world) == plan.bytes_freed == sum(item.bytes_freed for item in plan.items)
        self.rows = [row for row in self.rows if row not in selected]
        self.require_whole()

    def require_whole(self) -> None:
        """Every generation that stays gives its tree back; every stored unit is needed, and stored once."""
        require_sound(self.world, self.rows)
        fresh = self.world.generations.afresh()
        units = stored_units(self.world)
        kinds: dict[bytes, Unit] = {}
        marks = Marks()
        with fresh.blocks(self.world.host.id).reader() as source:
            for unit in units:
                place = fresh.blocks(self.world.host.id).locate(unit)
                assert place is not None
                with place[0].open("rb") as stream:
                    stream.seek(place[1])
                    kinds[unit] = Unit(stream.read(1)[0])
            for row in self.rows:
                mark(source, kinds.get, bytes.fromhex(row.root_digest), marks, lambda: None)
                root = read_root(source, bytes.fromhex(row.root_digest))
                found = {
                    b"/".join(path): read_stream(source, entry.content)
                    for path, entry in walk_tree(source, root)
                    if entry.kind is Kind.FILE
                }
                assert found == self.trees[row.id]
        assert sorted(units) == sorted(marks.units)


def tree(state: Path) -> dict[bytes, bytes]:
    """Return every file below a directory with its bytes."""
    return {os.fsencode(path.relative_to(state)): path.read_bytes() for path in state.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_host_of_a_thousand_generations_is_looked_at_in_a_moment(world: World) -> None:
    """All but the newest go at once, by reading little more than what changed in each."""
    made = []
    for number in range(1000):
        with world.log().open("ab") as stream:
            stream.write(b"%d %s\n" % (number, os.urandom(150).hex().encode()))
        made.append(await world.capture())
    removals = Removals(world)
    plan = await removals.plan(*made[:-1])
    done = await removals.run(removals.intent(plan))
    assert done.freed == plan.bytes_freed
    assert bytes_on_disk(world) < made[-1].bytes_total * 2
    require_sound(world, made[-1:])
