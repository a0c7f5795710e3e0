"""A provider's runtime is opened only in what was prepared for exactly this host's plan and policy (PREP-2)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from jamcore.domain.limits import DEFAULTS
from jamcore.domain.plan import Plan
from jamcore.runtime.bringup import BringUp
from jamcore.sandbox.ensure import Ensured
from jamcore.sandbox.places import guest_view
from jamcore.sandbox.prepared import Gate, NetworkPolicy, PreparationMismatchError, PreparedExec
from jamcore.testing.doubles import plans
from jamcore.testing.doubles.engines import DirectoryEngine

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]


def bring_up(plan: Plan, opened: list[str]) -> BringUp:
    """Return a host's bring-up of which only the opening of its provider's runtime is real."""

    async def open_runtime(_request: object, prepared: PreparedExec) -> object:
        opened.append(prepared.plan.name)
        return None

    unused = cast("Any", None)
    return BringUp(
        plan=plan,
        hooks=cast("Any", SimpleNamespace(open_runtime=open_runtime)),
        engine=DirectoryEngine(),
        preparer=cast("Any", SimpleNamespace(limits=DEFAULTS)),
        open_route=unused,
        open_door=unused,
        continuity=unused,
        standing=unused,
        work_trees=unused,
    )


def prepared_for(plan: Plan, policy: NetworkPolicy, tmp_path: Any) -> PreparedExec:  # noqa: ANN401 - a directory
    """Return what a preparation of a plan and a policy gives."""
    view = guest_view(plan, tmp_path, relay_url="http://127.0.0.1:1")
    fields = {"engine": DirectoryEngine(), "plan": plan, "policy": policy, "outcome": Ensured.REUSED, "gate": Gate(), "view": view}
    return PreparedExec(**cast("Any", fields))


@pytest.mark.guarantee("PREP-2")
async def test_the_runtime_is_opened_in_what_was_prepared_for_it(tmp_path: Any) -> None:  # noqa: ANN401 - a directory
    """The same plan and policy: opened. Another plan, or another policy: refused, and no provider is started."""
    plan, opened = plans.plan(), list[str]()
    host, own = bring_up(plan, opened), NetworkPolicy(endpoint=plan.endpoint)
    await host.open_runtime(prepared_for(plan, own, tmp_path))
    assert opened == [plan.name]
    other = plan.model_copy(update={"environment": (("OTHER", "1"),)})
    for prepared in (prepared_for(other, own, tmp_path), prepared_for(plan, NetworkPolicy(endpoint=None), tmp_path)):
        with pytest.raises(PreparationMismatchError):
            await host.open_runtime(prepared)
    assert opened == [plan.name]
