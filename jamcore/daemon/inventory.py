"""Asks every engine what it has and classifies it with the markers and the store (OWN-6). Read-only; nothing waits for it."""

from __future__ import annotations

import anyio
import structlog
from anyio import to_thread
from pydantic import ValidationError

from jamcore.daemon.enginehouse import EngineHouse
from jamcore.domain.errors import JamError
from jamcore.domain.limits import Limits
from jamcore.domain.ownership import Disposition, MarkerUnreadableError, OwnerMarker, Reconciliation
from jamcore.domain.plan import Plan
from jamcore.domain.sandboxes import Finding
from jamcore.domain.sessions import HostState
from jamcore.engines.port import Engine
from jamcore.sandbox.reconciliation import Inventory, Seen, StoredHost, classify
from jamcore.sandbox.records import OwnerRecords
from jamcore.store import Repos, Store
from jamcore.system.clock import Clock


class SandboxInventory:
    """See :meth:`~jamcore.daemon.services.InventoryService.reconcile`. Keeps the last report for the doctor."""

    def __init__(self, *, store: Store, engines: EngineHouse, records: OwnerRecords, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._engines = engines
        self._records = records
        self._clock = clock
        self._limits = limits
        self._last: Reconciliation | None = None

    async def reconcile(self) -> Reconciliation:
        """Look at everything now. An engine that does not answer within its bound is named, and nothing is said of its sandboxes."""
        inventories: dict[str, Inventory] = {}
        async with anyio.create_task_group() as tasks:
            for engine in self._engines.all():
                tasks.start_soon(self._ask, engine, inventories)
        # In this order, a sandbox that is made meanwhile is a stored one, never a stranger or an orphan.
        markers = await to_thread.run_sync(_markers, self._records)
        hosts, others = await self._store.read(lambda repos: (_stored(repos), repos.hosts.of_others()))
        seen = Seen(hosts=hosts, markers=markers, inventories=inventories, others=others)
        rows, foreign = classify(seen)
        unanswered = tuple(sorted({engine.name for engine in self._engines.all()} - inventories.keys()))
        self._last = Reconciliation(
            at=self._clock.now(), sandboxes=rows, foreign=foreign, of_other_daemons=len(others), unanswered=unanswered
        )
        return self._last

    async def after_start(self) -> None:
        """Report once, beside everything else: whatever goes wrong here is a line in the log."""
        log = structlog.get_logger("jam.inventory")
        try:
            report = await self.reconcile()
        except Exception:
            # Named boundary (the top of a task): a report that cannot be made must not end the daemon.
            log.exception("no reconciliation report")
            return
        for row in report.sandboxes:
            if row.disposition is not Disposition.HEALTHY:
                log.warning("sandbox", name=row.sandbox, disposition=row.disposition, presence=row.presence, detail=row.detail)

    def findings(self) -> tuple[Finding, ...]:
        """Return what the last report has to say to a person."""
        if self._last is None:
            return ()
        found = [
            Finding(
                subject=f"sandbox {row.sandbox}",
                ok=False,
                detail=": ".join(filter(None, (row.disposition, row.detail))),
                hint="`jam host ls` shows it. Jam changes nothing of it by itself.",
            )
            for row in self._last.sandboxes
            if row.disposition not in (Disposition.HEALTHY, Disposition.OWNER_WITHOUT_SANDBOX)
        ]
        found += [
            Finding(
                subject=f"engine {name}",
                ok=False,
                detail="it did not say which sandboxes it has",
                hint="Its rooms may not come up: look at the engine's own line.",
            )
            for name in self._last.unanswered
        ]
        return tuple(found)

    async def _ask(self, engine: Engine, inventories: dict[str, Inventory]) -> None:
        with anyio.move_on_after(self._limits.read_s):
            try:
                inventories[engine.name] = {item.name: item.presence for item in await engine.inventory()}
            except JamError as error:
                structlog.get_logger("jam.inventory").warning("no inventory", engine=engine.name, code=error.code)


def _stored(repos: Repos) -> tuple[StoredHost, ...]:
    return tuple(
        StoredHost(
            id=host.id,
            sandbox=host.sandbox,
            engine=host.engine,
            plan=_plan(host.plan_json),
            archived=host.state is HostState.ARCHIVED,
        )
        for host in repos.hosts.own()
        if host.state is not HostState.REMOVED
    )


def _plan(text: str) -> Plan | None:
    try:
        return Plan.model_validate_json(text)
    except ValidationError:
        return None


def _markers(records: OwnerRecords) -> dict[str, OwnerMarker | MarkerUnreadableError]:
    found: dict[str, OwnerMarker | MarkerUnreadableError] = {}
    for name in records.all_markers():
        try:
            marker = records.marker(name)
        except MarkerUnreadableError as error:
            found[name] = error
        else:
            if marker is not None:
                found[name] = marker
    return found
