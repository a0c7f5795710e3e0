"""Inputs for plans in tests: fixed UUIDs, every choice settable."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from jamcore.domain.cells import ON_THE_HOST, Ability, Cell, CellTable, Configuration, WorkspaceSource
from jamcore.domain.plan import Plan, PlanContribution, RuntimeHostOwner
from jamcore.domain.providers import ProviderDescription
from jamcore.domain.sandboxes import Isolation
from jamcore.sandbox.planning import EngineFacts, PlanInputs, build_plan
from jamcore.testing.doubles.providers import CONTRIBUTION, GOOD

AGENT = UUID("00112233-4455-6677-8899-aabbccddeeff")
HOST = UUID("ffeeddcc-bbaa-9988-7766-554433221100")
SESSION = UUID("01234567-89ab-7def-8123-456789abcdef")
OWNER = RuntimeHostOwner(agent_id=AGENT, host_id=HOST)
ALL_ABLE = EngineFacts(name="directory", isolation=Isolation.NONE, abilities=frozenset(Ability) - ON_THE_HOST)


def inputs(**changes: Any) -> PlanInputs:
    """Return complete inputs of a Dedicated Managed session, with changes."""
    fields: dict[str, Any] = {"owner": OWNER, "host_id": HOST, "session_id": SESSION, **changes}
    return PlanInputs(**fields)


def inputs_for(cell: Cell, *, path: str = "/srv/repository", **changes: Any) -> PlanInputs:
    """Return complete inputs for a cell: a path, a commit and environment files exactly where they belong."""
    fields: dict[str, Any] = {"configuration": cell.configuration, "workspace": cell.workspace, "placement": cell.placement}
    if cell.workspace is not WorkspaceSource.MANAGED:
        fields["path"] = path
    if cell.workspace is WorkspaceSource.PRIVATE_HOST_CLONE:
        fields["commit"] = "0" * 40
    if cell.configuration is Configuration.ENVIRONMENT_FILES:
        fields["environment_files"] = ("/srv/one.env", "/srv/two.env")
    return inputs(**fields | changes)


def plan(
    wanted: PlanInputs | None = None,
    *,
    description: ProviderDescription = GOOD,
    contribution: PlanContribution = CONTRIBUTION,
    engine: EngineFacts = ALL_ABLE,
) -> Plan:
    """Build a plan of the good provider."""
    table = CellTable({description.name: description.cells})
    return build_plan(wanted or inputs(), table=table, description=description, contribution=contribution, engine=engine)
