"""The typed facade: one provider is called, its policies wrap, and nothing that it does reaches the caller untyped."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, ClassVar

import anyio
import pytest

from jamcore.api import (
    ActivationPlan,
    CaptureList,
    CredentialView,
    PlacementRequest,
    PlanContext,
    PlanContribution,
    Preparation,
    PreparedFile,
    Record,
    RuntimeRequest,
    SandboxGoneError,
    hookimpl,
)
from jamcore.domain.cells import SHARED_CELL, Ability, UnknownProviderError
from jamcore.domain.plugins import PolicyNotLoadedError
from jamcore.domain.provider_rules import plan_context
from jamcore.domain.providers import PluginFailedError
from jamcore.plugins.hookspecs import ProviderSpecs
from jamcore.plugins.manager import ProviderManager
from jamcore.plugins.provider import ProviderHooks
from jamcore.plugins.validation import _NoGuest, new_manager
from jamcore.testing.doubles import policies
from jamcore.testing.doubles import providers as doubles

pytestmark = pytest.mark.anyio


class SecondProvider(doubles.GoodProvider):
    """As good, under another name and with another answer."""

    description = doubles.GOOD.model_copy(update={"name": "second"})

    @hookimpl
    def jam_contribute_plan(self, context: PlanContext) -> PlanContribution:
        """Answer otherwise."""
        return PlanContribution(agent_image="second")


class TurningProvider(doubles.GoodProvider):
    """Behaves while it is looked at, and hangs or lies afterwards."""

    def __init__(self) -> None:
        self.turned = False
        self.hang = doubles.HangingProvider()

    @hookimpl
    def jam_prepare(self) -> Preparation:
        """Hang once it has turned."""
        if self.turned:
            return self.hang.jam_prepare()
        return Preparation()


async def loaded(*plugins: tuple[str, object], limit: float = 0.3) -> ProviderManager:
    manager = ProviderManager(hook_limit_s=limit, async_hook_limit_s=limit)
    for name, plugin in plugins:
        report = await manager.add(name, plugin)
        assert report.state == "loaded", report.violations
    return manager


def context(name: str = "good") -> PlanContext:
    return plan_context(name, SHARED_CELL, frozenset(Ability))


async def test_each_hook_answers_with_the_cores_own_record() -> None:
    """All hooks of a good plugin, through the facade."""
    hooks = (await loaded(("good", doubles.GoodProvider()))).provider("good")
    assert hooks.description == await hooks.describe() == doubles.GOOD
    assert (await hooks.contribute_plan(context())).environment == (("GOOD_HOME", "/jam/state/good/home"),)
    assert (await hooks.prepare(context())).files == (PreparedFile(path="home/config.toml", content="quiet = true\n"),)
    assert [(await hooks.place_session(PlacementRequest(seats=n))).accepted for n in (3, 4)] == [True, False]
    assert (await hooks.declare_capture()).guest_scratch == (".good/scratch",)
    assert (await hooks.declare_activation()).check == ("home/logs/*",)
    assert await hooks.accepts_version("1", "1") is True
    assert await hooks.accepts_version("1", "2") is False
    assert (await hooks.check_credentials(CredentialView(present=True, source="test"))).ready


async def test_a_plugin_without_continuity_keeps_nothing_and_resumes_nothing() -> None:
    """Where it has no such hooks the answers are the careful ones, so that no caller needs to ask first whether it has."""
    manager = await loaded(("managed_only", doubles.ManagedOnlyProvider()))
    hooks = manager.provider("managed_only")
    assert not hooks.description.continuity
    assert await hooks.declare_capture() == CaptureList(entries=())
    assert await hooks.declare_activation() == ActivationPlan()
    assert await hooks.accepts_version("1", "1") is False


@pytest.mark.guarantee("PLUG-1")
async def test_only_the_named_provider_is_called_and_policies_wrap_it() -> None:
    """Two providers are loaded; each facade reaches one of them, and the policy sees both."""
    manager = await loaded(("good", doubles.GoodProvider()), ("second", SecondProvider()))
    policy = policies.CountingPolicy()
    assert (await manager.add_policy("counting", policy)).state == "loaded"
    assert (await manager.provider("good").contribute_plan(context())).agent_image == "good"
    assert (await manager.provider("second").contribute_plan(context("second"))).agent_image == "second"
    assert policy.seen == [SHARED_CELL, SHARED_CELL]


async def test_a_policy_may_only_wrap() -> None:
    """One that answers for a provider is not loaded, and nothing is planned without what it may have wanted."""
    manager = await loaded(("good", doubles.GoodProvider()))
    report = await manager.add_policy("mine", policies.AnsweringPolicy())
    assert report.state == "broken"
    assert "jam_contribute_plan: a policy may only wrap it" in report.violations
    with pytest.raises(PolicyNotLoadedError):
        await manager.provider("good").contribute_plan(context())


async def test_a_policy_that_breaks_an_answer_is_seen() -> None:
    """What a wrapper returns is validated like what a plugin returns."""

    class Spoiling:
        api_version: ClassVar[Any] = (1, 0)

        @hookimpl(wrapper=True)
        def jam_contribute_plan(self) -> Generator[None, object, object]:
            yield
            return {"agent_image": "spoilt"}

    manager = await loaded(("good", doubles.GoodProvider()))
    await manager.add_policy("spoiling", Spoiling())
    with pytest.raises(PluginFailedError, match="returned dict"):
        await manager.provider("good").contribute_plan(context())


@pytest.mark.guarantee("PLUG-1")
async def test_a_provider_that_hangs_later_is_disabled_and_others_go_on() -> None:
    """The caller waits for one limit; afterwards every call is refused at once and the report says why."""
    turning = TurningProvider()
    manager = await loaded(("good", turning), ("second", SecondProvider()))
    hooks = manager.provider("good")
    turning.turned = True
    with pytest.raises(PluginFailedError) as first:
        await hooks.prepare(context())
    assert (first.value.plugin, first.value.hook) == ("good", "jam_prepare")
    began = anyio.current_time()
    with pytest.raises(PluginFailedError, match="disabled"):
        await hooks.contribute_plan(context())
    assert anyio.current_time() - began < 0.2
    assert manager.report("good").state == "disabled"
    assert manager.report("second").state == "loaded"
    assert (await manager.provider("second").contribute_plan(context("second"))).agent_image == "second"
    turning.hang.release.set()


async def test_a_hanging_hook_can_be_cancelled() -> None:
    """A caller that gives up does not wait for the plugin."""
    turning = TurningProvider()
    hooks = (await loaded(("good", turning), limit=30)).provider("good")
    turning.turned = True
    with anyio.move_on_after(0.1) as scope:
        await hooks.prepare(context())
    assert scope.cancelled_caught
    turning.hang.release.set()


async def test_errors_of_jams_own_pass_through_an_asynchronous_hook() -> None:
    """A plugin that finds its sandbox gone says so with the core's error."""
    manager = ProviderManager()
    trial, plugin = new_manager(), doubles.ColdProvider()
    trial.register(plugin, name="good")
    request = RuntimeRequest(tools_root="/t", state_root="/s", home="/h", relay_url="", start_directory="/", expected_version=None)
    with pytest.raises(SandboxGoneError):
        await ProviderHooks("good", plugin, trial).open_runtime(request, _NoGuest())
    with pytest.raises(UnknownProviderError):
        manager.provider("good")


@pytest.mark.guarantee("PLUG-3")
def test_no_hook_argument_names_anything_that_the_core_chooses() -> None:
    """Walk the arguments of every hook, into their records: no host, session, checkpoint, thread, room or operation is among them."""
    forbidden = {
        "host",
        "host_id",
        "session",
        "session_id",
        "checkpoint",
        "checkpoint_id",
        "thread",
        "thread_id",
        "room",
        "room_id",
        "operation",
        "operation_id",
        "sandbox",
        "name",
        "owner",
        "plan",
    }
    records: tuple[type[Record], ...] = (PlanContext, PlacementRequest, CredentialView, RuntimeRequest)
    fields = {record.__name__: set(record.model_fields) for record in records}
    seen = set[str]()
    for spec in vars(ProviderSpecs).values():
        for argument, kind in getattr(spec, "__annotations__", {}).items():
            if argument != "return":
                seen |= {argument, *fields.get(kind, ())}
    assert {"context", "request", "view", "captured", "cell", "seats"} <= seen
    assert not seen & forbidden
