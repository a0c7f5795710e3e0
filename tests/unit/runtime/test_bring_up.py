"""The order of a bring-up: nothing is touched and nothing is started before the sandbox is known to be nobody's (SHARE-4)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from jamcore.api import PlanContribution, hookimpl
from jamcore.domain.cells import SHARED_CELL
from jamcore.domain.errors import FaultError
from jamcore.domain.ownership import OwnershipMismatchError
from jamcore.domain.plan import ModelEndpoint, PlanNameMismatchError
from jamcore.domain.plugins import PolicyNotAppliedError, PolicyNotLoadedError
from jamcore.domain.sandboxes import EngineFailedError, EngineUnknownError, ExecSpec, Presence
from jamcore.plugins.manager import ProviderManager
from jamcore.runtime.bringup import BringUp
from jamcore.runtime.seat import Seat
from jamcore.sandbox.prepare import Preparer
from jamcore.sandbox.prepared import EndpointRoute
from jamcore.system.ids import SystemIds
from jamcore.testing.doubles import plans
from jamcore.testing.doubles.engines import DirectoryEngine
from jamcore.testing.doubles.policies import CountingPolicy
from jamcore.testing.doubles.providers import GoodProvider
from jamcore.testing.doubles.world import World
from jamcore.testing.guards import descendants

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

UNKNOWN = EngineUnknownError(engine="directory", operation="presence", detail="asleep")
BROKEN = EngineFailedError(engine="directory", operation="stop", detail="busy")


def alive(pid: int) -> bool:
    """Whether a process that this test's engine started still runs."""
    return pid in {process.pid for process in descendants()}


class InjectedError(FaultError):
    """Raised by a test after a step."""


@dataclass
class Rig:
    """A bring-up over a real engine double, real proofs and the real preparation; what it tells and decides is noted in ``said``."""

    world: World
    bring_up: BringUp
    said: list[str] = field(default_factory=list)
    orphan: int = 0
    fail_at: str = ""

    def seat(self) -> Seat:
        """Return a seat."""
        session = SimpleNamespace(id=UUID(int=1))
        return Seat(session=cast("Any", session), workspace=cast("Any", None), room_id=UUID(int=2))

    def reached(self, step: str) -> None:
        """Fail after a step of the preparation."""
        if step == self.fail_at:
            raise InjectedError

    async def start(self) -> None:
        """Bring the host up and close it again."""
        async with AsyncExitStack() as stack:
            await self.bring_up.start(stack, self.seat(), lambda: self.said.append("proven"))

    # -------------------------------------------------------------------------------- as standing, continuity, work trees

    async def take(self, _seats: object) -> None:
        """See :meth:`HostStanding.take`."""
        self.said.append("lease")

    async def say(self, _seats: object, code: str, _detail: str) -> None:
        """See :meth:`HostStanding.say`."""
        self.said.append(code)

    async def activate(self, _seat: object, *, may_restore: bool = True) -> None:
        """See :meth:`HostContinuity.activate`: it would look at the state here, and put it in place."""
        assert not self.orphan or not alive(self.orphan), "the state was looked at under an orphan that could write it"
        self.said.append("decision" if may_restore else "decision without restore")

    async def place_databases(self) -> bool:
        """See :meth:`HostContinuity.place_databases`."""
        self.said.append("databases")
        return False

    async def keep_base(self, *_: object) -> None:
        """See :meth:`WorkTrees.keep_base`."""


@asynccontextmanager
async def route(endpoint: ModelEndpoint, _prefix: str) -> AsyncIterator[EndpointRoute]:
    """Be a relay that nobody uses."""
    yield cast("EndpointRoute", SimpleNamespace(endpoint=endpoint, accept=lambda connection: connection.close()))


def no_door() -> AbstractAsyncContextManager[Any]:
    """Be a door of an engine that has none."""
    raise AssertionError


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A shared host of the good provider whose sandbox exists and is parked."""
    engine = DirectoryEngine()
    world = World.over(tmp_path / "app", engine)
    plan = plans.plan(plans.inputs_for(SHARED_CELL))
    await world.ensure(plan)
    await engine.stop(plan.name)
    manager = ProviderManager()
    await manager.add("good", GoodProvider())
    made = Rig(world, cast("Any", None))
    made.bring_up = BringUp(
        plan=plan,
        hooks=manager.provider("good"),
        engine=engine,
        preparer=Preparer(world.app, ownership=world.ownership, files=world.files, ids=SystemIds(), reached=made.reached),
        open_route=route,
        open_door=no_door,
        continuity=cast(
            "Any",
            SimpleNamespace(host=SimpleNamespace(sandbox=plan.name), activate=made.activate, place_databases=made.place_databases),
        ),
        standing=cast("Any", made),
        work_trees=cast("Any", made),
    )
    engine.calls.clear()
    engine.executed.clear()
    yield made
    await engine.close()


async def leave_an_orphan(rig: Rig) -> None:
    """Let a provider of a dead daemon run in the sandbox."""
    engine, name = rig.world.engine, rig.bring_up.plan.name
    await engine.start(name)
    process = await engine.exec(name, ExecSpec(argv=("/bin/sh", "-c", "echo $$; exec sleep 600"), cwd="/home/agent"))
    rig.orphan = int(await process.stdout.receive())
    engine.calls.clear()
    engine.executed.clear()


@pytest.mark.guarantee("SHARE-4")
async def test_an_orphan_is_stopped_before_the_state_is_looked_at_and_before_anything_starts(rig: Rig) -> None:
    """Lease, fence, decision, preparation: the room is told, and what is started afterwards is alone."""
    await leave_an_orphan(rig)
    await rig.start()
    assert rig.said == ["lease", "host.fenced", "decision", "proven", "databases"]
    assert not alive(rig.orphan)
    calls = rig.world.engine.calls
    assert calls.index("stop") < calls.index("start")


@pytest.mark.guarantee("SHARE-4")
async def test_without_an_orphan_nothing_is_said(rig: Rig) -> None:
    """The ordinary bring-up."""
    await rig.start()
    assert rig.said == ["lease", "decision", "proven", "databases"]


@pytest.mark.guarantee("SHARE-4")
async def test_what_is_not_proven_is_left_alone(rig: Rig) -> None:
    """No decision, no preparation, no stop: the typed refusal alone."""
    await leave_an_orphan(rig)
    rig.world.marker(rig.bring_up.plan.name).unlink()
    with pytest.raises(OwnershipMismatchError):
        await rig.start()
    assert rig.said == ["lease"]
    assert alive(rig.orphan)
    assert not {"stop", "start", "create"} & set(rig.world.engine.calls)


@pytest.mark.guarantee("SHARE-4")
async def test_an_engine_that_does_not_know_starts_nothing(rig: Rig) -> None:
    """Unknown is neither absent nor stopped."""
    rig.world.engine.fail("presence", UNKNOWN)
    with pytest.raises(EngineUnknownError):
        await rig.start()
    assert rig.said == ["lease"]
    assert not rig.world.engine.executed


@pytest.mark.guarantee("PLAN-6")
async def test_a_plan_of_another_name_asks_nothing_of_the_engine(rig: Rig) -> None:
    """The host's stored name is not the plan's: refused before any call."""
    cast("Any", rig.bring_up.continuity).host.sandbox = "jam-another"
    with pytest.raises(PlanNameMismatchError):
        await rig.start()
    assert rig.said == rig.world.engine.calls == []


@pytest.mark.guarantee("CONT-11", "SHARE-5")
async def test_a_session_that_joins_may_not_restore_and_does_not_touch_the_sandbox(rig: Rig) -> None:
    """Its siblings' program has the state open."""
    await rig.bring_up.admit(rig.seat())
    assert rig.said == ["lease", "decision without restore"]
    assert rig.world.engine.calls == []


@pytest.mark.guarantee("PREP-4", "START-5")
async def test_a_preparation_that_fails_says_whose_the_sandbox_is_before_it_parks_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the moment the sandbox is proven to be ours, its worker parks it too, for as long as it takes."""
    monkeypatch.setattr("jamcore.sandbox.teardown.PARK_RETRY_S", 0.01)
    rig.world.engine.fail("stop", BROKEN, BROKEN)
    rig.fail_at = "cancellation-check"
    with pytest.raises(InjectedError):
        await rig.start()
    assert rig.said == ["lease", "decision", "proven"]
    assert rig.world.engine.calls.count("stop") == 3
    assert await rig.world.engine.presence(rig.bring_up.plan.name) is Presence.STOPPED


class Requiring:
    """A policy that wants a variable in every plan."""

    api_version = (1, 0)

    @hookimpl(wrapper=True)
    def jam_contribute_plan(self) -> Generator[None, PlanContribution, PlanContribution]:
        """Add it."""
        answer = yield
        return answer.model_copy(update={"environment": (*answer.environment, ("HOUSE_RULES", "1"))})


@pytest.mark.guarantee("PLUG-1", "PLAN-5")
@pytest.mark.parametrize(("policy", "refusal"), [(Requiring(), PolicyNotAppliedError), (object(), PolicyNotLoadedError)])
async def test_a_host_that_was_planned_without_a_policy_is_not_started(rig: Rig, policy: object, refusal: type[Exception]) -> None:
    """The policy came after the plan, or could not be loaded: nothing is asked of the engine, and nothing is decided."""
    manager = ProviderManager()
    await manager.add("good", GoodProvider())
    await manager.add_policy("house", policy)
    rig.bring_up = replace(rig.bring_up, hooks=manager.provider("good"))
    with pytest.raises(refusal):
        await rig.start()
    assert rig.said == []
    assert rig.world.engine.calls == []


@pytest.mark.guarantee("PLUG-1", "PLAN-5")
async def test_a_host_that_was_planned_with_a_policy_is_started(rig: Rig) -> None:
    """The plan has what the policy wants."""
    manager = ProviderManager()
    await manager.add("good", GoodProvider())
    await manager.add_policy("house", CountingPolicy())
    rig.bring_up = replace(rig.bring_up, hooks=manager.provider("good"))
    await rig.start()
    assert rig.said == ["lease", "decision", "proven", "databases"]
