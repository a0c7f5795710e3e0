"""What hosts and exports take on the disk: one bounded look, kept nowhere, and advice about what is old (REAP-3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from uuid import UUID

from anyio import from_thread, to_thread

from jamcore.daemon.host_files import HostFiles
from jamcore.daemon.removals import kept_in
from jamcore.domain.capacity import CANDIDATE_AFTER, MEASURED_ENTRIES, MEASURED_OF_HOST, CapacityReport, ExportUse, HostUse
from jamcore.domain.kept_exports import ExportState, KeptExport
from jamcore.domain.sessions import HostState, RuntimeHost
from jamcore.store import Repos, Store
from jamcore.system.clock import Clock
from jamcore.system.files import Files

_THERE = (ExportState.QUARANTINED, ExportState.PUBLISHED, ExportState.DELETING)
_FIELDS = MappingProxyType(
    {"guest-disk": "guest_disk", "workspace-root": "workspaces", "provider-state": "provider_state", "recovery": "checkpoints"}
)


@dataclass(frozen=True, slots=True)
class _Stored:
    hosts: tuple[HostUse, ...]
    exports: tuple[KeptExport, ...]
    rooms: dict[UUID, str]


class Capacity:
    """See :class:`~jamcore.daemon.services.CleanupService`."""

    def __init__(self, app: Path, *, store: Store, host_files: HostFiles, files: Files, clock: Clock) -> None:
        self._app = app
        self._store = store
        self._host_files = host_files
        self._files = files
        self._clock = clock

    async def report(self) -> CapacityReport:
        """Look at everything now, within the bounds of :mod:`jamcore.domain.capacity`. Changes nothing."""
        now = self._clock.now()
        stored = await self._store.read(partial(_stored, now))
        hosts = await to_thread.run_sync(self._measured, stored.hosts)
        return CapacityReport(
            hosts=tuple(sorted(hosts, key=lambda host: (-host.below_root, host.sandbox))),
            exports=len(stored.exports),
            export_bytes=sum(each.bytes_total for each in stored.exports),
            candidates=tuple(_candidates(stored, now)),
            free_bytes=await to_thread.run_sync(self._files.free_bytes, self._app),
        )

    def _measured(self, hosts: Iterable[HostUse]) -> list[HostUse]:
        found, left = [], MEASURED_ENTRIES
        for host in hosts:
            use, entries = self._host(host, min(left, MEASURED_OF_HOST))
            found.append(use)
            left -= entries
        return found

    def _host(self, host: HostUse, at_most: int) -> tuple[HostUse, int]:
        """Measure one host; what cannot be looked at makes its figures lower bounds."""
        sums, entries, whole = dict.fromkeys((*_FIELDS.values(), "other"), 0), 0, True
        try:
            for name, usage in self._host_files.usage(host.host_id, at_most=at_most, alive=from_thread.check_cancelled):
                sums[_FIELDS.get(name, "other")] += usage.bytes
                entries += usage.entries
                whole = whole and usage.whole
        except OSError:
            whole = False
        return host.model_copy(update={**sums, "whole": whole}), entries


def _stored(now: datetime, repos: Repos) -> _Stored:
    exports = tuple(each for each in repos.exports.list() if each.state in _THERE)
    rooms = {room.id: room.name for room in repos.rooms.list()}
    sizes: dict[UUID, int] = {}
    for each in exports:
        if each.host_id is not None:
            sizes[each.host_id] = sizes.get(each.host_id, 0) + each.bytes_total
    hosts = (host for host in repos.hosts.own() if host.state is not HostState.REMOVED)
    return _Stored(tuple(_use(repos, host, sizes.get(host.id, 0), rooms, now) for host in hosts), exports, rooms)


def _use(repos: Repos, host: RuntimeHost, exports: int, rooms: dict[UUID, str], now: datetime) -> HostUse:
    bound = (repos.bindings.of_session(session.id).room_id for session in repos.sessions.of_host(host.id))
    return HostUse(
        host_id=host.id,
        sandbox=host.sandbox,
        engine=host.engine,
        state=host.state.value,
        rooms=tuple(rooms.get(room, "") for room in bound),
        exports=exports,
        checkpoints_that_may_go=_old_checkpoints(repos, host.id, now),
    )


def _old_checkpoints(repos: Repos, host: UUID, now: datetime) -> int:
    """Count what nobody needs: never the newest generation, never what something refers to (REAP-3)."""
    rows = repos.checkpoints.of_host(host)
    old = {row.id for row in rows[:-1] if now - row.created_at > CANDIDATE_AFTER}
    if not old:
        return 0
    removed = {each.checkpoint_id for each in repos.payload_deletions.of_host(host)}
    return len(old - removed - kept_in(host, repos).keys())


def _candidates(stored: _Stored, now: datetime) -> Iterable[ExportUse]:
    """Yield old exports, but for the newest of each workspace: it may be all that is left of it."""
    newest: set[UUID] = set()
    for each in stored.exports:  # newest first
        if each.workspace_id is not None and each.workspace_id not in newest:
            newest.add(each.workspace_id)
        elif each.state is not ExportState.DELETING and now - each.created_at > CANDIDATE_AFTER:
            room = stored.rooms.get(each.room_id, "") if each.room_id else ""
            yield ExportUse(id=each.id, room=room, bytes_total=each.bytes_total, age_days=(now - each.created_at).days)
