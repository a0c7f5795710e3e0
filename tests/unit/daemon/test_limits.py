"""Each time limit that a person sets changes what it says, and nothing else (START-4)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from jamcore.control.settings import Settings, load_settings
from jamcore.daemon.enginehouse import EngineHouse
from jamcore.domain.limits import DEFAULTS, Limits
from jamcore.domain.plan import Plan
from jamcore.domain.sandboxes import EngineFailedError, EngineHealth, EngineUnavailableError, EngineUnknownError
from jamcore.sandbox.calls import EngineCalls
from jamcore.sandbox.ensure import Ensured
from jamcore.sandbox.ownership import Ownership
from jamcore.sandbox.prepare import PreparationFailedError, PreparationRequest, Preparer
from jamcore.sandbox.prepared import NetworkPolicy
from jamcore.sandbox.teardown import park
from jamcore.system.ids import SystemIds
from jamcore.testing.doubles import plans, providers
from jamcore.testing.doubles.engines import DirectoryEngine, DirectoryProcess
from jamcore.testing.doubles.world import World

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.guarantee("START-4")]

SHORT = 0.05
LONG = 600.0
HANG_S = 20.0
SETTING_OF = {
    "read_s": "read_timeout_s",
    "create_s": "create_timeout_s",
    "lifecycle_s": "lifecycle_timeout_s",
    "prepare_s": "prepare_timeout_s",
    "child_shutdown_s": "child_shutdown_s",
    "finalise_s": "finalise_timeout_s",
    "forced_exit_s": "forced_exit_s",
    "network_check_s": "network_check_s",
    "turn_idle_s": "turn_idle_timeout_s",
    "turn_s": "turn_timeout_s",
}
UNLIMITED = Limits(**dict.fromkeys(SETTING_OF, LONG))


class Hanging(DirectoryEngine):
    """Does not answer one operation, for so often."""

    def __init__(self, operation: str, times: int = 1) -> None:
        super().__init__()
        self.operation, self.times = operation, times

    async def _hang(self, operation: str) -> None:
        if operation == self.operation and self.times:
            self.times -= 1
            await anyio.sleep_forever()

    async def probe(self) -> EngineHealth:
        """See the port."""
        await self._hang("probe")
        return await super().probe()

    async def create(self, spec: Any) -> None:  # noqa: ANN401 - passed on
        """See the port."""
        await self._hang("create")
        await super().create(spec)

    async def start(self, name: str) -> None:
        """See the port."""
        await self._hang("start")
        await super().start(name)

    async def stop(self, name: str) -> None:
        """See the port."""
        await self._hang("stop")
        await super().stop(name)

    async def remove(self, name: str) -> None:
        """See the port."""
        await self._hang("remove")
        await super().remove(name)

    async def presence(self, name: str) -> Any:  # noqa: ANN401 - passed on
        """See the port."""
        await self._hang("presence")
        return await super().presence(name)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """An app directory with an engine that answers."""
    engine = DirectoryEngine()
    yield World.over(tmp_path / "app", engine)
    await engine.close()


@pytest.fixture
def plan() -> Plan:
    """A plan without a network."""
    return plans.plan().model_copy(update={"endpoint": None})


@pytest.mark.parametrize("limit", SETTING_OF)
def test_each_setting_reaches_its_limit_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """One is set, in an order that is allowed; exactly one limit differs from the default."""
    monkeypatch.setenv(f"JAM_{SETTING_OF[limit].upper()}", "31.5" if limit == "forced_exit_s" else "631.5")
    if limit in ("create_s", "finalise_s"):  # the limit above it has to be longer
        above = {"create_s": "prepare_s", "finalise_s": "forced_exit_s"}[limit]
        monkeypatch.setenv(f"JAM_{SETTING_OF[above].upper()}", "700")
    limits = load_settings(tmp_path, {}).settings.time_limits()
    changed = {name for name, value in asdict(limits).items() if value != getattr(DEFAULTS, name)}
    assert changed - {"prepare_s" if limit == "create_s" else "forced_exit_s" if limit == "finalise_s" else ""} == {limit}


def test_there_is_no_time_limit_without_a_setting() -> None:
    """And none that is a setting but no limit: both are listed here."""
    assert set(SETTING_OF) == {field.name for field in fields(Limits)}
    numbers = {name for name, field in Settings.model_fields.items() if field.annotation is float and name.endswith("_s")}
    assert set(SETTING_OF.values()) <= numbers


@pytest.mark.parametrize(
    ("operation", "limit"),
    [("create", "create_s"), ("start", "lifecycle_s"), ("stop", "lifecycle_s"), ("remove", "lifecycle_s")],
)
async def test_a_change_of_a_sandbox_has_its_own_bound(world: World, plan: Plan, operation: str, limit: str) -> None:
    """An engine that hangs failed after it, and the error names the operation and the bound."""
    calls = EngineCalls(Hanging(operation), replace(UNLIMITED, **{limit: SHORT}))
    change: Callable[[Any], Awaitable[None]] = getattr(calls, operation)
    with anyio.fail_after(HANG_S), pytest.raises(EngineFailedError) as error:
        await change(world.spec(plan) if operation == "create" else plan.name)
    assert (error.value.operation, error.value.detail) == (operation, "it took longer than 0.05 s")


async def test_a_question_has_the_bound_of_a_read(plan: Plan) -> None:
    """An engine that does not answer is unknown, never "absent"."""
    with anyio.fail_after(HANG_S), pytest.raises(EngineUnknownError):
        await EngineCalls(Hanging("presence"), replace(UNLIMITED, read_s=SHORT)).presence(plan.name)


async def test_a_probe_has_the_bound_of_a_read() -> None:
    """An engine that does not say whether it works cannot be chosen, and the doctor still ends."""
    house = EngineHouse({"directory": Hanging("probe", times=2)}, preferred="directory", probe_within_s=SHORT)
    with anyio.fail_after(HANG_S):
        assert [health.usable for health in await house.health()] == [False]
        with pytest.raises(EngineUnavailableError, match=r"0\.05 s"):
            await house.choose(None)


async def test_a_command_in_a_guest_has_the_bound_of_a_read(world: World, plan: Plan) -> None:
    """It is ended, and what it left with it."""
    assert await world.ensure(plan) is Ensured.CREATED
    calls = EngineCalls(world.engine, replace(UNLIMITED, read_s=0.2, child_shutdown_s=HANG_S))
    with anyio.fail_after(HANG_S):
        assert (await calls.command(plan.name, ("sleep", "60"))).timed_out


async def test_one_attempt_to_park_has_the_bound_of_a_change(plan: Plan) -> None:
    """After it the next attempt is made."""

    async def at_once(_seconds: float) -> None:
        await anyio.lowlevel.checkpoint()

    with anyio.fail_after(HANG_S):
        assert await park(Hanging("stop", times=2), plan.name, sleep=at_once, limit_s=SHORT) == 3


async def test_a_preparation_has_its_own_bound(world: World, plan: Plan) -> None:
    """Although the step that hangs would be allowed to for much longer."""
    ownership = Ownership(world.ownership.records, Hanging("create"), limits=replace(UNLIMITED, prepare_s=0.2))
    preparer = Preparer(world.app, ownership=ownership, files=world.files, ids=SystemIds())
    request = PreparationRequest(plan=plan, policy=NetworkPolicy(endpoint=None), contribution=providers.CONTRIBUTION)
    with anyio.fail_after(HANG_S), pytest.raises(PreparationFailedError) as error:
        await preparer.prepare(request)
    assert error.value.step == "ensure-created"
    assert preparer.limits.prepare_s == 0.2


async def test_a_park_after_a_failed_preparation_has_the_bound_of_a_finalisation(world: World, plan: Plan) -> None:
    """A sandbox that cannot be stopped does not hold up who asked for it; the error says that it may still run."""
    engine = Hanging("stop")
    limits = replace(UNLIMITED, finalise_s=SHORT)

    def fail(step: str) -> None:
        if step == "ensure-created":
            raise RuntimeError(step)

    ownership = Ownership(world.ownership.records, engine, limits=limits)
    preparer = Preparer(world.app, ownership=ownership, files=world.files, ids=SystemIds(), reached=fail)
    request = PreparationRequest(plan=plan, policy=NetworkPolicy(endpoint=None), contribution=providers.CONTRIBUTION)
    with anyio.fail_after(HANG_S), pytest.raises(RuntimeError) as error:
        await preparer.prepare(request)
    assert any("could not be parked within 0.05 s" in note for note in error.value.__notes__)


async def test_a_commands_end_has_the_bound_of_a_child(world: World, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that does not go when it is closed keeps nobody waiting for longer."""
    assert await world.ensure(plan) is Ensured.CREATED
    monkeypatch.setattr(DirectoryProcess, "aclose", lambda _process: anyio.sleep_forever())
    calls = EngineCalls(world.engine, replace(UNLIMITED, child_shutdown_s=SHORT))
    with anyio.fail_after(HANG_S):
        assert (await calls.command(plan.name, ("true",))).code == 0
    monkeypatch.undo()
