"""The bodies of the start-up steps: what a daemon that died may have left (START-1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from uuid import UUID

from anyio import to_thread

from jamcore.daemon.enginehouse import EngineHouse
from jamcore.daemon.hosts import HostWorkers
from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.runs import Runs
from jamcore.daemon.startup import ORDER, Problems, StartStep, each
from jamcore.daemon.sweep import sweep
from jamcore.domain.approvals import Approval, ApprovalState, DecidedBy
from jamcore.domain.events import IN_DOUBT, ApprovalDecided, SessionNotice, TurnStateChanged
from jamcore.domain.sessions import HostState, SessionState, TurnState
from jamcore.sandbox.records import OwnerRecords
from jamcore.store import Repos, Store


class Recovery:
    """Built once; every step may run again after another death."""

    def __init__(
        self,
        options: DaemonOptions,
        *,
        store: Store,
        engines: EngineHouse,
        hosts: HostWorkers,
        runs: Runs,
        cleanups: Callable[[], Awaitable[Problems]],
        deletions: Callable[[], Awaitable[Problems]],
        resets: Callable[[], Awaitable[Problems]],
        unfinished: Callable[[], Awaitable[Problems]],
    ) -> None:
        self._options = options
        self._store = store
        self._engines = engines
        self._hosts = hosts
        self._runs = runs
        self._cleanups = cleanups
        self._deletions = deletions
        self._resets = resets
        self._unfinished = unfinished

    def steps(self) -> tuple[StartStep, ...]:
        """Return the steps in their order."""
        bodies = (
            self._clean_ups,
            self._cleanups,
            self._left_hosts,
            self._publications,
            self._interrupted_writes,
            self._deletions,
            self._resets,
            self._unfinished,
            self._unfinished_runs,
        )
        return tuple(StartStep(name, body) for name, body in zip(ORDER, bodies, strict=True))

    async def _clean_ups(self) -> Problems:
        """Remove sandboxes whose marker could not be written, if their proof holds (OWN-5), each by the engine that it was made with."""
        records = OwnerRecords(self._options.app, files=self._options.files)
        return await each(await to_thread.run_sync(records.all_pending), partial(self._settle, records))

    async def _settle(self, records: OwnerRecords, sandbox: str) -> None:
        pending = await to_thread.run_sync(records.pending, sandbox)
        if pending is not None:
            await self._hosts.ownership(self._engines.get(pending.plan.engine)).settle_pending(sandbox)

    async def _left_hosts(self) -> Problems:
        """No worker lives yet, so no host is live: mark those that a dead daemon left so, and say it in their rooms."""
        left = await self._store.read(lambda repos: dict.fromkeys((*repos.hosts.left_live(), *repos.hosts.unreadable())))
        return await each(left, self._put_down)

    async def _put_down(self, host: UUID) -> None:
        await self._store.transact(partial(_put_down, host))

    async def _publications(self) -> Problems:
        """Record generations that were complete and had no row, drop packs that were not (CONT-4)."""
        return await each(await self._hosts.broker.unrecorded(), self._hosts.broker.repair)

    async def _interrupted_writes(self) -> Problems:
        """Remove temporary files and half-made packages; what is built again is built anew."""
        return await to_thread.run_sync(sweep, self._options.app, self._options.files)

    async def _unfinished_runs(self) -> Problems:
        return await each(await self._runs.unfinished(), self._runs.take_up)


def _put_down(host_id: UUID, repos: Repos) -> None:
    """Mark one host and its sessions as not live; a turn that was running is in doubt until its room is used again."""
    if repos.hosts.get(host_id).state in (HostState.ACTIVE, HostState.PROVISIONING):
        repos.hosts.move(host_id, HostState.PARKED)
    for session in repos.sessions.of_host(host_id):
        repos.leases.release(host_id, session.id)
        for asked in repos.approvals.pending_of_session(session.id):
            _expire(repos, asked)
        if session.state is not SessionState.LIVE:
            continue
        repos.sessions.move(session.id, SessionState.DORMANT)
        room = repos.bindings.live_of_session(session.id).room_id
        notice = SessionNotice(code="session.interrupted", detail="the daemon ended; resume the room to go on")
        repos.events.append(room, None, [notice])
        for turn in repos.turns.unfinished_of(session.id):
            if turn.state is not TurnState.COMPLETED:
                repos.events.append(
                    room, turn.id, [TurnStateChanged(state=IN_DOUBT, detail="the daemon ended in the middle of it")]
                )


def _expire(repos: Repos, asked: Approval) -> None:
    """End a request of a dead daemon's turn: its program is gone, so no answer reaches it any more."""
    if repos.approvals.decide(asked.id, ApprovalState.EXPIRED, DecidedBy.RESTART) is not None:
        said = ApprovalDecided(approval=asked.id, state=ApprovalState.EXPIRED, decided_by=DecidedBy.RESTART)
        repos.events.append(asked.room_id, asked.turn_id, [said])
