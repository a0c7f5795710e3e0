"""What becomes of a room's files is said before a fresh start as it is done (CONT-9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from jamcore.domain import layout
from jamcore.domain.cells import Ability, Placement, WorkspaceSource
from jamcore.testing.doubles.engines import ABILITIES, DirectoryEngine
from tests.unit.resets.conftest import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]


@pytest.mark.guarantee("CONT-9")
@pytest.mark.parametrize("keeps_disk", [True, False])
async def test_a_private_clone_is_carried_only_where_its_disk_is_jams(stage: Stage, tmp_path: Path, keeps_disk: bool) -> None:
    """Elsewhere it is inside the kept sandbox; nobody is told that the new conversation works on in it."""
    stage.world.engine = DirectoryEngine(ABILITIES if keeps_disk else ABILITIES - {Ability.KEEPS_DISK})
    await stage.make(
        placement=Placement.DEDICATED,
        rooms=1,
        workspace=WorkspaceSource.PRIVATE_HOST_CLONE,
        path=str(tmp_path / "repository"),
        commit="c" * 40,
    )
    clone = stage.world.app / layout.guest_disk(stage.host.id) / "clone"
    clone.mkdir(parents=True)
    (clone / "work.txt").write_text("work")
    stage.corrupt()
    async with stage.living() as life:
        view = await life.resets.inspect(str(stage.rooms[0].room.id))
        (room,) = view.rooms
        done = await life.start_fresh(room.room_id, view.digest)
    assert room.carried == ("copied" if keeps_disk else "left")
    assert ("goes on with a copy" in done.files[0], "begins without them" in done.files[0]) == (keeps_disk, not keeps_disk)
    assert (stage.world.app / layout.guest_disk(done.host_id) / "clone" / "work.txt").exists() is keeps_disk
    assert clone.is_dir()
