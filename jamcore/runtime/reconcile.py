"""Reconciling workspaces with their places on the disk, as a journaled action (START-2, START-3, WS-15).

What can be made again without hiding anything is made. A manifest that cannot be read or names somebody else, and a directory of files
that is gone, are left exactly as they were found, and the workspace is not used until a person has looked. On a person's word what lies
in the manifest's place is kept beside it under a name that says when, and the place is the workspace's own again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar
from uuid import UUID

import structlog
from anyio import to_thread

from jamcore.domain.cells import WorkspaceSource
from jamcore.domain.errors import FaultError
from jamcore.domain.events import SessionNotice
from jamcore.domain.operations import OnRestart
from jamcore.domain.reconciling import ManifestState, PlaceFound, WorkspacePlace
from jamcore.domain.records import Record
from jamcore.domain.sessions import WorkspaceState
from jamcore.journal.declaration import Declaration
from jamcore.journal.runner import Runner
from jamcore.journal.steps import Action, Step, boundaries
from jamcore.runtime.feed import RoomFeed
from jamcore.store import Repos, Store
from jamcore.system.blocking import in_thread
from jamcore.system.clock import Clock
from jamcore.system.files import Files
from jamcore.system.ids import IdSource
from jamcore.workspace.manifests import Manifests, expected
from jamcore.workspace.provision import Provisioner

KIND = "reconcile"
LOOK, ASIDE, MAKE, SETTLE = "look", "aside", "make", "settle"
RECONCILE_POINTS = boundaries(KIND, (LOOK, ASIDE, MAKE, SETTLE))
"""Every boundary of one reconciliation, in the order in which a run passes them."""
KEPT_MANIFEST = "manifest.json.found-"
"""Begins the name of a manifest that was found in the place of the host's own; the time follows."""
RECONCILED, NEEDS_A_PERSON = "workspace.reconciled", "workspace.needs_reconciliation"
_AS_FOUND = "everything as it was found"


@dataclass(eq=False)
class ReconcileFailedError(FaultError):
    """The place of a workspace could not be put right; what lies there is as it was found."""

    code: ClassVar[str] = "workspace.reconcile_failed"
    hint: ClassVar[str] = "Mend what the problem names, then repeat `jam workspace recover ROOM retry`."

    session: str
    problem: str


class ReconcileIntent(Record):
    """One reconciliation.

    Attributes:
        accepted: A person has looked, and said that the place is to be the workspace's own again.
        found: What lay there; known from the first step on.
        kept_as: The name under which a manifest that was not the host's own is kept beside it; empty when none was.
    """

    id: UUID
    room_id: UUID
    host_id: UUID
    session_id: UUID
    workspace_id: UUID
    accepted: bool = False
    found: PlaceFound | None = None
    kept_as: str = ""

    def seen(self) -> PlaceFound:
        """Return what was found.

        Raises:
            ValueError: Nobody has looked yet: the steps are in the wrong order.
        """
        if self.found is None:
            raise ValueError("an earlier step has not looked yet")
        return self.found

    @property
    def usable(self) -> bool:
        """Whether the workspace can be used when this has ended."""
        return self.accepted or self.seen().mends_itself


class Reconciler:
    """Finds workspaces whose place is not as it should be, and puts right what can be. One for each daemon."""

    def __init__(
        self, app: Path, *, files: Files, store: Store, feed: RoomFeed, runner: Runner, clock: Clock, ids: IdSource
    ) -> None:
        self._store = store
        self._feed = feed
        self._runner = runner
        self._clock = clock
        self._ids = ids
        self.manifests = Manifests(app, files=files)
        self._layout = Provisioner(app, files=files)
        self.action = Action(
            KIND,
            ReconcileIntent,
            (
                Step(LOOK, self._look, OnRestart.REPLAY, leaves=_AS_FOUND),
                Step(ASIDE, self._keep_aside, OnRestart.REPLAY, intend=self._named, leaves=_AS_FOUND),
                Step(MAKE, self._make, OnRestart.REPLAY, leaves="what was found, beside its place where it was in the way"),
                Step(SETTLE, self._settle, OnRestart.REPLAY, leaves="the directories, which nobody uses"),
            ),
            attempts=1,
            settle=self._give_up,
            declares=Declaration(
                title="reconciliation of the directories",
                evidence="the manifest in the host's directory, and the directory of the session's files",
                replay="workspace reconciliation",
            ),
        )

    async def unsound(self) -> tuple[WorkspacePlace, ...]:
        """Return the places of usable workspaces that something is wrong with, or of which the machine cannot say. Changes nothing.

        Thousands cost one statement, and two calls of the system each. A row that cannot be read hides no other.
        """
        try:
            places = await self._store.read(lambda repos: repos.workspaces.usable_places())
        except Exception:  # noqa: BLE001 - named boundary: a damaged row shows in as many ways as it can be damaged
            places = await self._store.read(_readable_places)
        return await to_thread.run_sync(lambda: tuple(place for place in places if not self._is_sound(place)))

    def _is_sound(self, place: WorkspacePlace) -> bool:
        try:
            return self.manifests.look(place).sound
        except OSError:
            return False

    async def found(self, place: WorkspacePlace) -> PlaceFound:
        """Look at one place.

        Raises:
            StorageFailedError: The machine cannot say.
        """
        return await in_thread(lambda: self.manifests.look(place))

    async def reconcile(self, place: WorkspacePlace, *, accepted: bool = False) -> ReconcileIntent:
        """Put one place right, or mark its workspace as one that a person has to look at.

        Args:
            place: Whose.
            accepted: A person said that the place is to be the workspace's own again, whatever lies there.

        Raises:
            StorageFailedError: The machine cannot say what lies there; nothing was begun.
            ConflictError: Another operation of the workspace has not ended.
            ReconcileFailedError: It could not be put right.
        """
        await self.found(place)
        room = await self._store.read(lambda repos: repos.bindings.of_session(place.session_id).room_id)
        intent = ReconcileIntent(
            id=self._ids.uuid(),
            room_id=room,
            host_id=place.host_id,
            session_id=place.session_id,
            workspace_id=place.workspace_id,
            accepted=accepted,
        )
        return await self._runner.run(self.action, intent.id, intent)

    # ---------------------------------------------------------------------------------------------------------------- the steps

    async def _look(self, intent: ReconcileIntent) -> ReconcileIntent:
        place = await self._place(intent)
        return intent.model_copy(update={"found": await in_thread(lambda: self.manifests.look(place))})

    def _named(self, intent: ReconcileIntent) -> ReconcileIntent:
        in_the_way = intent.seen().manifest in (ManifestState.UNREADABLE, ManifestState.ANOTHERS)
        if not (intent.accepted and in_the_way):
            return intent
        stamp = self._clock.now().strftime("%Y%m%dT%H%M%SZ")
        return intent.model_copy(update={"kept_as": f"{KEPT_MANIFEST}{stamp}-{str(intent.id)[-8:]}"})

    async def _keep_aside(self, intent: ReconcileIntent) -> ReconcileIntent:
        if intent.kept_as:
            await in_thread(lambda: self.manifests.keep_aside(intent.host_id, intent.kept_as))
        return intent

    async def _make(self, intent: ReconcileIntent) -> ReconcileIntent:
        if intent.usable:
            place = await self._place(intent)
            if not await in_thread(lambda: self._made(place)):
                raise ReconcileFailedError(session=str(intent.session_id), problem="another manifest came into its place")
        return intent

    def _made(self, place: WorkspacePlace) -> bool:
        source = WorkspaceSource(place.source)
        return self._layout.provision(
            expected(place), session=place.session_id, source=source, subdirectories=(), elsewhere=place.native
        )

    async def _settle(self, intent: ReconcileIntent) -> ReconcileIntent:
        await self._note(intent, WorkspaceState.READY if intent.usable else WorkspaceState.NEEDS_RECONCILIATION)
        return intent

    async def _give_up(self, intent: ReconcileIntent, error: Exception) -> None:
        del error
        await self._note(intent, WorkspaceState.NEEDS_RECONCILIATION)

    async def _note(self, intent: ReconcileIntent, state: WorkspaceState) -> None:
        if await self._store.transact(partial(_note, intent, state)):
            self._feed.announce(intent.room_id)

    async def _place(self, intent: ReconcileIntent) -> WorkspacePlace:
        return await self._store.read(lambda repos: repos.workspaces.place(intent.workspace_id))


def _readable_places(repos: Repos) -> tuple[WorkspacePlace, ...]:
    found = []
    for identifier in repos.workspaces.usable_ids():
        try:
            found.append(repos.workspaces.place(identifier))
        except Exception:  # noqa: BLE001 - see Reconciler.unsound
            structlog.get_logger("jam.startup").exception("the place of a workspace cannot be read", workspace=str(identifier))
    return tuple(found)


def _note(intent: ReconcileIntent, state: WorkspaceState, repos: Repos) -> bool:
    """Keep what came of it and say it in the room, once; returns whether anything changed."""
    before = repos.workspaces.get(intent.workspace_id).state
    if before is not state:
        repos.workspaces.move(intent.workspace_id, state)
        if native := repos.host_native.of_session(intent.session_id):
            repos.host_native.move(native.id, state)
    elif state is WorkspaceState.NEEDS_RECONCILIATION:
        return False
    wrong = "; ".join(intent.found.words()) if intent.found else "its place could not be looked at"
    if state is WorkspaceState.READY:
        kept = f"; what lay there is kept as {intent.kept_as}" if intent.kept_as else ""
        said = SessionNotice(code=RECONCILED, detail=f"the workspace's place was put right: {wrong or 'nothing was wrong'}{kept}")
    else:
        todo = "`jam workspace inspect` shows what is there, and `jam workspace recover` puts it right"
        said = SessionNotice(code=NEEDS_A_PERSON, detail=f"the workspace is not used until a person has looked: {wrong}; {todo}")
    repos.events.append(intent.room_id, None, [said])
    return True
