"""Approvals of the fake."""

# ruff: noqa: D101, D102 - the methods are the ones of jamcore.daemon.services, documented there

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import anyio

from jamcore.domain.approvals import (
    ANSWERED,
    Approval,
    ApprovalDecidedError,
    ApprovalRule,
    ApprovalState,
    DecidedBy,
    DecisionRequest,
    digest_of,
    rule_from,
)
from jamcore.domain.errors import NotFoundError
from jamcore.domain.events import (
    ApprovalDecided,
    ApprovalRequested,
)
from jamcore.testing.fake_daemon.records import (
    AT,
    COMMAND,
    IDS,
    Conversation,
)
from jamcore.testing.fake_daemon.state import Part


class FakeApprovals(Part):
    async def ask(self, room: Conversation, turn: UUID) -> ApprovalState:
        """Act out a question in a turn, to its answer."""
        approval = Approval(
            id=IDS.uuid(),
            room_id=room.room.id,
            session_id=room.session.id,
            turn_id=turn,
            process_epoch=1,
            request="r",
            item="c1",
            subject="command",
            detail=COMMAND,
            preview="in /jam/work",
            digest=digest_of("command", COMMAND),
            state=ApprovalState.PENDING,
            decided_by=None,
            decision_id=None,
            rule_id=None,
            asked_at=AT,
            deadline_at=AT + timedelta(minutes=10),
            decided_at=None,
        )
        self.fake.approvals[approval.id] = approval
        asked = ApprovalRequested(item="c1", subject="command", detail=COMMAND, request=str(approval.id), preview="in /jam/work")
        room.emit(turn, asked)
        while self.fake.approvals[approval.id].state is ApprovalState.PENDING:
            await self.fake.news.wait()
        decided = self.fake.approvals[approval.id]
        room.emit(turn, ApprovalDecided(approval=decided.id, state=decided.state, decided_by=DecidedBy.PERSON))
        return decided.state

    async def list(self, *, room: str | None, state: ApprovalState | None) -> tuple[Approval, ...]:
        await self.fake.note("approvals", (room, state))
        wanted = None if room is None else self.fake.find(room).room.id
        return tuple(one for one in self.fake.approvals.values() if wanted in {None, one.room_id} and state in {None, one.state})

    async def get(self, ref: str) -> Approval:
        await self.fake.note("approval", ref)
        found = next((one for one in self.fake.approvals.values() if str(one.id).startswith(ref)), None)
        if found is None:
            raise NotFoundError(kind="approval", ref=ref)
        return found

    async def decide(self, ref: str, request: DecisionRequest) -> Approval:
        found = await self.get(ref)
        await self.fake.note("decide", request)
        if found.state is not ApprovalState.PENDING:
            raise ApprovalDecidedError(approval=str(found.id), state=found.state, decided_by="person")
        rule = rule_from(found, request, identifier=IDS.uuid(), agent=UUID(int=8), created_at=AT)
        if rule is not None:
            self.fake.approval_rules[rule.id] = rule
        decided = found.model_copy(
            update={
                "state": ANSWERED[request.decision],
                "decided_by": DecidedBy.PERSON,
                "decision_id": request.id,
                "decided_at": AT,
            }
        )
        self.fake.approvals[found.id] = decided
        self.fake.news.set()
        self.fake.news = anyio.Event()
        return decided

    async def rules(self) -> tuple[ApprovalRule, ...]:
        await self.fake.note("rules")
        return tuple(self.fake.approval_rules.values())

    async def remove_rule(self, ref: str) -> ApprovalRule:
        await self.fake.note("remove_rule", ref)
        found = next((one for one in self.fake.approval_rules.values() if str(one.id).startswith(ref)), None)
        if found is None:
            raise NotFoundError(kind="approval rule", ref=ref)
        return self.fake.approval_rules.pop(found.id)
