"""Any history of rooms, exports, archives, restores, imports, deletions and clean-ups, with kills and retries, against a small model.

A whole daemon is driven through its services, on each database. After everything that happens, rooms and exports stand where the model
says, work trees and exports hold what it says, nothing is half done, and nobody else's files or conversation changed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from jamcore.continuity.resets.action import RESET_POINTS
from jamcore.continuity.retention.deletion import REMOVAL_POINTS
from jamcore.daemon.services import Services
from jamcore.domain import layout
from jamcore.domain.cleanup_plans import CleanupQuestion, CleanupRequest
from jamcore.domain.errors import JamError
from jamcore.domain.events import Message
from jamcore.domain.export_deletions import ExportDeletionRequest, LastExportError
from jamcore.domain.imports import AdoptRequest, ConfirmRequest, ImportRequest
from jamcore.domain.keeping import ArchiveQuestion, ArchiveRequest, RestoreRequest, RoomExportRequest
from jamcore.domain.kept_exports import ExportState
from jamcore.domain.operations import ExportRetention, OperationState
from jamcore.domain.removal import RemovalBlockedError, RemovalOverride
from jamcore.domain.requests import RoomRequest, RoomView, TurnRequest
from jamcore.domain.resets import StartFreshRequest
from jamcore.domain.retention import RemovalQuestion, RemovalRequest
from jamcore.domain.sessions import HostState, WorkspaceState
from jamcore.runtime.provision import PROVISION_POINTS
from jamcore.sandbox.cleanup import CLEANUP_POINTS
from jamcore.system.ids import SystemIds
from jamcore.testing.histories import asking
from jamcore.testing.histories.asking import Ask, Asked
from jamcore.testing.histories.beginning import beginning
from jamcore.testing.histories.lives import Daemon, Place
from jamcore.testing.histories.model import KnownExport, KnownRoom, Model
from jamcore.testing.parked_world import install_plugin, replace_tree, say
from jamcore.testing.postgres import PostgresServer
from jamcore.workspace.keeping.adopting import ADOPT_POINTS
from jamcore.workspace.keeping.archiving import ARCHIVE_POINTS
from jamcore.workspace.keeping.deleting import EXPORT_DELETION_POINTS
from jamcore.workspace.keeping.exporting import EXPORT_POINTS, WRITE_POINTS
from jamcore.workspace.keeping.importing import COPY_POINTS, IMPORT_POINTS
from jamcore.workspace.keeping.restoring import PLACE_POINTS, RESTORE_POINTS

pytestmark = pytest.mark.unprivileged
GUARANTEES = pytest.mark.guarantee("WS-2", "WS-4", "WS-5", "WS-6", "WS-7", "WS-8", "WS-11", "WS-15", "WS-17")

Kills = tuple[int | None, int | None]
KILLS = st.tuples(st.none() | st.integers(0, 59), st.none() | st.integers(0, 59))
"""Where a daemon is killed over a request, and where the next one is over what it does about that: at a boundary, or nowhere."""
ROOMS, EXPORTS = st.integers(0, 9), st.integers(0, 9)
"""Which of those that there are: mostly one for which the request can be granted."""
ANY = 8
"""From this number on it is one of all."""
MOST_ROOMS, MOST_EXPORTS = 5, 9


class History(RuleBasedStateMachine):
    """What people, daemons and their deaths do to two rooms and whatever becomes of them."""

    first: ClassVar[tuple[Place, Model]]
    """Set by the test."""

    @initialize()
    def begin(self) -> None:
        """Rooms at work, a room that is archived, an export from elsewhere."""
        self.place, self.model = self.first[0], deepcopy(self.first[1])
        self.place.put_back()
        self.asked: list[Asked] = []
        self.daemon = Daemon(self.place)
        self.count = 0

    # --------------------------------------------------------------------------------------------------------------------- rooms

    @rule(which=ROOMS)
    def say(self, which: int) -> None:
        """A turn in a room, which comes back first: its answer is the whole conversation."""
        room, text = self._room(which), self._new("said")
        if not room.usable:
            self._refused(lambda services: services.rooms.say(room.name, TurnRequest(id=SystemIds().uuid(), text=text)))
            return
        self.daemon.ask(lambda services: say(services, room.name, text))
        self.model.spoken(room, text)
        assert self.daemon.ask(lambda services: _last_message(services, room.name)) == " | ".join(room.said)

    @rule(which=ROOMS)
    def stop(self, which: int) -> None:
        """A room is stopped, wherever it is."""
        room = self._room(which)
        self.daemon.ask(lambda services: services.rooms.stop(room.name))
        if room.live:
            room.live, room.host = False, HostState.PARKED

    @rule(which=ROOMS)
    def write(self, which: int) -> None:
        """Work is done in a room."""
        room, name = self._room(which), self._new("file")
        if room.usable:
            tree = self.place.tree(self._view(room).session.id)
            assert tree is not None
            (tree / name).write_bytes(room.name.encode())
            room.files[name] = room.name.encode()

    @precondition(lambda self: len(self.model.rooms) < MOST_ROOMS)
    @rule(kill=KILLS)
    def make(self, kill: Kills) -> None:
        """A new room; one whose making was cut is there all the same, and is brought up by the same request."""
        name = self._new("room")
        request = RoomRequest(id=SystemIds().uuid(), name=name, provider="notebook", engine="local")
        first, second = _points(PROVISION_POINTS, kill)
        if self.daemon.ask(lambda services: services.rooms.create(request), killed_at=first) is None:
            self._restart(killed_at=second)
            self.daemon.ask(lambda services: services.rooms.create(request))
        self.model.rooms[name] = KnownRoom(name, live=True, host=HostState.ACTIVE)
        self._refused(lambda services: services.rooms.create(request.model_copy(update={"name": f"{name}-other"})))

    @rule(which=ROOMS, kill=KILLS)
    def begin_afresh(self, which: int, kill: Kills) -> None:
        """A conversation that is damaged beyond resuming is given up; the files go on, in another sandbox."""
        room = self._room(which, self.model.may_begin_afresh)
        if not self.model.may_begin_afresh(room):
            return
        with self.place.damaged(self._view(room).host.id) as keep:
            view = self.daemon.ask(lambda services: services.continuity.inspect(room.name))
            assert view is not None
            if not view.can_start_fresh:
                return
            keep()
        request = StartFreshRequest(id=SystemIds().uuid(), evidence=view.digest, confirm=True)
        asked = asking.fresh_start(room.name, request)
        if self._done(asked, RESET_POINTS, kill, legal=True):
            self.model.begun_afresh(room)
            self.daemon.ask(asked.again)

    # ------------------------------------------------------------------------------------------------------------------- keeping

    @precondition(lambda self: len(self.model.exports) < MOST_EXPORTS)
    @rule(which=ROOMS, kill=KILLS)
    def export(self, which: int, kill: Kills) -> None:
        """A room's files and its conversation are exported."""
        room, request = self._room(which), RoomExportRequest(id=SystemIds().uuid())
        asked = asking.export(room.name, request)
        if self._done(asked, (*EXPORT_POINTS, *WRITE_POINTS), kill, legal=room.usable):
            self.model.exported(request.id, room)

    @precondition(lambda self: len(self.model.exports) < MOST_EXPORTS)
    @rule(which=ROOMS, retention=st.sampled_from(ExportRetention), force=st.sampled_from((True, True, False)), kill=KILLS)
    def archive(self, which: int, retention: ExportRetention, force: bool, kill: Kills) -> None:
        """A room's files go into an export, if nothing stands against it or each thing is overridden."""
        room, question = self._room(which, self.model.may_archive), ArchiveQuestion(retention=retention)
        if not self.model.may_archive(room):
            self._stands_against(lambda services: services.archives.plan(room.name, question))
            return
        plan = self.daemon.ask(lambda services: services.archives.plan(room.name, question))
        assert plan is not None
        words = tuple(RemovalOverride(reason=each.reason, path=each.path) for each in plan.standing)
        request = ArchiveRequest(
            id=SystemIds().uuid(),
            retention=retention,
            overrides=words if force else (),
            confirmed=plan.evidence.content_digest(),
        )
        asked = asking.archive(room.name, request)
        if words and not force:
            with pytest.raises(RemovalBlockedError):
                self.daemon.ask(asked.again)
            room.workspace = WorkspaceState.REMOVAL_BLOCKED
        elif self._done(asked, ARCHIVE_POINTS, kill, legal=True):
            self.model.archived(request.id, room, retention)

    @precondition(lambda self: any(room.archived for room in self.model.rooms.values()))
    @rule(which=ROOMS, export=st.none() | EXPORTS, kill=KILLS)
    def restore(self, which: int, export: int | None, kill: Kills) -> None:
        """A room's files come back from the newest of its exports, or from any that is named."""
        room = self._room(which, lambda each: self.model.may_restore(each, None))
        chosen = None if export is None else self._export(export, lambda each: each.room == room.name)
        ref = str(chosen.id) if chosen else None
        request = RestoreRequest(id=SystemIds().uuid(), export=ref)
        sibling = next(name for name in self.model.rooms if name != room.name)
        asked = asking.restore(room.name, sibling, request)
        points = (*RESTORE_POINTS, *PLACE_POINTS)
        if self._done(asked, points, kill, legal=self.model.may_restore(room, chosen)):
            self.model.restored(room, chosen)

    @precondition(lambda self: self.model.exports)
    @rule(which=EXPORTS, lose=st.booleans(), kill=KILLS)
    def delete_export(self, which: int, lose: bool, kill: Kills) -> None:
        """An export goes; the last one of a room only when somebody says that its files may be lost."""
        export = self._export(which, self.model.may_delete)
        assert export is not None
        ref = str(export.id)
        if not self.model.may_delete(export):
            self._stands_against(lambda services: services.export_deletions.plan(ref))
            return
        plan = self.daemon.ask(lambda services: services.export_deletions.plan(ref))
        assert plan is not None
        request = ExportDeletionRequest(id=SystemIds().uuid(), confirmed=plan.digest, lose_workspace=lose)
        asked = asking.deletion(ref, request)
        if self.model.is_last(export) and not lose:
            with pytest.raises(LastExportError):
                self.daemon.ask(asked.again)
        elif self._done(asked, EXPORT_DELETION_POINTS, kill, legal=True):
            export.state = ExportState.DELETED

    @precondition(lambda self: any(room.archived for room in self.model.rooms.values()))
    @rule(which=ROOMS, kill=KILLS)
    def clean_up(self, which: int, kill: Kills) -> None:
        """A whole sandbox goes; exports stay."""
        room = self._room(which, self.model.may_clean_up)
        if not self.model.may_clean_up(room):
            self._stands_against(lambda services: services.cleanups.plan(room.name, CleanupQuestion()))
            return
        plan = self.daemon.ask(lambda services: services.cleanups.plan(room.name, CleanupQuestion()))
        assert plan is not None
        assert plan.digest, plan.standing
        request = CleanupRequest(id=SystemIds().uuid(), confirmed=plan.digest)
        asked = asking.clean_up(room.name, request)
        if self._done(asked, CLEANUP_POINTS, kill, legal=True):
            room.host = HostState.REMOVED

    @rule(which=ROOMS, kill=KILLS)
    def remove_checkpoints(self, which: int, kill: Kills) -> None:
        """What no conversation needs of a room's checkpoints goes."""
        room = self._room(which)
        standings = self.daemon.ask(lambda services: services.removals.standings(room.name)) or ()
        chosen = tuple(str(each.checkpoint.id) for each in standings if not each.removed_at)[1:]
        if not chosen:
            return
        plan = self.daemon.ask(lambda services: services.removals.plan(RemovalQuestion(checkpoints=chosen)))
        if plan is None or not plan.digest:
            return
        request = RemovalRequest(id=SystemIds().uuid(), checkpoints=chosen, confirmed=plan.digest)
        asked = asking.removal(request)
        self._done(asked, REMOVAL_POINTS, kill, legal=True)

    # ----------------------------------------------------------------------------------------------------------------- elsewhere

    @precondition(lambda self: len(self.model.exports) < MOST_EXPORTS)
    @rule(which=EXPORTS, kill=KILLS)
    def take_in(self, which: int, kill: Kills) -> None:
        """An export comes back as one from elsewhere."""
        source = self._export(which, lambda each: each.there)
        if source is None or not source.there:
            return
        path = self.place.world.root / self._new("elsewhere")
        replace_tree(self.place.world.app / layout.export_root(source.id), path)
        request = ImportRequest(id=SystemIds().uuid(), path=str(path))
        asked = asking.taking(request)
        if self._done(asked, (*IMPORT_POINTS, *COPY_POINTS), kill, legal=True):
            self.model.taken(request.id, source)

    @precondition(lambda self: any(export.elsewhere for export in self.model.exports.values()))
    @rule(which=EXPORTS)
    def confirm(self, which: int) -> None:
        """A person confirms an export."""
        export = self._export(which, lambda each: each.state is ExportState.QUARANTINED)
        assert export is not None
        ref = str(export.id)
        if not (export.elsewhere and export.there):
            self._refused(lambda services: services.imports.inspect(ref))
            return
        view = self.daemon.ask(lambda services: services.imports.inspect(ref))
        assert view is not None
        self._refused(lambda services: services.imports.confirm(ref, ConfirmRequest(confirmed="0" * 64)))
        self.daemon.ask(lambda services: services.imports.confirm(ref, ConfirmRequest(confirmed=view.digest)))
        export.state = ExportState.PUBLISHED

    @precondition(
        lambda self: len(self.model.rooms) < MOST_ROOMS and any(export.elsewhere for export in self.model.exports.values())
    )
    @rule(which=EXPORTS, kill=KILLS)
    def adopt(self, which: int, kill: Kills) -> None:
        """An export from elsewhere becomes a new room, if it was confirmed and is none yet."""
        export, name = self._export(which, self.model.may_adopt), self._new("room")
        assert export is not None
        ref = str(export.id)
        request = AdoptRequest(id=SystemIds().uuid(), name=name, engine="local")
        asked = asking.adoption(ref, request)
        if self._done(asked, ADOPT_POINTS, kill, legal=self.model.may_adopt(export)):
            self.model.adopted(name, export)

    # ------------------------------------------------------------------------------------------------------- daemons and requests

    @rule()
    def restart(self) -> None:
        """The daemon ends, and another begins."""
        self._restart()

    @precondition(lambda self: self.asked)
    @rule(which=st.integers(0, 9))
    def ask_again(self, which: int) -> None:
        """A request that was done is repeated: whatever became of its things, nothing changes."""
        asked = self.asked[which % len(self.asked)]
        before = self.place.digest()
        with suppress(JamError):  # what it made may be gone
            self.daemon.ask(asked.again)
        _require_same(before, self.place.digest())

    @precondition(lambda self: self.asked)
    @rule(which=st.integers(0, 9))
    def ask_otherwise(self, which: int) -> None:
        """Something else under the id of a request that was done is refused."""
        self._refused(self.asked[which % len(self.asked)].otherwise)

    @rule(which=EXPORTS)
    def verify(self, which: int) -> None:
        """An export is read whole."""
        if export := self._export(which):
            verdict = self.daemon.ask(lambda services: services.exports.verify(str(export.id)))
            assert verdict is not None
            assert verdict.sound is export.there, verdict

    # ------------------------------------------------------------------------------------------------------------ what must hold

    @invariant()
    def nothing_is_half_done(self) -> None:
        """No operation waits, and no directory lies about that is on its way in or out."""
        if hasattr(self, "daemon"):
            assert self.place.unfinished() == []
            assert self.place.on_the_way_out() == []
            assert self.place.exports() == {str(each.id) for each in self.model.exports.values() if each.there}

    @invariant()
    def everything_is_where_it_is_known(self) -> None:
        """States, files and exports are those of the model: siblings' too."""
        if not hasattr(self, "daemon"):
            return
        rooms = {view.room.name: view for view in self.daemon.ask(lambda services: services.rooms.list()) or ()}
        assert rooms.keys() == self.model.rooms.keys()
        for name, room in self.model.rooms.items():
            view = rooms[name]
            found = (view.live, view.workspace.state, view.host.state)
            assert found == (room.live, room.workspace, room.host), name
            assert self.place.files(view.session.id) == room.files, name
        exports = self.daemon.ask(lambda services: services.exports.list(None)) or ()
        assert {row.export.id: (row.export.state, row.room or None) for row in exports} == {
            each.id: (each.state, each.room) for each in self.model.exports.values()
        }
        for export in self.model.exports.values():
            if export.there:
                assert self._exported(export) == export.files

    def teardown(self) -> None:
        """In the end every export that is there is sound."""
        if hasattr(self, "daemon"):
            for which in range(len(self.model.exports)):
                self.verify(which)
            self.daemon.end()

    # -------------------------------------------------------------------------------------------------------------------- inside

    def _done(self, asked: Asked, points: tuple[str, ...], kill: Kills, *, legal: bool) -> bool:
        """Ask, perhaps be killed over it, and say whether it was done. What was begun is done when the daemon has started again."""
        if not legal:
            self._refused(asked.again)
            return False
        first, second = _points(points, kill)
        answer = self.daemon.ask(asked.again, killed_at=first)
        if answer is None:
            self._restart(killed_at=second)
        state = self.place.ended(asked.id)
        assert state in ((OperationState.SUCCEEDED,) if answer is not None else (OperationState.SUCCEEDED, None)), (state, kill)
        if state is not None:
            self.asked.append(asked)
        return state is not None

    def _restart(self, killed_at: str | None = None) -> None:
        self.daemon.end()
        self.model.cut()
        self.daemon = Daemon(self.place, killed_at=killed_at)
        if not self.daemon.lives:
            self.daemon.end()
            self.daemon = Daemon(self.place)

    def _refused(self, ask: Ask) -> None:
        before = self.place.digest()
        with pytest.raises(JamError):
            self.daemon.ask(ask)
        _require_same(before, self.place.digest())

    def _stands_against(self, plan: Callable[[Services], Awaitable[Any]]) -> None:
        """Require that a plan says that it cannot be: by refusing to look, or without a digest to confirm."""
        try:
            found = self.daemon.ask(plan)
        except JamError:
            return
        assert found is not None
        assert found.digest == "", found

    def _room(self, which: int, fits: Callable[[KnownRoom], bool] = lambda _: True) -> KnownRoom:
        fitting = [room for room in self.model.rooms.values() if which >= ANY or fits(room)]
        found = fitting or list(self.model.rooms.values())
        return found[which % len(found)]

    def _export(self, which: int, fits: Callable[[KnownExport], bool] = lambda _: True) -> KnownExport | None:
        fitting = [export for export in self.model.exports.values() if which >= ANY or fits(export)]
        found = fitting or list(self.model.exports.values())
        return found[which % len(found)] if found else None

    def _view(self, room: KnownRoom) -> RoomView:
        view = self.daemon.ask(lambda services: services.rooms.get(room.name))
        assert view is not None
        return view

    def _exported(self, export: KnownExport) -> dict[str, bytes]:
        tree = self.place.world.app / layout.export_root(export.id) / "workspace"
        return {str(path.relative_to(tree)): path.read_bytes() for path in tree.rglob("*") if path.is_file()}

    def _new(self, what: str) -> str:
        self.count += 1
        return f"{what}-{self.count}"


def _points(points: tuple[str, ...], kill: Kills) -> tuple[str | None, str | None]:
    first, second = (None if each is None else points[each % len(points)] for each in kill)
    return first, second


async def _last_message(services: Services, room: str) -> str:
    async with services.rooms.events(room, after=0, follow=False) as events:
        return [event.payload.text async for event in events if isinstance(event.payload, Message)][-1]


def _require_same(before: dict[str, str], after: dict[str, str]) -> None:
    assert before == after, sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def _run(first: tuple[Place, Model], *, histories: int, steps: int, shortest: bool = True) -> None:
    """Play histories; with ``shortest`` a failing one is made as short as can be, which takes many more of them."""
    History.first = first
    checks = settings(
        max_examples=histories,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=tuple(each for each in Phase if shortest or each is not Phase.shrink),
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(History, settings=checks)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """In memory where that can be had: what survives a power cut is proved elsewhere."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(install_plugin(tmp_path / "site"))])
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="jam-", dir=memory if memory.is_dir() else tmp_path) as made:
        yield Path(made)


@GUARANTEES
def test_any_history(directory: Path) -> None:
    """A failing history is printed as the shortest that fails."""
    with beginning(directory) as first:
        _run(first, histories=5, steps=16)


@GUARANTEES
@pytest.mark.needs("postgres")
def test_any_history_on_postgresql(directory: Path, postgres: PostgresServer) -> None:
    """The same, with the rows on a server."""
    with beginning(directory, postgres) as first:
        _run(first, histories=3, steps=12)


@GUARANTEES
@pytest.mark.timeout(900)
@pytest.mark.slow
@pytest.mark.needs("postgres")
@pytest.mark.parametrize("on_server", [False, True], ids=["sqlite", "postgresql"])
def test_many_histories(directory: Path, on_server: bool, request: pytest.FixtureRequest) -> None:
    """More of them, and longer ones."""
    with beginning(directory, request.getfixturevalue("postgres") if on_server else None) as first:
        _run(first, histories=4 if on_server else 10, steps=30, shortest=False)
