"""What agents ask to do, the answers, and the rules that people made of answers."""

from __future__ import annotations

from jamcore.control.routes.route import AnyRoute, Call, Route
from jamcore.domain.approvals import Approval, ApprovalList, ApprovalRule, ApprovalState, DecisionRequest, RuleList
from jamcore.domain.errors import InvalidInputError


async def approvals(call: Call) -> ApprovalList:
    """List approvals, newest first."""
    state = call.asked("state")
    if state is not None and state not in set(ApprovalState):
        raise InvalidInputError(field="state", problem=f"one of {', '.join(ApprovalState)}")
    wanted = None if state is None else ApprovalState(state)
    return ApprovalList(items=await call.services.approvals.list(room=call.asked("room"), state=wanted))


async def show(call: Call) -> Approval:
    """Return one."""
    return await call.services.approvals.get(call.ref)


async def decide(call: Call) -> Approval:
    """Answer one; the first answer counts."""
    return await call.services.approvals.decide(call.ref, call.body(DecisionRequest))


async def rules(call: Call) -> RuleList:
    """List rules, newest first."""
    return RuleList(items=await call.services.approvals.rules())


async def remove_rule(call: Call) -> ApprovalRule:
    """Remove a rule and return what it was."""
    return await call.services.approvals.remove_rule(call.ref)


ROUTES: tuple[AnyRoute, ...] = (
    Route(
        "GET",
        "/v1/approvals",
        "list_approvals",
        "What agents asked to do, newest first",
        approvals,
        ApprovalList,
        query=(("room", "Of this room alone"), ("state", "In this state alone")),
    ),
    Route("GET", "/v1/approvals/{ref}", "show_approval", "One approval", show, Approval),
    Route(
        "POST",
        "/v1/approvals/{ref}/decision",
        "decide_approval",
        "Answer once; the first answer counts, an exact retry is the same answer",
        decide,
        Approval,
        body=DecisionRequest,
    ),
    Route("GET", "/v1/approval-rules", "list_approval_rules", "What people allowed for good, newest first", rules, RuleList),
    Route("DELETE", "/v1/approval-rules/{ref}", "remove_approval_rule", "Remove a rule", remove_rule, ApprovalRule),
)
