"""Looks at a host that may be cleaned up, and names everything that stands against it (WS-8, WS-17, OWN-9). Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from anyio import from_thread, to_thread

from jamcore.daemon.enginehouse import EngineHouse
from jamcore.daemon.host_files import HostFiles
from jamcore.daemon.sound_exports import SoundExports
from jamcore.daemon.workspace_looks import stored_workspace
from jamcore.domain.cells import Ability, WorkspaceSource
from jamcore.domain.cleanup_plans import CleanupBlocker, CleanupEvidence, CleanupItem, CleanupReason
from jamcore.domain.clone_work import CloneWork
from jamcore.domain.errors import JamError
from jamcore.domain.keeping import KeptBytes
from jamcore.domain.kept_exports import ExportState, KeptExport
from jamcore.domain.ownership import Disposition, MarkerUnreadableError, OwnerMarker
from jamcore.domain.plan import Plan
from jamcore.domain.safekeeping import UnsavedHost
from jamcore.domain.sandboxes import Presence
from jamcore.domain.sessions import HostState, Room, RuntimeHost, RuntimeSession, SessionState, SessionWorkspace, WorkspaceState
from jamcore.engines.port import Engine
from jamcore.sandbox.cleanup import agreed_presence
from jamcore.sandbox.ownership import Ownership
from jamcore.sandbox.reconciliation import Seen, StoredHost, classify
from jamcore.store import Repos, Store
from jamcore.system.blocking import in_thread

_R = CleanupReason
_STAYING = (ExportState.QUARANTINED, ExportState.PUBLISHED)


@dataclass(frozen=True, slots=True)
class _Member:
    """A session of the host, its room's name, and the exports of its workspace that may be restored.

    ``unplaced`` is where files belong that never came; ``None``: they came.
    """

    session: RuntimeSession
    workspace: SessionWorkspace
    room: str
    exports: tuple[KeptExport, ...]
    unplaced: str | None


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the store says. ``carried``: a fresh start took the host's files over to another one, and has ended."""

    host: RuntimeHost
    members: tuple[_Member, ...]
    carried: bool
    busy: tuple[str, ...]
    leased: bool
    unsaved: UnsavedHost | None
    exports: tuple[KeptExport, ...]


@dataclass(frozen=True, slots=True)
class _Sandbox:
    presence: str
    marker: str
    work: CloneWork | None
    blockers: tuple[CleanupBlocker, ...]


class CleanupLooks:
    """Gathers evidence from the store, the engine, the disk and the exports."""

    def __init__(
        self,
        *,
        store: Store,
        engines: EngineHouse,
        ownership: Callable[[Engine], Ownership],
        files: HostFiles,
        sound: SoundExports,
        is_up: Callable[[UUID], bool],
    ) -> None:
        self._store = store
        self._engines = engines
        self._ownership = ownership
        self._files = files
        self._sound = sound
        self._is_up = is_up

    async def look(self, host: UUID, own: UUID | None = None) -> CleanupEvidence:
        """Return the evidence as it is now. ``own``: the operation that asks does not stand against itself."""
        stored = await self._store.read(partial(_stored, host, own))
        sandbox = await self._sandbox(stored)
        items, unreadable = await self._items(stored)
        missing = await self._not_kept(stored)
        blockers = (*_of_store(stored), *self._of_life(stored), *sandbox.blockers, *missing, *unreadable)
        return CleanupEvidence(
            host_id=host,
            sandbox=stored.host.sandbox,
            engine=stored.host.engine,
            presence=sandbox.presence,
            marker_digest=sandbox.marker,
            rooms=tuple(member.room for member in stored.members),
            items=items,
            exports=tuple(KeptBytes(id=each.id, bytes_total=each.bytes_total) for each in stored.exports),
            work=sandbox.work,
            blockers=blockers,
        )

    async def root_items(self, host: RuntimeHost) -> tuple[CleanupItem, ...]:
        """Return what the host's directory holds.

        Raises:
            OSError: It cannot be looked at, or something is mounted there.
        """
        return await to_thread.run_sync(self._root_items, host)

    # ----------------------------------------------------------------------------------------------------------- its parts

    def _of_life(self, stored: _Stored) -> Iterator[CleanupBlocker]:
        if stored.leased or self._is_up(stored.host.id):
            yield _blocker(_R.LIVE, stored.host.sandbox, "a worker of this daemon holds it: stop its rooms")

    async def _not_kept(self, stored: _Stored) -> list[CleanupBlocker]:
        found = []
        for member in stored.members:
            if member.workspace.source is not WorkspaceSource.MANAGED:
                continue
            if member.workspace.state is not WorkspaceState.ARCHIVED:
                found += await self._not_archived(member)
            elif not stored.carried and await self._sound.first(member.exports) is None:
                problem = "no export of it was found sound now: `jam export verify` says what is wrong with each"
                found.append(_blocker(_R.NO_EXPORT, member.room, problem))
        return found

    async def _not_archived(self, member: _Member) -> list[CleanupBlocker]:
        """Name a workspace whose files may be live. Files that never came are not, while nothing else lies in their place."""
        detail = f"its workspace is {member.workspace.state}: jam workspace archive {member.room}"
        if member.unplaced is not None:
            try:
                if not await to_thread.run_sync(self._files.has, member.unplaced):
                    return []
            except OSError as error:
                return [_blocker(_R.UNREADABLE, member.room, f"{error.strerror or error}: {member.unplaced}")]
            exports = f"`jam workspace recover {member.room} export` exports it"
            detail = f"something else is in the place of its files: {exports}, then move {member.unplaced} away"
        return [_blocker(_R.NOT_ARCHIVED, member.room, detail)]

    async def _items(self, stored: _Stored) -> tuple[tuple[CleanupItem, ...], tuple[CleanupBlocker, ...]]:
        host = stored.host
        if mounted := await in_thread(partial(self._files.mounted, host.id)):
            return (), (_blocker(_R.MOUNTED, host.sandbox, f"{mounted[0]} is mounted below its directory: unmount it"),)
        sandbox = CleanupItem(what="sandbox", path="", in_root=False, with_sandbox=True)
        try:
            root = await self.root_items(host)
            records = await to_thread.run_sync(self._files.owner_records, host.sandbox)
        except OSError as error:
            return (), (_blocker(_R.UNREADABLE, host.sandbox, f"{error.strerror or error}: {error.filename or 'its directory'}"),)
        return (sandbox, *records, *root), ()

    def _root_items(self, host: RuntimeHost) -> tuple[CleanupItem, ...]:
        if mounted := self._files.mounted(host.id):
            raise OSError(f"something is mounted at {mounted[0]}")
        return self._files.items(host.id, disk_goes=not self._keeps_disk(host), alive=from_thread.check_cancelled)

    def _keeps_disk(self, host: RuntimeHost) -> bool:
        try:
            return Ability.KEEPS_DISK in self._engines.get(host.engine).abilities
        except JamError:
            return True  # nothing is removed without the engine, so nothing goes with its sandbox

    async def _sandbox(self, stored: _Stored) -> _Sandbox:
        """Ask the engine, and classify its sandbox as the report on all of them does (OWN-6)."""
        host = stored.host
        try:
            ownership = self._ownership(self._engines.get(host.engine))
            presence = await agreed_presence(ownership.calls, host.sandbox)
        except JamError as error:
            return _Sandbox("unknown", "", None, (_blocker(_R.ENGINE, host.sandbox, str(error)),))
        marker, plan = await to_thread.run_sync(_marker, ownership, host.sandbox), Plan.model_validate_json(host.plan_json)
        blockers = list(_of_sandbox(host, marker, presence))
        digest = marker.content_digest() if isinstance(marker, OwnerMarker) else ""
        work = None
        if not blockers:
            blockers += await _unproven(ownership, host.sandbox, marker, presence)
            work = await self._work(stored, ownership, plan, presence)
            blockers += [_blocker(_R.WORK, host.sandbox, lost) for lost in work.blockers()] if work else []
        return _Sandbox(presence.value, digest, work, tuple(blockers))

    async def _work(self, stored: _Stored, ownership: Ownership, plan: Plan, presence: Presence) -> CloneWork | None:
        """Look at a private clone; where its sandbox is gone and its disk is not, nobody can show it, and unknown is not nothing."""
        if not plan.clone:
            return None
        if presence is not Presence.ABSENT:
            return await ownership.work(plan, presence)
        disk = await in_thread(partial(self._files.has_disk, stored.host.id))
        unknown = "its sandbox is gone and its files are not: resume the room, stop it, and look again"
        return CloneWork(commit="", unknown=(unknown,)) if disk else None


async def _unproven(
    ownership: Ownership, sandbox: str, marker: OwnerMarker | MarkerUnreadableError | None, presence: Presence
) -> list[CleanupBlocker]:
    """Ask for the proof where that needs no start of the sandbox; the removal asks in any case (OWN-3)."""
    if presence is Presence.ABSENT or not isinstance(marker, OwnerMarker) or Ability.HOST_VIEW not in ownership.engine.abilities:
        return []
    try:
        await ownership.prove(sandbox, marker.nonce)
    except JamError as error:
        return [_blocker(_R.SANDBOX, sandbox, f"{error}: see `jam host override`")]
    return []


def _marker(ownership: Ownership, sandbox: str) -> OwnerMarker | MarkerUnreadableError | None:
    try:
        return ownership.records.marker(sandbox)
    except MarkerUnreadableError as error:
        return error


def _of_sandbox(
    host: RuntimeHost, marker: OwnerMarker | MarkerUnreadableError | None, presence: Presence
) -> Iterator[CleanupBlocker]:
    """Accept exactly one healthy stopped sandbox, or none."""
    if presence is Presence.RUNNING:
        yield _blocker(_R.SANDBOX, host.sandbox, "it runs: stop its rooms")
    plan = Plan.model_validate_json(host.plan_json)
    known = StoredHost(id=host.id, sandbox=host.sandbox, engine=host.engine, plan=plan)
    markers = {} if marker is None else {host.sandbox: marker}
    there = {} if presence is Presence.ABSENT else {host.sandbox: presence}
    rows, _ = classify(Seen(hosts=(known,), markers=markers, inventories={host.engine: there}))
    fine = (Disposition.HEALTHY, Disposition.OWNER_WITHOUT_SANDBOX, Disposition.COMPATIBILITY_VERIFICATION_REQUIRED)
    for row in rows:
        if row.disposition not in fine:
            detail = ": ".join(filter(None, (row.disposition, row.detail)))
            yield _blocker(_R.SANDBOX, host.sandbox, f"{detail}: see `jam host ls`")


def _of_store(stored: _Stored) -> Iterator[CleanupBlocker]:
    host = stored.host
    if host.state is HostState.REMOVED:
        yield _blocker(_R.REMOVED, host.sandbox, "it was cleaned up already")
    elif host.state is not HostState.PARKED and not stored.carried:
        yield _blocker(_R.NOT_PARKED, host.sandbox, f"it is {host.state}: stop its rooms")
    if stored.unsaved is not None:
        detail = "its last checkpoint failed: stop a room of it to make it again, or to give it up"
        yield _blocker(_R.UNSAVED, host.sandbox, detail)
    for operation in stored.busy:
        yield _blocker(_R.BUSY, host.sandbox, f"{operation} has not ended")
    for member in stored.members:
        if member.session.state is not SessionState.DORMANT:
            yield _blocker(_R.NOT_DORMANT, member.room, "it is live: stop it")


def _stored(host: UUID, own: UUID | None, repos: Repos) -> _Stored:
    row, reset = repos.hosts.get(host), repos.continuity_resets.of_source(host)
    going = (each for each in repos.operations.list(host=host, unfinished=True) if each.id != own)
    published = tuple(each for each in repos.exports.of_host(host) if each.state is ExportState.PUBLISHED)
    return _Stored(
        host=row,
        members=tuple(_member(repos, session, published) for session in repos.sessions.of_host(host)),
        carried=reset is not None and row.state is HostState.ARCHIVED,
        busy=tuple(f"the {each.kind} {each.id}" for each in going),
        leased=bool(repos.leases.live_of_host(host)),
        unsaved=repos.unsaved_hosts.open_of_host(host),
        exports=tuple(each for each in repos.exports.of_host(host) if each.state in _STAYING),
    )


def _member(repos: Repos, session: RuntimeSession, exports: tuple[KeptExport, ...]) -> _Member:
    workspace = repos.workspaces.of_session(session.id)
    room = repos.rooms.get(repos.bindings.of_session(session.id).room_id)
    return _Member(
        session=session,
        workspace=workspace,
        room=room.name,
        exports=tuple(each for each in exports if each.workspace_id == workspace.id),
        unplaced=_unplaced(repos, room, workspace),
    )


def _unplaced(repos: Repos, room: Room, workspace: SessionWorkspace) -> str | None:
    if workspace.state is not WorkspaceState.NEEDS_RECONCILIATION:
        return None
    stored = stored_workspace(str(room.id), repos)
    never_came = stored.never_came is not None and stored.kept.workspace.id == workspace.id
    return stored.place.own if never_came else None


def _blocker(reason: CleanupReason, subject: str, detail: str) -> CleanupBlocker:
    return CleanupBlocker(reason=reason, subject=subject, detail=detail)
