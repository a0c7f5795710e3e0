"""The reconciliation report runs beside everything: a slow or sick engine delays nothing and is named (OWN-6)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import anyio
import pytest

from jamcore.daemon.enginehouse import EngineHouse
from jamcore.daemon.inventory import SandboxInventory
from jamcore.domain.limits import DEFAULTS
from jamcore.domain.ownership import Disposition, OwnerMarker
from jamcore.domain.sandboxes import EngineUnknownError, InventoryItem
from jamcore.sandbox.records import OwnerRecords
from jamcore.store import open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.testing.doubles import plans
from jamcore.testing.doubles.engines import DirectoryEngine

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.guarantee("OWN-6")]


class Hanging(DirectoryEngine):
    """An engine that never says what it has."""

    name = "hanging"

    async def inventory(self) -> tuple[InventoryItem, ...]:
        """Wait for ever."""
        await anyio.sleep_forever()
        raise AssertionError


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
