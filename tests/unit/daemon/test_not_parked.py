"""A sandbox that nobody holds and that cannot be stopped is shown until it is (START-5)."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from jamcore.daemon.compose import composed
from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.rooms import Rooms
from jamcore.daemon.system import SystemStatus
from jamcore.domain.cells import CellTable, Placement
from jamcore.domain.requests import RoomRequest
from jamcore.plugins.manager import ProviderManager
from jamcore.runtime.allocator import Allocator, Resolved
from jamcore.runtime.gate import StopGate
from jamcore.runtime.leases import LeaseKey, Leases
from jamcore.store import open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds
from jamcore.testing.doubles import plans
from jamcore.testing.doubles.providers import GOOD, GoodProvider

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

KEY = LeaseKey(UUID(int=1), UUID(int=2), "jam-x")


@pytest.mark.guarantee("START-5", "SHARE-2")
async def test_the_doctor_names_it(tmp_path: Path) -> None:
    """With what the engine said and how often it was tried; no more once it is parked."""
    files = Files()
    files.make_private(tmp_path / "app")
    options = DaemonOptions(
        app=tmp_path / "app", runtime=tmp_path / "run", version="1", pid=1, environment={"HOME": str(tmp_path)}, files=files
    )
    async with composed(options) as services:
        leases = cast("SystemStatus", services.system)._leases
        leases.not_parked(KEY, 3, "engine.failed: busy")
        (found,) = [f for f in (await services.system.doctor()).findings if f.subject == "parking"]
        assert not found.ok
        assert found.detail == "jam-x is not parked yet after 3 attempts: engine.failed: busy"
        leases.settled(KEY)
        assert not [f for f in (await services.system.doctor()).findings if f.subject == "parking"]


@pytest.mark.guarantee("START-5", "SHARE-2")
async def test_the_room_says_so(tmp_path: Path) -> None:
    """Every room of the host, in lists and alone."""
    manager = ProviderManager()
    await manager.add("good", GoodProvider())
    leases = Leases()
    async with open_store(tmp_path / "jam.db", files=Files(), clock=SystemClock(), daemon_id=UUID(int=1)) as store:
        allocation = await Allocator(store=store, clock=SystemClock(), ids=SystemIds()).allocate(
            Resolved(
                request=RoomRequest(id=SystemIds().uuid(), provider="good", placement=Placement.SHARED),
                hooks=manager.provider("good"),
                engine=plans.ALL_ABLE,
                table=CellTable({"good": GOOD.cells}),
                toolchain=None,
                path=None,
                commit=None,
            )
        )
        unused = cast("Any", None)
        pool = cast("Any", SimpleNamespace(get=lambda _host, _session: None, capture_trouble=lambda _host: None))
        resolver = cast("Any", SimpleNamespace(engines=SimpleNamespace(isolation=lambda _name: "none")))
        rooms = Rooms(
            store=store,
            feed=unused,
            pool=pool,
            leases=leases,
            last=cast("Any", SimpleNamespace(unwritten=lambda _host: None)),
            resolver=resolver,
            allocator=unused,
            provisioner=unused,
            clock=SystemClock(),
            gate=StopGate(),
        )
        leases.not_parked(LeaseKey.of(allocation.host), 1, "busy")
        view = await rooms.get(str(allocation.room.id))
        assert view.not_parked.endswith("is not parked yet after 1 attempt: busy")
        assert [listed.not_parked for listed in await rooms.list()] == [view.not_parked]
