"""A policy is mandatory: it is applied to every plan, or nothing is planned and the way out is named (PLUG-1, PLAN-5)."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from jamcore.api import ExtraMount, PlanContribution, Preparation, PreparedFile, hookimpl
from jamcore.domain.cells import SHARED_CELL, Ability
from jamcore.domain.plan import Plan, PlanRefusedError
from jamcore.domain.plugins import PluginKind, PolicyNotAppliedError, PolicyNotLoadedError, blocked_by_setting
from jamcore.domain.provider_rules import contribution_problems, plan_context
from jamcore.domain.providers import PluginFailedError
from jamcore.domain.requests import EndpointChoice
from jamcore.domain.sandboxes import Access
from jamcore.plugins.manager import POLICIES, PROVIDERS, ProviderManager
from jamcore.plugins.validation import NOT_WRAPPED
from jamcore.sandbox.planning import require_policies
from jamcore.testing.doubles import plans
from jamcore.testing.doubles.providers import CONTRIBUTION, GOOD, GoodProvider
from jamcore.testing.wheels import build_wheel, entry_points, install_wheels

pytestmark = [pytest.mark.anyio, pytest.mark.guarantee("PLUG-1")]

CONTEXT = plan_context("good", SHARED_CELL, frozenset(Ability))
RULES = PreparedFile(path="rules/house.md", content="be kind")
OWN = GoodProvider().jam_prepare().files
MODULES = {
    "jampolicy_good": "from jamcore.testing.doubles.providers import GoodProvider as Plugin",
    "jampolicy_gone": "import jamcore.no_such_module",
    "jampolicy_hook": "from jamcore.testing.doubles.policies import AnsweringPolicy as Plugin",
    "jampolicy_next": "class Plugin:\n    api_version = (99, 0)\n",
    "jampolicy_well": "from jamcore.testing.doubles.policies import CountingPolicy as Plugin",
}
BROKEN = ("jampolicy_gone", "jampolicy_hook", "jampolicy_next", "twice", "requires")


class Preparing:
    """Puts a file beside what every provider prepares."""

    api_version: ClassVar[Any] = (1, 0)

    @hookimpl(wrapper=True)
    def jam_prepare(self) -> Generator[None, Preparation, Preparation]:
        """Add it."""
        answer = yield
        return Preparation(files=(*answer.files, RULES))


class PreparesNothing(GoodProvider):
    """A provider without the hook."""

    jam_prepare = None  # type: ignore[assignment]


class Failing:
    """Fails before the provider is asked."""

    api_version: ClassVar[Any] = (1, 0)

    @hookimpl(wrapper=True)
    def jam_contribute_plan(self) -> Generator[None, PlanContribution, PlanContribution]:
        """Fail."""
        if self.api_version:
            raise LookupError("the list of rules is gone")
        return (yield)


def site_of(tmp_path: Path, case: str) -> Path:
    """Install a provider that is well and a policy that is not."""
    entry = {"twice": "jampolicy_well", "requires": "jampolicy_well"}.get(case, case)
    needs = ("jamcore>=99",) if case == "requires" else ()
    entries = {POLICIES: {"house": f"{entry}:Plugin"}}
    wheels = [
        build_wheel(tmp_path, "jampolicy", "1.0", modules=MODULES, entries={PROVIDERS: {"good": "jampolicy_good:Plugin"}}),
        build_wheel(tmp_path, "house-rules", "1.0", modules={}, entries=entries, requires=needs),
    ]
    if case == "twice":
        wheels.append(build_wheel(tmp_path, "other-rules", "2.0", modules={}, entries=entries))
    install_wheels(tmp_path / "site", *wheels)
    return tmp_path / "site"


@pytest.mark.guarantee("PLAN-5")
@pytest.mark.parametrize("case", BROKEN)
async def test_nothing_is_planned_while_a_policy_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """Whatever keeps it away. The refusal names it, its distribution, what is wrong and what a person can do."""
    site = site_of(tmp_path, case)
    monkeypatch.syspath_prepend(str(site))
    manager = ProviderManager()
    await manager.load(found=entry_points(site))
    assert manager.names() == ("good",)
    for ask in (manager.provider("good").contribute_plan, manager.provider("good").prepare):
        with pytest.raises(PolicyNotLoadedError) as refused:
            await ask(CONTEXT)
        assert refused.value.policy == "house"
        assert refused.value.distribution in {"house-rules 1.0", "other-rules 2.0"}
        assert refused.value.problem
        assert refused.value.block == "jam plugin block house"
    (report, *_) = [report for report in manager.reports() if report.kind is PluginKind.POLICY]
    assert not report.finding().ok
    assert "no room starts" in report.hint()
    assert "jam plugin block house" in report.hint()


@pytest.mark.parametrize("case", BROKEN)
async def test_a_person_may_say_that_rooms_go_on_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """A block is that word; the policy is not imported, and everything else works."""
    site = site_of(tmp_path, case)
    monkeypatch.syspath_prepend(str(site))
    manager = ProviderManager()
    await manager.load(found=entry_points(site), blocked=blocked_by_setting(("house",)))
    manager.require_policies()
    assert await manager.provider("good").contribute_plan(CONTEXT) == CONTRIBUTION


async def test_what_brings_work_to_safety_goes_on_without_a_policy() -> None:
    """Captures and restores are declared as ever: a missing policy keeps rooms from starting, and nobody from their work."""
    manager = ProviderManager()
    await manager.add("good", GoodProvider())
    await manager.add_policy("house", object())
    hooks = manager.provider("good")
    with pytest.raises(PolicyNotLoadedError):
        manager.require_policies()
    assert (await hooks.declare_capture()).entries
    assert await hooks.accepts_version("1.0.0", "1.0.0")


@pytest.mark.guarantee("PREP-3")
async def test_a_policy_wraps_also_what_a_provider_does_not_answer() -> None:
    """A provider that prepares nothing has what the policy prepares; without policies it has nothing."""
    for policies, files in (((), ()), ((Preparing(),), (RULES,))):
        manager = ProviderManager()
        await manager.add("good", PreparesNothing())
        await manager.add("other", named("other"))
        for policy in policies:
            assert (await manager.add_policy("house", policy)).violations == ()
        assert (await manager.provider("good").prepare(CONTEXT)).files == files
        assert (await manager.provider("other").prepare(CONTEXT)).files == (*OWN, *files)


def named(name: str) -> GoodProvider:
    """Return the good provider under another name."""
    provider = GoodProvider()
    provider.description = GOOD.model_copy(update={"name": name})  # type: ignore[misc]
    return provider


@pytest.mark.parametrize("hook", sorted(NOT_WRAPPED))
async def test_a_hook_that_cannot_be_wrapped_is_refused(hook: str) -> None:
    """A wrapper that is never called, or that gets a coroutine, would be taken for a rule that holds."""

    def wrap(self: object) -> Generator[None, object, object]:
        return (yield)

    policy = type("Wraps", (), {"api_version": (1, 0), hook: hookimpl(wrapper=True)(wrap)})()
    report = await ProviderManager().add_policy("wraps", policy)
    assert report.state == "broken"
    assert report.violations == (f"{hook}: no policy wraps it, since {NOT_WRAPPED[hook]}",)


async def test_a_policy_that_fails_is_named_in_the_refusal() -> None:
    """The provider's name alone would send a person to the wrong author."""
    manager = ProviderManager()
    await manager.add("good", GoodProvider())
    await manager.add_policy("house", Failing())
    with pytest.raises(PluginFailedError, match="list of rules is gone") as refused:
        await manager.provider("good").contribute_plan(CONTEXT)
    assert refused.value.problem.endswith("(wrapped by house)")
    assert (await manager.provider("good").contribute_alone(CONTEXT)) == CONTRIBUTION


MOUNT = ExtraMount(subdirectory="rules", guest_path="/jam/state/good/rules", access=Access.READ_ONLY)
WANTED: Mapping[str, dict[str, Any]] = {
    "a mount": {"extra_mounts": (MOUNT,)},
    "a variable": {"environment": (*CONTRIBUTION.environment, ("HOUSE_RULES", "1"))},
    "a variable less": {"environment": ()},
    "a request less": {"endpoint_paths": ()},
    "an image": {"agent_image": "house"},
    "a kit": {"kits": ("house",)},
}


@pytest.fixture
def plan() -> Plan:
    """A plan that was made before there were policies."""
    return plans.plan(plans.inputs_for(SHARED_CELL))


@pytest.mark.guarantee("PLAN-5")
@pytest.mark.parametrize("what", WANTED)
def test_a_plan_that_is_older_than_a_policy_is_seen(plan: Plan, what: str) -> None:
    """Whether the policy adds or takes away; a plan that is made with it passes."""
    wanted = CONTRIBUTION.model_copy(update=WANTED[what])
    with pytest.raises(PolicyNotAppliedError) as refused:
        require_policies(plan, policies=("house",), wanted=wanted, own=CONTRIBUTION)
    assert refused.value.policies == ("house",)
    require_policies(plans.plan(plans.inputs_for(SHARED_CELL), contribution=wanted), policies=(), wanted=wanted, own=CONTRIBUTION)


HOSTS = {
    "https://models.example": True,
    "https://eu.models.example": True,
    "https://MODELS.example.:8443": True,
    "https://mymodels.example": False,
    "https://models.example.org": False,
    "https://127.0.0.1:9": False,
}


@pytest.mark.guarantee("PLAN-5", "SEC-4")
@pytest.mark.parametrize("origin", HOSTS)
def test_a_denied_host_is_no_endpoint(origin: str) -> None:
    """By its name and all below it, however the name is written; a plan that is older than the denial is seen too."""
    wanted = CONTRIBUTION.model_copy(update={"denied_hosts": ("models.example",)})
    inputs = plans.inputs_for(SHARED_CELL, endpoint=EndpointChoice(origin=origin))
    older = plans.plan(inputs)
    if HOSTS[origin]:
        with pytest.raises(PlanRefusedError, match="denies it"):
            plans.plan(inputs, contribution=wanted)
        with pytest.raises(PolicyNotAppliedError, match="it reaches"):
            require_policies(older, policies=("house",), wanted=wanted, own=CONTRIBUTION)
    else:
        assert plans.plan(inputs, contribution=wanted) == older
        require_policies(older, policies=("house",), wanted=wanted, own=CONTRIBUTION)


@pytest.mark.parametrize("host", ["Models.example", "https://models.example", "models.example:443", "*.example", "", ".example"])
def test_what_is_no_name_of_a_host_is_refused(host: str) -> None:
    """A denial that matches nothing would be believed to hold."""
    made = CONTRIBUTION.model_copy(update={"denied_hosts": (host,)})
    assert [problem for problem in contribution_problems(made, CONTEXT) if "denied host" in problem]


READS = MOUNT.model_copy(update={"guest_path": "/jam/state/good/notes", "subdirectory": "notes"})
WRITES = READS.model_copy(update={"access": Access.READ_WRITE})
OLDER: Mapping[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "a variable had another value": (
        {"environment": (("GOOD_HOME", "/jam/state/good/old"),)},
        {},
        {"environment": ()},
    ),
    "a mount was writable": ({"extra_mounts": (WRITES,)}, {}, {"extra_mounts": (READS,)}),
    "a mount was of another directory": (
        {"extra_mounts": (MOUNT.model_copy(update={"subdirectory": "rules-1"}),)},
        {},
        {"extra_mounts": (MOUNT,)},
    ),
    "a mount had another access": ({"extra_mounts": (WRITES,)}, {"extra_mounts": (READS,)}, {"extra_mounts": ()}),
}


@pytest.mark.guarantee("PLAN-5")
@pytest.mark.parametrize("what", OLDER)
def test_an_older_form_of_what_a_policy_changes_is_seen(what: str) -> None:
    """A part is known by its name: what the room was planned with may be of an older provider, or of an older policy."""
    had, own, wanted = (CONTRIBUTION.model_copy(update=update) for update in OLDER[what])
    plan = plans.plan(plans.inputs_for(SHARED_CELL), contribution=had)
    with pytest.raises(PolicyNotAppliedError):
        require_policies(plan, policies=("house",), wanted=wanted, own=own)


def test_a_mount_that_a_newer_provider_has_may_be_made_read_only(plan: Plan) -> None:
    """An older room does without the mount, and nothing in it can be written to: that keeps no room down."""
    own, wanted = (CONTRIBUTION.model_copy(update={"extra_mounts": (mount,)}) for mount in (WRITES, READS))
    require_policies(plan, policies=("house",), wanted=wanted, own=own)


def test_what_a_newer_provider_contributes_is_not_the_policies_part(plan: Plan) -> None:
    """Its room starts as it did before there was a policy: only what the policy makes of it counts."""
    newer = CONTRIBUTION.model_copy(update={"environment": (("GOOD_NEW", "1"),), "endpoint_paths": ("POST /v2/answers",)})
    require_policies(plan, policies=("house",), wanted=newer, own=newer)
