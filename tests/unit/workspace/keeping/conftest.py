"""The actions that keep workspaces, over a world in memory and a journal in a real store."""

# ruff: noqa: D102 - the methods are those of ArchiveSources, documented there

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import anyio
import pytest

from jamcore.domain.cells import WorkspaceSource
from jamcore.domain.exports import ExportDamagedError, ExportOrigin, ExportRequest, TreeChangedError
from jamcore.domain.kept_exports import ExportMaker, ExportState, KeptExport
from jamcore.domain.operations import About, ExportRetention, Operation, OperationState
from jamcore.journal.points import CrashPoints, NoCrash
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner
from jamcore.store import Store, StoreJournal, open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.workspace.keeping.archiving import ArchiveIntent, Seen, archive_action
from jamcore.workspace.keeping.exporting import Chosen, ExportPart

ID, OLDER = UUID(int=77 << 64), UUID(int=66 << 64)
AT = datetime(2026, 1, 2, tzinfo=UTC)


class World:
    """What an archive works on. ``live`` and ``aside`` are places of the one directory; ``whole`` is the state of its export.

    ``torn``: some of what was set aside is gone.
    """

    def __init__(self) -> None:
        self.live, self.aside = True, False
        self.export, self.whole = False, True
        self.older = True
        self.torn = False
        self.archived = False
        self.calls: list[str] = []
        self.fails: dict[str, Exception] = {}
        self.given_up: list[str] = []

    def check(self) -> None:
        """What holds at every moment (WS-4)."""
        assert self.export or self.older, "an export went before there was a new one"
        assert self.live or self.export, "a live byte went before there was an export"
        assert not (self.archived and (self.live or self.aside)), "archived, and not gone"

    def call(self, name: str) -> None:
        self.check()
        self.calls.append(name)
        if name in self.fails:
            raise self.fails[name]

    async def stand_down(self, intent: ArchiveIntent) -> None:
        self.call("stand_down")

    async def inspect(self, intent: ArchiveIntent) -> Seen:
        self.call("inspect")
        return Seen(inspected="a" * 64, exports_that_go=(OLDER,), files_removed=1, bytes_removed=10)

    async def choose(self, part: ExportPart) -> Chosen:
        self.call("choose")
        origin = ExportOrigin(
            agent_id=ID, agent_name="a", host_id=ID, session_id=ID, room_id=ID, room_name="r", provider="p", engine="e"
        )
        request = ExportRequest(export_id=part.export_id, origin=origin, source=WorkspaceSource.MANAGED)
        return Chosen(request=request, tree="t", checkpoint_id=None)

    async def write(self, part: ExportPart) -> str:
        self.call("write")
        self.export = True
        return "d" * 64

    async def keep(self, part: ExportPart, digest: str) -> KeptExport:
        self.call("keep")
        return KeptExport(
            id=part.export_id,
            maker=ExportMaker.HERE,
            state=ExportState.PUBLISHED,
            agent_id=ID,
            host_id=ID,
            session_id=ID,
            workspace_id=ID,
            room_id=ID,
            checkpoint_id=None,
            manifest_sha256=digest,
            files=1,
            bytes_total=10,
            created_at=AT,
            verified_at=AT,
        )

    async def withdraw(self, part: ExportPart) -> None:
        self.call("withdraw")

    async def require_export(self, intent: ArchiveIntent) -> None:
        self.call("read")
        if not self.whole:
            raise ExportDamagedError(export=str(intent.export_id), total=1, named=("x",))

    async def mark(self, intent: ArchiveIntent) -> None:
        self.call("mark")

    async def prune(self, intent: ArchiveIntent) -> None:
        self.call("prune")
        self.older = False

    async def note(self, intent: ArchiveIntent) -> None:
        self.call("note")

    async def set_aside(self, intent: ArchiveIntent) -> None:
        self.call("set_aside")
        self.live, self.aside = False, True

    async def is_aside(self, intent: ArchiveIntent) -> bool:
        return self.aside

    async def remove(self, intent: ArchiveIntent) -> None:
        self.call("remove")
        self.aside = False

    async def put_back(self, intent: ArchiveIntent) -> None:
        self.call("put_back")
        if self.torn:
            raise TreeChangedError(total=1, named=("x",))
        self.live, self.aside = True, False

    async def settle(self, intent: ArchiveIntent) -> None:
        self.call("settle")
        self.archived = True

    async def give_up(self, intent: ArchiveIntent, error: Exception) -> None:
        self.given_up.append(type(error).__name__)


def intent() -> ArchiveIntent:
    """Return an archive that keeps the latest export alone."""
    return ArchiveIntent(
        id=ID,
        room_id=ID,
        host_id=ID,
        session_id=ID,
        workspace_id=ID,
        export_id=ID,
        retention=ExportRetention.KEEP_LATEST,
        force=False,
        overrides=(),
        confirmed="c" * 64,
    )


class Journal(StoreJournal):
    """A real journal of a store that knows no rooms and hosts."""

    async def begin(self, identifier: UUID, kind: str, initial: str, about: About, state: OperationState) -> Operation:
        return await super().begin(identifier, kind, initial, About(), state)


class Lives:
    """The lives of one daemon over one world."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.world = World()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Store]:
        async with open_store(self.path, files=Files(), clock=SystemClock(), daemon_id=ID) as store:
            yield store

    async def run(self, crash: CrashPoints | None = None) -> ArchiveIntent:
        """Live once, and archive."""
        async with self.open() as store:
            return await Runner(Journal(store), crash or NoCrash()).run(archive_action(self.world), ID, intent())

    async def start(self, crash: CrashPoints | None = None) -> list[str]:
        """Live once, and do what start-up does; return the codes of what could not be finished."""
        async with self.open() as store:
            journal, registry = Journal(store), ActionRegistry()
            registry.register(archive_action(self.world))
            return [error.code for _, error in await registry.replay(journal, Runner(journal, crash or NoCrash()))]

    async def state(self) -> OperationState:
        """Return the state of the operation."""
        async with self.open() as store:
            return (await store.read(lambda repos: repos.operations.get(ID))).state


@pytest.fixture(scope="session")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database without rows: the schema is made once and copied."""
    path = tmp_path_factory.mktemp("blank") / "jam.db"

    async def prepare() -> None:
        async with Lives(path).open():
            pass

    anyio.run(prepare)
    return path


@pytest.fixture
def lives(tmp_path: Path, blank: Path) -> Lives:
    """A daemon that was never started."""
    return Lives(Path(shutil.copy(blank, tmp_path)))
