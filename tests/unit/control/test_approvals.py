"""Approvals over the control interface: the typed client, a real Unix socket, the real server."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import anyio
import pytest

from jamcore.control.app import ROUTES
from jamcore.control.openapi import document
from jamcore.domain.approvals import Approval, ApprovalAnswer, ApprovalState, DecisionRequest, RuleScope
from jamcore.domain.errors import JamError
from jamcore.domain.requests import RoomRequest, TurnRequest
from jamcore.system.ids import SystemIds

if TYPE_CHECKING:
    from tests.unit.control.conftest import Ask, Served

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]
IDS = SystemIds()
WAIT_S = 10.0


async def asked(served: Served, name: str = "r") -> Approval:
    """Return what the agent of a new room asks."""
    await served.client.create_room(RoomRequest(id=IDS.uuid(), provider="codex", name=name))
    await served.client.say(name, TurnRequest(id=IDS.uuid(), text="ask"))
    with anyio.fail_after(WAIT_S):
        while not (waiting := await served.client.approvals.list(room=name, state=ApprovalState.PENDING)):  # noqa: ASYNC110 - behind a socket
            await anyio.sleep(0.005)
    return waiting[0]


@pytest.mark.guarantee("CTRL-2")
async def test_the_client_lists_shows_and_decides(served: Served) -> None:
    """The same record each time, and the decision that was sent."""
    approval = await asked(served)
    other = await asked(served, "other room/50%")
    assert await served.client.approvals.get(str(approval.id)) == approval
    assert {one.id for one in await served.client.approvals.list()} == {approval.id, other.id}
    assert await served.client.approvals.list(state=ApprovalState.DENIED) == ()
    request = DecisionRequest(id=IDS.uuid(), decision=ApprovalAnswer.ALLOW, always=RuleScope.ROOM)
    decided = await served.client.approvals.decide(str(approval.id), request)
    assert (decided.state, decided.decision_id) == (ApprovalState.ALLOWED, request.id)
    [rule] = await served.client.approvals.rules()
    assert rule.created_by_approval == approval.id
    assert await served.client.approvals.remove_rule(str(rule.id)) == rule
    assert await served.client.approvals.rules() == ()


@pytest.mark.guarantee("CTRL-3")
async def test_a_second_answer_is_a_typed_conflict(served: Served, ask: Ask) -> None:
    """With the status of a conflict, and with how it was decided as context, not as words."""
    approval = await asked(served)
    await served.client.approvals.decide(str(approval.id), DecisionRequest(id=IDS.uuid(), decision=ApprovalAnswer.DENY))
    late = DecisionRequest(id=IDS.uuid(), decision=ApprovalAnswer.ALLOW)
    with pytest.raises(JamError) as refused:
        await served.client.approvals.decide(str(approval.id), late)
    assert refused.value.code == "conflict.approval_decided"
    assert refused.value.context()["decided_by"] == "person"
    said = await ask("POST", f"/v1/approvals/{approval.id}/decision", late.model_dump_json().encode())
    assert said.status == 409


@pytest.mark.parametrize(
    "target", ["/v1/approvals?state=maybe", "/v1/approvals?room=", f"/v1/approvals?room={'x' * 201}", "/v1/approvals?room=%0a"]
)
async def test_a_query_that_makes_no_sense_is_refused(ask: Ask, target: str) -> None:
    """With the field that is wrong; nothing is listed by mistake."""
    said = await ask("GET", target)
    assert (said.status, said.json["code"]) == (400, "input.invalid")


@pytest.mark.parametrize("body", ['{"id": "x"}', '{"decision": "allow"}', f'{{"id": "{UUID(int=1)}", "decision": "accept"}}'])
async def test_an_answer_that_makes_no_sense_decides_nothing(served: Served, ask: Ask, body: str) -> None:
    """Only allow and deny exist, and every answer has an id."""
    approval = await asked(served)
    said = await ask("POST", f"/v1/approvals/{approval.id}/decision", body.encode())
    assert said.status == 400
    assert (await served.client.approvals.get(str(approval.id))).state is ApprovalState.PENDING


async def test_what_may_follow_the_path_is_documented() -> None:
    """The filters are parameters of the document."""
    [operation] = [
        op for path in document(ROUTES)["paths"].values() for op in path.values() if op["operationId"] == "list_approvals"
    ]
    assert [(each["name"], each["in"]) for each in operation["parameters"]] == [("room", "query"), ("state", "query")]
