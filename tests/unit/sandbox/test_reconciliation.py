"""Every sandbox and every marker is classified, foreign ones are counted, and nothing is concluded from silence (OWN-6)."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jamcore.domain.ownership import Disposition, MarkerUnreadableError, OwnerMarker
from jamcore.domain.plan import Plan, RuntimeHostOwner, RuntimeSessionOwner
from jamcore.domain.sandboxes import Presence
from jamcore.sandbox.reconciliation import Seen, StoredHost, classify
from jamcore.testing.doubles import plans

pytestmark = [pytest.mark.unprivileged, pytest.mark.guarantee("OWN-6")]

PLAN = plans.plan()
HOST = StoredHost(id=UUID(int=1), sandbox=PLAN.name, engine=PLAN.engine, plan=PLAN)
RUNNING, STOPPED = {PLAN.name: Presence.RUNNING}, {PLAN.name: Presence.STOPPED}


def marker(plan: Plan = PLAN) -> OwnerMarker:
    """Return a marker of a plan."""
    return OwnerMarker(plan=plan, nonce="n", mcp_digest="m")


def one(seen: Seen) -> tuple[str, str, UUID | None]:
    """Return the only row in short."""
    ((row,), foreign) = classify(seen)
    assert foreign == 0
    return row.disposition, row.presence, row.host_id


def seen(
    *,
    host: StoredHost | None = HOST,
    found: OwnerMarker | MarkerUnreadableError | None = None,
    inventory: dict[str, Presence] | None = None,
) -> Seen:
    """Return what is seen of one host, one marker, one engine; without an inventory the engine did not answer."""
    return Seen(
        hosts=() if host is None else (host,),
        markers={} if found is None else {PLAN.name: found},
        inventories={} if inventory is None else {PLAN.engine: inventory},
    )


@pytest.mark.parametrize("inventory", [RUNNING, STOPPED])
def test_sandbox_marker_and_record_of_one_plan_are_healthy(inventory: dict[str, Presence]) -> None:
    """Whether it runs or is parked."""
    assert one(seen(found=marker(), inventory=inventory)) == (Disposition.HEALTHY, inventory[PLAN.name], HOST.id)


def test_what_is_missing_or_differs_has_a_name() -> None:
    """No marker, no sandbox, another plan, a marker or a stored plan that cannot be read, a marker of nobody's."""
    other = PLAN.model_copy(update={"kits": ("another",)})
    unreadable = MarkerUnreadableError(sandbox=PLAN.name, problem="no JSON")
    nobody = StoredHost(id=HOST.id, sandbox=HOST.sandbox, engine=HOST.engine, plan=None)
    assert one(seen(inventory=RUNNING))[0] is Disposition.PERSISTED_WITHOUT_OWNER_MARKER
    assert one(seen(found=marker(), inventory={}))[:2] == (Disposition.OWNER_WITHOUT_SANDBOX, Presence.ABSENT)
    assert one(seen(found=marker(other), inventory=RUNNING))[0] is Disposition.OWNERSHIP_MISMATCH
    assert one(seen(found=unreadable, inventory=RUNNING))[0] is Disposition.OWNERSHIP_MISMATCH
    assert one(seen(host=nobody, found=marker(), inventory=RUNNING))[0] is Disposition.OWNERSHIP_MISMATCH
    assert one(seen(host=None, found=marker(), inventory=RUNNING)) == (Disposition.ORPHAN_OWNER_MARKER, Presence.RUNNING, None)
    assert one(seen(host=None, found=marker()))[:2] == (Disposition.ORPHAN_OWNER_MARKER, "unknown")


def test_a_reviewed_transition_still_wants_a_look() -> None:
    """Made for a session, kept as the host of that number: reusable after verification, and said so."""
    owner = RuntimeSessionOwner(agent_id=UUID(int=8), session_id=UUID(int=9))
    old = PLAN.model_copy(update={"owner": owner})
    new = PLAN.model_copy(update={"owner": RuntimeHostOwner(agent_id=UUID(int=8), host_id=UUID(int=9))})
    host = StoredHost(id=UUID(int=9), sandbox=PLAN.name, engine=PLAN.engine, plan=new)
    assert one(seen(host=host, found=marker(old), inventory=RUNNING))[0] is Disposition.COMPATIBILITY_VERIFICATION_REQUIRED


def test_of_a_silent_engine_nothing_is_said() -> None:
    """Its hosts give no row: unknown is not absent."""
    assert classify(seen(found=marker())) == ((), 0)


def test_a_host_that_was_never_made_gives_no_row() -> None:
    """Neither sandbox nor marker: nothing to compare."""
    assert classify(seen(inventory={})) == ((), 0)


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.sampled_from([Presence.RUNNING, Presence.STOPPED])))
def test_strangers_are_counted_and_never_listed(strangers: dict[str, Presence]) -> None:
    """However many there are, no name of theirs leaves."""
    rows, foreign = classify(seen(found=marker(), inventory=RUNNING | strangers))
    assert [row.sandbox for row in rows] == [PLAN.name]
    assert foreign == len(strangers)
