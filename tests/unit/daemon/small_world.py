"""Two rooms of a whole daemon that are parked, at one path that is kept and brought back; guests are host processes."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from jamcore.daemon.compose import composed
from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.services import Services
from jamcore.domain import layout
from jamcore.domain.requests import RoomRequest, RoomView, TurnRequest
from jamcore.domain.sessions import TurnState
from jamcore.system.files import Files
from jamcore.testing.rooms import new_id

SUBJECT, SIBLING = "subject", "sibling"
_ENTRY_POINTS = "[jam.providers]\nnotebook = jamcore.testing.doubles.notebook:NotebookProvider\n"


@dataclass(frozen=True)
class World:
    """A world by its directory."""

    root: Path

    @property
    def app(self) -> Path:
        """The app directory."""
        return self.root / "app"

    def options(self, **seams: Any) -> DaemonOptions:
        """Return what a daemon of this world is told."""
        return DaemonOptions(
            app=self.app,
            runtime=self.root / "run",
            version="1",
            pid=os.getpid(),
            environment={"PATH": os.defpath, "HOME": str(self.root / "home")},
            blocked_plugins=frozenset({"codex", "claude_code", "copilot", "acp", "bubblewrap", "sbx"}),
            **seams,
        )

    def room(self, name: str = SUBJECT) -> RoomView:
        """Return a room as it was when the world was made."""
        return RoomView.model_validate_json((self.root / name).read_bytes())

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Ask the database."""
        with closing(sqlite3.connect(f"file:{self.app / layout.DATABASE}?mode=ro", uri=True)) as opened:
            return opened.execute(query).fetchall()

    def digest(self) -> dict[str, str]:
        """Return what there is, rows and files, so that a difference has a name."""
        names = [name for (name,) in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = {f"table {name}": repr(sorted(map(repr, self.rows(f'SELECT * FROM "{name}"')))) for name in names}
        return rows | files_in(self.app)

    def host_digest(self, name: str) -> dict[str, str]:
        """Return what lies in the directory of a room's host."""
        return files_in(self.app / layout.host_root(self.room(name).host.id))

    def keep(self, state: Path) -> None:
        """Keep the world as it is. Nothing lives in it."""
        replace_tree(self.root, state)

    def bring_back(self, state: Path) -> None:
        """Make the world what it was."""
        replace_tree(state, self.root)


@asynccontextmanager
async def living(world: World, **seams: Any) -> AsyncIterator[Services]:
    """Live in a world once: a whole daemon without its socket."""
    async with composed(world.options(**seams)) as services:
        yield services


async def make_world(world: World) -> None:
    """Make two rooms with a turn that was captured, both parked."""
    for directory in (world.app, world.root / "home"):
        Files().make_private(directory)
    async with living(world) as services:
        for name in (SUBJECT, SIBLING):
            view = await services.rooms.create(RoomRequest(id=new_id(), name=name, provider="notebook", engine="local"))
            await say(services, name, f"{name} one")
            (work,) = world.app.glob(f"{layout.HOST_NATIVE}/*/*/{view.session.id}")
            (work / "work.txt").write_text(f"work of {name}\n")
            await services.rooms.stop(name)
            (world.root / name).write_text((await services.rooms.get(name)).model_dump_json())


async def say(services: Services, room: str, text: str) -> None:
    """Have a turn, and wait until it is captured."""
    turn = await services.rooms.say(room, TurnRequest(id=new_id(), text=text))
    with anyio.fail_after(30):
        async with services.rooms.events(room, after=0, follow=True) as events:
            async for event in events:
                said = event.payload
                if event.turn_id == turn.id and said.kind == "turn.state" and said.state == TurnState.CAPTURED:
                    return


def install_plugin(directory: Path) -> Path:
    """Put the double's entry point into a directory that can be put on ``sys.path``, and return it."""
    info = directory / "notebook-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: notebook\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(_ENTRY_POINTS)
    return directory


def replace_tree(source: Path, target: Path) -> None:
    """Make a copy of a tree, links as links, in the place of what is there."""
    if target.exists():
        Files().remove_tree(target)
    shutil.copytree(source, target, symlinks=True, ignore=lambda where, names: [n for n in names if Path(where, n).is_socket()])


def files_in(root: Path) -> dict[str, str]:
    """Return name, mode and digest of everything below a directory but databases, logs and sockets."""
    found = {}
    for path in sorted(root.rglob("*")):
        if path.name.startswith("jam.db") or path.suffix == ".log" or path.is_socket():
            continue
        data = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(root))] = f"{path.lstat().st_mode:o} {hashlib.sha256(data).hexdigest()}"
    return found
