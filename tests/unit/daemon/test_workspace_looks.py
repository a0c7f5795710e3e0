"""A look at a workspace of a whole daemon says what cannot be found out, and one damaged row hides nothing (WS-15, START-1)."""

from __future__ import annotations

import errno
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import pytest

from jamcore.domain import layout
from jamcore.domain.keeping import RoomExportRequest
from jamcore.domain.sessions import WorkspaceState
from jamcore.testing.parked_world import SUBJECT, World, install_plugin, living, make_world
from jamcore.testing.rooms import new_id

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]


def no_room(*_: object, **__: object) -> NoReturn:
    """Stand for a machine whose disk is full."""
    raise OSError(errno.ENOSPC, "no space left")


@pytest.mark.guarantee("WS-15", "START-1")
async def test_a_look_says_what_it_could_not_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged operation of the room is passed over; what nobody could look at is said in its place."""
    monkeypatch.syspath_prepend(str(install_plugin(tmp_path / "site")))
    world = World(tmp_path / "world")
    await make_world(world)
    async with living(world) as services:
        await services.exports.new(SUBJECT, RoomExportRequest(id=new_id()))
    (world.app / layout.manifest(world.room().host.id)).write_bytes(b"no manifest")
    with closing(sqlite3.connect(world.app / layout.DATABASE)) as database, database:
        assert database.execute("UPDATE operations SET started_at = 'zzz' WHERE kind = 'export'").rowcount == 1
    async with living(world) as services:
        view = await services.workspaces.inspect(SUBJECT)
        assert (view.workspace.state, view.inspection_problem) == (WorkspaceState.NEEDS_RECONCILIATION, "")
        assert view.inspection is not None
        monkeypatch.setattr("jamcore.workspace.inspection.inspect.survey", no_room)
        view = await services.workspaces.inspect(SUBJECT)
        assert (view.inspection, view.confirms_archive) == (None, "")
        assert view.inspection_problem == "storage.full: detail=no space left"
