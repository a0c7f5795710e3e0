"""The reconciliation report runs beside everything: a slow or sick engine delays nothing and is named (OWN-6)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import UUID

import anyio
import pytest

from jamcore.daemon.enginehouse import EngineHouse
from jamcore.daemon.host_overrides import find_host
from jamcore.daemon.inventory import SandboxInventory
from jamcore.domain.limits import DEFAULTS
from jamcore.domain.ownership import Disposition, OwnerMarker
from jamcore.domain.sandboxes import EngineUnknownError, InventoryItem, Presence
from jamcore.domain.sessions import HostState, RuntimeHost
from jamcore.sandbox.records import OwnerRecords
from jamcore.store import Repos, open_store
from jamcore.store.errors import FencedError
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.testing.doubles import plans
from jamcore.testing.doubles.engines import DirectoryEngine
from jamcore.testing.store.records import HandClock, Records

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.guarantee("OWN-6")]


class Hanging(DirectoryEngine):
    """An engine that never says what it has."""

    name = "hanging"

    async def inventory(self) -> tuple[InventoryItem, ...]:
        """Wait for ever."""
        await anyio.sleep_forever()
        raise AssertionError


class Having(DirectoryEngine):
    """An engine that has these sandboxes, all stopped."""

    name = "none"

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names

    async def inventory(self) -> tuple[InventoryItem, ...]:
        """Say so."""
        return tuple(InventoryItem(name=name, presence=Presence.STOPPED) for name in self.names)


async def test_each_engine_is_asked_within_its_bound(tmp_path: Path) -> None:
    """One hangs, one does not know: both are named; the marker of the third is classified; the doctor repeats it."""
    records = OwnerRecords(tmp_path, files=Files())
    plan = plans.plan().model_copy(update={"engine": "directory"})
    records.write_marker(OwnerMarker(plan=plan, nonce="n", mcp_digest="m"))
    sick = DirectoryEngine()
    sick.fail("inventory", EngineUnknownError(engine="sick", operation="inventory", detail="?"))
    sick.name = "sick"
    engines = {"directory": DirectoryEngine(), "hanging": Hanging(), "sick": sick}
    async with open_store(tmp_path / "jam.db", files=Files(), clock=SystemClock(), daemon_id=UUID(int=1)) as store:
        inventory = SandboxInventory(
            store=store,
            engines=EngineHouse(engines, preferred=None),
            records=records,
            clock=SystemClock(),
            limits=replace(DEFAULTS, read_s=0.2),
        )
        assert inventory.findings() == ()
        await inventory.after_start()
        report = await inventory.reconcile()
    assert report.unanswered == ("hanging",)  # the sick one failed once, and answers the second time
    assert [(row.sandbox, row.disposition) for row in report.sandboxes] == [(plan.name, Disposition.ORPHAN_OWNER_MARKER)]
    subjects = [finding.subject for finding in inventory.findings()]
    assert subjects == [f"sandbox {plan.name}", "engine hanging"]
    assert not any(call in ("stop", "remove", "start", "create") for engine in engines.values() for call in engine.calls)


@pytest.mark.guarantee("OWN-7")
async def test_hosts_of_other_daemons_on_the_database_are_counted_and_not_listed(tmp_path: Path) -> None:
    """This daemon's engines would call them absent, and mean nothing by that; nor is one looked at that is named."""
    make = Records(HandClock())
    agent = make.agent()
    theirs, mine, gone = make.host(agent), make.host(agent), make.host(agent)
    path = tmp_path / "jam.db"

    def keep(host: RuntimeHost, repos: Repos) -> None:
        repos.agents.insert(agent)
        repos.hosts.insert(host)

    async with open_store(path, files=Files(), clock=make.clock, daemon_id=UUID(int=1)) as store:
        await store.transact(partial(keep, theirs))
        await store.transact(partial(keep, gone))
        await store.transact(lambda repos: repos.hosts.move(gone.id, HostState.PARKED))
        await store.transact(lambda repos: repos.hosts.move(gone.id, HostState.REMOVED))
    records = OwnerRecords(tmp_path, files=Files())
    async with open_store(path, files=Files(), clock=make.clock, daemon_id=UUID(int=2)) as store:
        await store.transact(partial(keep, mine))
        engine = Having(theirs.sandbox, mine.sandbox, "somebody-elses")
        inventory = SandboxInventory(
            store=store,
            engines=EngineHouse({engine.name: engine}, preferred=None),
            records=records,
            clock=SystemClock(),
            limits=DEFAULTS,
        )
        report = await inventory.reconcile()
        assert ([row.sandbox for row in report.sandboxes], report.foreign, report.of_other_daemons) == ([mine.sandbox], 1, 1)
        assert (await store.read(partial(find_host, mine.sandbox))).id == mine.id
        for ref in (theirs.sandbox, str(theirs.id)):
            with pytest.raises(FencedError):
                await store.read(partial(find_host, ref))
