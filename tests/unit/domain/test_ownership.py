"""Which stored plan may be reused for which (OWN-4), and who may own (PLAN-2)."""

from __future__ import annotations

from uuid import UUID

import pytest

from jamcore.domain.ownership import PlanMatch, match_plans
from jamcore.domain.plan import Plan, RuntimeHostOwner, RuntimeSessionOwner
from jamcore.domain.sandboxes import Resources
from jamcore.testing.doubles import plans

AGENT, OTHER_AGENT, HOST, OTHER_HOST = (UUID(int=number) for number in range(1, 5))


def owned(owner: RuntimeHostOwner | RuntimeSessionOwner) -> Plan:
    """Return a plan that differs from the others in its owner alone."""
    return plans.plan().model_copy(update={"owner": owner})


BY_HOST = owned(RuntimeHostOwner(agent_id=AGENT, host_id=HOST))
BY_SESSION = owned(RuntimeSessionOwner(agent_id=AGENT, session_id=HOST))


@pytest.mark.guarantee("OWN-4", "PLAN-2")
@pytest.mark.parametrize(
    ("stored", "asked", "match"),
    [
        (BY_HOST, BY_HOST, PlanMatch.EXACT),
        (BY_SESSION, BY_SESSION, PlanMatch.EXACT),
        (BY_SESSION, BY_HOST, PlanMatch.DEDICATED_SESSION_COMPATIBILITY),
        (BY_HOST, BY_SESSION, PlanMatch.DIFFERENT),
        (BY_SESSION, owned(RuntimeHostOwner(agent_id=OTHER_AGENT, host_id=HOST)), PlanMatch.DIFFERENT),
        (BY_SESSION, owned(RuntimeHostOwner(agent_id=AGENT, host_id=OTHER_HOST)), PlanMatch.DIFFERENT),
        (BY_HOST, owned(RuntimeHostOwner(agent_id=AGENT, host_id=OTHER_HOST)), PlanMatch.DIFFERENT),
        (BY_SESSION, owned(RuntimeSessionOwner(agent_id=AGENT, session_id=OTHER_HOST)), PlanMatch.DIFFERENT),
    ],
)
def test_the_one_reviewed_transition(stored: Plan, asked: Plan, match: PlanMatch) -> None:
    """Session to host of the same agent and the same UUID, in this direction alone."""
    assert match_plans(stored, asked) is match


@pytest.mark.guarantee("OWN-4")
def test_the_transition_allows_no_other_difference() -> None:
    """Anything else that differs makes it another plan."""
    changed = BY_HOST.model_copy(update={"resources": Resources(processes=70)})
    assert match_plans(BY_SESSION, changed) is PlanMatch.DIFFERENT
    assert match_plans(BY_HOST, changed) is PlanMatch.DIFFERENT


@pytest.mark.guarantee("OWN-2")
def test_a_plan_is_the_same_after_a_file() -> None:
    """What is compared on reuse was read from the marker: the comparison is exact through its text."""
    for plan in (BY_HOST, BY_SESSION):
        again = Plan.model_validate_json(plan.canonical_json())
        assert again == plan
        assert again.canonical_json() == plan.canonical_json()
