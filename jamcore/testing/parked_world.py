"""A small world for journaled actions: two rooms of a whole daemon that are parked, in a directory that is kept and brought back.

The providers are the doubles notebook and logbook and the guests are host processes, so that conversations and checkpoints are real and
nothing has to be installed. A world stays at one path, which rows and records name; a state of it is kept as a copy and put back over it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar
from uuid import UUID

import anyio

from jamcore.daemon.compose import composed
from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.services import Services
from jamcore.domain import layout
from jamcore.domain.cells import Placement, WorkspaceSource
from jamcore.domain.operations import UNFINISHED
from jamcore.domain.records import Record
from jamcore.domain.requests import RoomRequest, RoomView, TurnRequest
from jamcore.domain.sessions import Turn, TurnState
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds
from jamcore.testing.not_needed import all_plugins_but

R = TypeVar("R", bound=Record)

SUBJECT, SIBLING = "subject", "sibling"
TURNS = 3
WAIT_S = 60.0
FIRST_ASKED = UUID(int=70 << 100)
_ENTRY_POINTS = """\
[jam.providers]
notebook = jamcore.testing.doubles.notebook:NotebookProvider
logbook = jamcore.testing.doubles.logbook:LogbookProvider
"""
_GUEST = ".notebook"
_GIT: Mapping[str, str] = MappingProxyType(
    {"PATH": os.defpath, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "HOME": "/nonexistent"}
)
BLOCKED = all_plugins_but("notebook", "logbook", "local")
"""Plugins that are not needed here: looking at them takes longer than everything else in a start."""


class Rooms(StrEnum):
    """What sort of room those of a world are."""

    MANAGED = "managed"
    CLONE = "private clone"
    DIRECT = "directory in place"
    SHARED = "shared sandbox"


@dataclass(frozen=True)
class World:
    """A world by its directory; a life of it is another process, so what lives tell each other lies in files.

    Attributes:
        root: The directory.
        asked: The id under which a life asks for the action that its test is about.
    """

    root: Path
    asked: UUID = FIRST_ASKED

    @property
    def app(self) -> Path:
        """The app directory."""
        return self.root / "app"

    @property
    def repository(self) -> Path:
        """A person's repository."""
        return self.root / "repository"

    def in_place(self, room: str) -> Path:
        """A person's linked work tree of the repository, for a room that works in it."""
        return self.root / "trees" / room

    def options(self, **seams: Any) -> DaemonOptions:
        """Return what a daemon of this world is told."""
        return DaemonOptions(
            app=self.app,
            runtime=self.root / "run",
            version="1",
            pid=os.getpid(),
            environment={**_GIT, "HOME": str(self.root / "home")},
            blocked_plugins=BLOCKED,
            **seams,
        )

    # ------------------------------------------------------------------------------------------- what lives tell each other

    def note(self, name: str, record: Record) -> None:
        """Keep a record for later lives."""
        (self.root / "notes").mkdir(exist_ok=True)
        (self.root / "notes" / name).write_text(record.model_dump_json())

    def noted(self, name: str, record: type[R]) -> R:
        """Return a record that a former life kept."""
        return record.model_validate_json((self.root / "notes" / name).read_bytes())

    def asking(self, name: str, request: type[R]) -> R:
        """Return a request that a former life kept, under the id that this one asks under."""
        return self.noted(name, request).model_copy(update={"id": self.asked})

    def room(self, name: str = SUBJECT) -> RoomView:
        """Return a room as it was when the world was made."""
        return self.noted(name, RoomView)

    # ------------------------------------------------------------------------------------------------------- looking at it

    def work(self, name: str = SUBJECT) -> Path:
        """Return the directory of a room's own files, wherever its engine has them."""
        view = self.room(name)
        if view.workspace.source is WorkspaceSource.DIRECT_HOST:
            return self.in_place(name)
        if view.workspace.source is WorkspaceSource.PRIVATE_HOST_CLONE:
            return self.app / layout.guest_disk(view.host.id) / "clone"
        (native,) = [*self.app.glob(f"{layout.HOST_NATIVE}/*/*/{view.session.id}")] or [
            self.app / layout.session_workspace(view.host.id, view.session.id)
        ]
        return native

    def unfinished(self) -> list[str]:
        """Return the kinds of the operations that have not ended."""
        states = ", ".join(f"'{state.value}'" for state in UNFINISHED)
        return [str(kind) for (kind,) in self.rows(f"SELECT kind FROM operations WHERE state IN ({states})")]  # noqa: S608 - names

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Ask the database."""
        with closing(sqlite3.connect(f"file:{self.app / layout.DATABASE}?mode=ro", uri=True)) as opened:
            return opened.execute(query).fetchall()

    def digest(self) -> dict[str, str]:
        """Return what there is, rows and files, so that two looks can be compared and a difference has a name."""
        return self._rows() | files_in(self.app, but=self._without_bytes)

    def host_digest(self, name: str) -> dict[str, str]:
        """Return what lies in the directory of a room's host."""
        return files_in(self.app / layout.host_root(self.room(name).host.id))

    def _without_bytes(self, path: Path) -> bool:
        """Say whether a file is looked at otherwise, or says nothing: the database, logs, sockets, what a guest writes as it runs."""
        return path.name.startswith("jam.db") or path.suffix == ".log" or path.is_socket() or _GUEST in path.parts

    def _rows(self) -> dict[str, str]:
        names = [name for (name,) in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {f"table {name}": repr(sorted(map(repr, self.rows(f'SELECT * FROM "{name}"')))) for name in names}  # noqa: S608 - names

    # ---------------------------------------------------------------------------------------------------- keeping it

    def keep(self, state: Path) -> None:
        """Keep the world as it is. Nothing lives in it."""
        replace_tree(self.root, state)

    def bring_back(self, state: Path) -> None:
        """Make the world what it was."""
        replace_tree(state, self.root)


@asynccontextmanager
async def living(world: World, **seams: Any) -> AsyncIterator[Services]:
    """Live in a world once: a whole daemon without its socket. Its start has done what it does about former lives."""
    async with composed(world.options(**seams)) as services:
        yield services


def room_request(world: World, name: str, rooms: Rooms, identifier: UUID) -> RoomRequest:
    """Return the request for a room of a sort.

    Of the world's repository there are the clones, and the linked work trees that are worked on in place. Of the provider with a database
    no conversation of a shared sandbox can be exported, so those rooms have the one with logs.
    """
    provider, workspace, placement, path = "notebook", WorkspaceSource.MANAGED, Placement.DEDICATED, None
    if rooms is Rooms.SHARED:
        provider, placement = "logbook", Placement.SHARED
    elif rooms is not Rooms.MANAGED:
        workspace = WorkspaceSource.PRIVATE_HOST_CLONE if rooms is Rooms.CLONE else WorkspaceSource.DIRECT_HOST
        path = str(world.repository if rooms is Rooms.CLONE else world.in_place(name))
    return RoomRequest(
        id=identifier, name=name, provider=provider, engine="local", workspace=workspace, placement=placement, path=path
    )


async def make_world(world: World, rooms: Rooms = Rooms.MANAGED, **seams: Any) -> None:
    """Make the world: a plugin, a repository, and two rooms of a sort with turns that were captured, both parked."""
    for directory in (world.app, world.root / "home", world.root / "notes"):
        Files().make_private(directory)
    await _make_repository(world.repository)
    async with living(world, **seams) as services:
        for name in (SUBJECT, SIBLING):
            if rooms is Rooms.DIRECT:
                await _git(world.repository, "worktree", "add", "-q", "-b", name, str(world.in_place(name)))
            request = room_request(world, name, rooms, SystemIds().uuid())
            world.note(name, await services.rooms.create(request))
            for number in range(TURNS):
                await say(services, name, f"{name} {number}")
            (world.work(name) / "work.txt").write_text(f"work of {name}\n")
            await services.rooms.stop(name)
            world.note(name, await services.rooms.get(name))


async def say(services: Services, room: str, text: str) -> None:
    """Have a turn, and wait until it is captured."""
    turn = await services.rooms.say(room, TurnRequest(id=SystemIds().uuid(), text=text))
    with anyio.fail_after(WAIT_S):
        while (state := _state(await services.rooms.turns(room), turn.id)) is not TurnState.CAPTURED:
            assert state not in (TurnState.FAILED, TurnState.CUT), state
            await anyio.sleep(0.01)


def install_plugin(directory: Path) -> Path:
    """Put the doubles' entry points into a directory that can be put on ``sys.path``, and return it."""
    info = directory / "doubles-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: doubles\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(_ENTRY_POINTS)
    return directory


def replace_tree(source: Path, target: Path) -> None:
    """Make a copy of a tree, links as links, in the place of what is there."""
    if target.exists():
        Files().remove_tree(target)  # read-only directories too, for whoever is not root
    shutil.copytree(source, target, symlinks=True, ignore=lambda where, names: [n for n in names if Path(where, n).is_socket()])


def files_in(root: Path, *, but: Callable[[Path], bool] = lambda _: False) -> dict[str, str]:
    """Return name, mode and digest of everything below a directory."""
    found = {}
    for path in sorted(root.rglob("*")):
        if but(path):
            continue
        data = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(root))] = f"{path.lstat().st_mode:o} {hashlib.sha256(data).hexdigest()}"
    return found


def _state(turns: tuple[Turn, ...], turn: UUID) -> TurnState:
    return next(each.state for each in turns if each.id == turn)


async def _make_repository(directory: Path) -> None:
    directory.mkdir()
    (directory / "README").write_text("a person's own\n")
    who = ("-c", "user.name=p", "-c", "user.email=p@example.org")
    for argv in (("init", "-q", "-b", "main"), ("add", "."), (*who, "commit", "-q", "-m", "one")):
        await _git(directory, *argv)


async def _git(directory: Path, *argv: str) -> None:
    await anyio.run_process(("git", *argv), cwd=directory, env=_GIT)
