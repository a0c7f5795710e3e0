"""What every policy promises: checks that need nothing but the policy, put to a provider that is nobody's.

A policy's author subclasses them, and ``jam plugin check`` puts them to each installed policy. The first line of a check's docstring is its
rule, the rest says why it is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from jamcore.domain.cells import ON_THE_HOST, Ability, CellTable, Configuration, WorkspaceSource
from jamcore.domain.continuity import ActivationPlan, CaptureKind, CaptureList
from jamcore.domain.errors import JamError
from jamcore.domain.plan import PlanContext, PlanContribution, RuntimeHostOwner
from jamcore.domain.plugins import PluginKind, PluginReport
from jamcore.domain.provider_rules import capture_problems, preparation_problems
from jamcore.domain.providers import PlacementAnswer, PluginFailedError, Preparation
from jamcore.domain.sandboxes import Access, Isolation
from jamcore.sandbox.planning import EngineFacts, PlanInputs, build_plan
from jamcore.testing.policies.probe import NAME, Probe, ProbeError, Question, probed, questions
from jamcore.testing.policies.subject import Promising, core_problem
from jamcore.testing.proof import NOT_CLAIMED
from jamcore.testing.untouched import Untouched

ID = UUID(int=1)
ENGINE = EngineFacts(name="any", isolation=Isolation.NAMESPACE, abilities=frozenset(Ability) - ON_THE_HOST)


@dataclass(frozen=True, slots=True)
class Answered:
    """A question with the provider's own answer, and what the policy makes of it; ``None`` where that is none."""

    question: Question
    own: Any
    wrapped: Any
    problem: str = ""
    calls: int = 1


@pytest.mark.anyio
class PolicyPromises:
    """What is promised of every plan, of every provider."""

    @pytest.fixture
    async def admission(self, policy: Promising) -> PluginReport:
        """What a daemon would say of the policy."""
        manager, _ = await probed((policy.name, policy.plugin()))
        return next(report for report in manager.reports() if report.kind is PluginKind.POLICY)

    @pytest.fixture
    def wrapped(self, policy: Promising, admission: PluginReport) -> tuple[Question, ...]:
        """Everything that the policy wraps."""
        if admission.violations:
            pytest.skip("it would not be loaded, and is asked nothing more")
        return tuple(each for each in questions() if hasattr(policy.plugin(), each.hook))

    @pytest.fixture
    async def answers(self, policy: Promising, wrapped: tuple[Question, ...]) -> tuple[Answered, ...]:
        """What the policy makes of each answer."""
        alone, _ = await probed()
        manager, probe = await probed((policy.name, policy.plugin()))
        found = []
        for question in wrapped:
            own = await question.ask(alone.provider(NAME))
            probe.calls.clear()
            try:
                made, problem = await question.ask(manager.provider(NAME)), ""
            except PluginFailedError as error:
                made, problem = None, error.problem
            found.append(Answered(question, own, made, problem, probe.calls[question.hook]))
        return tuple(found)

    @pytest.mark.guarantee("CAP-6", "PLUG-1")
    async def test_it_would_be_loaded(self, admission: PluginReport) -> None:
        """A daemon loads the policy: its interface version, its hooks' marks and signatures are in order, and it wraps and answers none.

        While an installed policy cannot be loaded no room starts; here its author is the first to know.
        """
        assert list(admission.violations) == []

    @pytest.mark.guarantee("PLUG-1")
    async def test_it_uses_nothing_that_will_go(self, admission: PluginReport) -> None:
        """No hook and no argument that it takes is deprecated.

        A deprecated one works until the next major version of the interface, and is gone with it: then no room starts.
        """
        assert list(admission.warnings) == []

    @pytest.mark.guarantee("KIT-2")
    async def test_its_distribution_says_which_core_it_needs(self, policy: Promising) -> None:
        """It requires jamcore, and not any that will ever be.

        An installer then refuses what cannot work, before anything of it is loaded; without an upper bound every future core seems right.
        """
        assert core_problem(policy.distribution) is None

    @pytest.mark.guarantee("PLUG-1")
    async def test_it_wraps_something(self, wrapped: tuple[Question, ...]) -> None:
        """It wraps at least one hook that decides.

        One that wraps none is installed, listed as loaded, and holds nobody to anything.
        """
        assert wrapped

    @pytest.mark.guarantee("CAP-6")
    async def test_its_decisions_touch_nothing(self, policy: Promising, wrapped: tuple[Question, ...]) -> None:
        """A wrapper reads no file, no environment and no network, starts nothing, and makes the same of the same answer.

        The core asks when it likes and as often. What depends on anything is read once, when the daemon makes the policy.
        """
        touched, differ = {}, []
        for question in wrapped:
            policies = policy.plugin(), policy.plugin()
            try:
                told = [question.of(Probe(), each) for each in (*policies, *policies)]  # what is imported late is imported now
            except Exception:  # noqa: BLE001, S112 - another promise is about answers that are none
                continue
            if any(answer != told[0] for answer in told):
                differ.append(question.title)
            with Untouched() as watch:
                question.of(Probe(), policies[0])
            if watch.touched:
                touched[question.title] = watch.touched
        assert touched == {}
        assert differ == []

    @pytest.mark.guarantee("PLUG-1")
    async def test_it_asks_the_provider_once_and_answers(self, answers: tuple[Answered, ...]) -> None:
        """What it wraps is asked exactly once, and an answer of the right type is returned, for every cell.

        Whatever else it does fails the room of whoever has that cell: nothing is planned without a policy's answer.
        """
        assert {each.question.title: each.problem for each in answers if each.problem} == {}
        assert {each.question.title: each.calls for each in answers if each.calls != 1} == {}

    @pytest.mark.guarantee("PLUG-1")
    async def test_it_lets_errors_through(self, policy: Promising, wrapped: tuple[Question, ...]) -> None:
        """An error of the provider reaches the core as that error.

        Who answers in its place makes a plan of nothing, and the provider's author never hears of it.
        """
        manager, probe = await probed((policy.name, policy.plugin()))
        probe.fails = True
        swallowed = []
        for question in wrapped:
            try:
                await question.ask(manager.provider(NAME))
            except PluginFailedError as error:
                # One that never comes to ask the provider has no error to let through; that it must ask is another promise.
                if probe.calls[question.hook] and not isinstance(error.__cause__, ProbeError):
                    swallowed.append(f"{question.title}: {error.problem}")
            else:
                swallowed.append(question.title)
        assert swallowed == []

    @pytest.mark.guarantee("PLAN-5")
    async def test_what_it_makes_is_valid(self, answers: tuple[Answered, ...]) -> None:
        """The core accepts what it makes of each answer: paths below their roots, exact requests, variables that may be, each file once.

        What the core refuses it refuses for every room of every provider.
        """
        problems = {each.question.title: list(_problems(each)) for each in answers if each.wrapped is not None}
        assert {title: found for title, found in problems.items() if found} == {}

    @pytest.mark.guarantee("PLAN-5", "SEC-4")
    async def test_it_never_widens(self, answers: tuple[Answered, ...]) -> None:
        """No request, host, writable directory, seat, captured file or version more than there is, and nothing prepared is changed.

        Policies are trusted because they only tighten: what the provider was proven with is then an upper bound, however many there are.
        """
        widened = {each.question.title: list(_wider(each.own, each.wrapped)) for each in answers if each.wrapped is not None}
        assert {title: found for title, found in widened.items() if found} == {}

    @pytest.mark.guarantee("PLAN-5", "PREP-3")
    async def test_what_it_mounts_read_only_cannot_be_written(self, answers: tuple[Answered, ...]) -> None:
        """A read-only mount that it adds covers its own directory of the state root.

        The state root is writable: a directory of it that is shown read-only elsewhere is changed where it lies.
        """
        plans = [each for each in answers if isinstance(each.wrapped, PlanContribution)]
        added = [
            (mount, each.question.arguments["context"].state_root)
            for each in plans
            for mount in each.wrapped.extra_mounts
            if mount not in each.own.extra_mounts and mount.access is Access.READ_ONLY
        ]
        if not added:
            pytest.skip(f"{NOT_CLAIMED}it adds no read-only mount")
        assert [mount for mount, root in added if mount.guest_path != f"{root}/{mount.subdirectory}"] == []


def _problems(answered: Answered) -> Iterator[str]:
    """Yield what the core would refuse."""
    made = answered.wrapped
    if isinstance(made, PlanContribution):
        yield from _unplannable(answered.question.arguments["context"], made)
    elif isinstance(made, Preparation):
        yield from preparation_problems(made)
        paths = [file.path for file in made.files]
        yield from (f"{path!r} is prepared twice" for path in sorted({path for path in paths if paths.count(path) > 1}))
    elif isinstance(made, CaptureList):
        yield from capture_problems(made, Probe.activation)
    elif isinstance(made, ActivationPlan):
        yield from capture_problems(Probe.capture, made)


def _unplannable(context: PlanContext, made: PlanContribution) -> Iterator[str]:
    cell = context.cell
    described = Probe.description
    inputs = PlanInputs(
        owner=RuntimeHostOwner(agent_id=ID, host_id=ID),
        host_id=ID,
        session_id=ID,
        configuration=cell.configuration,
        workspace=cell.workspace,
        placement=cell.placement,
        path=None if cell.workspace is WorkspaceSource.MANAGED else "/srv/repository",
        commit="0" * 40 if cell.workspace is WorkspaceSource.PRIVATE_HOST_CLONE else None,
        environment_files=("/srv/one.env",) if cell.configuration is Configuration.ENVIRONMENT_FILES else (),
    )
    try:
        build_plan(inputs, table=CellTable({NAME: described.cells}), description=described, contribution=made, engine=ENGINE)
    except JamError as error:
        yield str(error)


def _wider(own: Any, made: object) -> Iterator[str]:  # noqa: ANN401 - of the same type as the other
    """Yield in what an answer goes beyond the provider's own."""
    if isinstance(made, PlanContribution):
        yield from (f"the request {pair}" for pair in made.endpoint_paths if pair not in own.endpoint_paths)
        yield from (f"{host} is not denied any more" for host in own.denied_hosts if host not in made.denied_hosts)
        writable = [mount for mount in made.extra_mounts if mount.access is Access.READ_WRITE]
        yield from (f"the writable mount {mount.guest_path}" for mount in writable if mount not in own.extra_mounts)
    elif isinstance(made, Preparation):
        yield from (f"{file.path} is changed or gone" for file in own.files if file not in made.files)
    elif isinstance(made, CaptureList):
        more = [entry for entry in made.entries if entry not in own.entries and entry.kind is not CaptureKind.NEVER]
        yield from (f"{entry.pattern} is captured" for entry in more)
        lost = set(own.credential_patterns) - set(made.credential_patterns)
        yield from (f"{pattern} is no credential any more" for pattern in sorted(lost))
    elif isinstance(made, ActivationPlan):
        yield from (f"{pattern} is not checked any more" for pattern in own.check if pattern not in made.check)
    elif isinstance(made, PlacementAnswer) and made.accepted and not own.accepted:
        yield "a session is accepted that the provider refuses"
    elif made is True and own is False:
        yield "a version is accepted that the provider refuses"
