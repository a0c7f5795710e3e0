"""Approvals and the rules that people made of them."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import ColumnElement, delete

from jamcore.domain.approvals import APPROVAL, Approval, ApprovalRule, ApprovalState, DecidedBy, RuleScope
from jamcore.domain.errors import IllegalTransitionError
from jamcore.store.repos.base import Repository, read_row
from jamcore.store.repos.rooms import find_by_ref
from jamcore.store.tables.approvals import APPROVAL_RULES, APPROVALS

LISTED = 500
"""Approvals that a list shows at the most, the newest; older ones are found in their room's events."""


class Approvals(Repository):
    """Requests for permission, each decided at most once."""

    table, kind = APPROVALS, "approval"

    def insert(self, approval: Approval) -> Approval:
        """Keep a new request."""
        self._insert_once(approval.id, approval.model_dump() | {"state": approval.state.value}, compare=("turn_id", "digest"))
        return self.get(approval.id)

    def get(self, identifier: UUID) -> Approval:
        """Return an approval."""
        return read_row(Approval, self._need(self._by_id(identifier), identifier))

    def find(self, ref: str) -> Approval:
        """Return the approval that a person meant, by its id or a part of it."""
        return self.get(find_by_ref(self, ref, name=False))

    def list(self, *, room: UUID | None = None, state: ApprovalState | None = None) -> tuple[Approval, ...]:
        """Return approvals, newest first; at most :data:`LISTED`."""
        where = [APPROVALS.c.room_id == room] if room else []
        where += [APPROVALS.c.state == state.value] if state else []
        rows = self._rows(*where, order=[APPROVALS.c.asked_at.desc(), APPROVALS.c.id.desc()], limit=LISTED)
        return tuple(read_row(Approval, row) for row in rows)

    def pending_of_turn(self, turn: UUID) -> tuple[Approval, ...]:
        """Return what still waits in a turn, oldest first."""
        return self._pending(APPROVALS.c.turn_id == turn)

    def pending_of_session(self, session: UUID) -> tuple[Approval, ...]:
        """Return what still waits in a session, oldest first."""
        return self._pending(APPROVALS.c.session_id == session)

    def decide(
        self,
        identifier: UUID,
        new: ApprovalState,
        by: DecidedBy,
        *,
        decision_id: UUID | None = None,
        rule_id: UUID | None = None,
    ) -> Approval | None:
        """Decide, if nobody was faster: one conditional update, so that of two answers exactly one counts.

        Returns:
            The approval as it is now; ``None`` when it was decided already.

        Raises:
            NotFoundError: There is no such approval.
        """
        known = {"decided_by": by.value, "decision_id": decision_id, "rule_id": rule_id, "decided_at": self._context.now}
        try:
            self._move(identifier, APPROVAL, new, known)
        except IllegalTransitionError:
            return None
        return self.get(identifier)

    def _pending(self, which: ColumnElement[bool]) -> tuple[Approval, ...]:
        waits = APPROVALS.c.state == ApprovalState.PENDING.value
        rows = self._rows(which, waits, order=[APPROVALS.c.asked_at, APPROVALS.c.id])
        return tuple(read_row(Approval, row) for row in rows)


class ApprovalRules(Repository):
    """What people allowed for good."""

    table, kind = APPROVAL_RULES, "approval rule"

    def insert(self, rule: ApprovalRule) -> ApprovalRule:
        """Keep a new rule."""
        values = rule.model_dump() | {"scope": rule.scope.value, "match": rule.match.value}
        self._insert_once(rule.id, values, compare=("scope", "scope_id", "subject", "match", "digest", "text"))
        return rule

    def find(self, ref: str) -> ApprovalRule:
        """Return the rule that a person meant, by its id or a part of it."""
        identifier = find_by_ref(self, ref, name=False)
        return read_row(ApprovalRule, self._need(self._by_id(identifier), identifier))

    def list(self) -> tuple[ApprovalRule, ...]:
        """Return all, newest first."""
        rows = self._rows(order=[APPROVAL_RULES.c.created_at.desc(), APPROVAL_RULES.c.id.desc()])
        return tuple(read_row(ApprovalRule, row) for row in rows)

    def holding(self, *, room: UUID, agent: UUID) -> tuple[ApprovalRule, ...]:
        """Return the rules that hold in a room of an agent, oldest first."""
        in_room = (APPROVAL_RULES.c.scope == RuleScope.ROOM.value) & (APPROVAL_RULES.c.scope_id == room)
        of_agent = (APPROVAL_RULES.c.scope == RuleScope.AGENT.value) & (APPROVAL_RULES.c.scope_id == agent)
        rows = self._rows(in_room | of_agent, order=[APPROVAL_RULES.c.created_at, APPROVAL_RULES.c.id])
        return tuple(read_row(ApprovalRule, row) for row in rows)

    def remove(self, identifier: UUID) -> None:
        """Remove a rule; one that is not there is fine."""
        self._connection.execute(delete(APPROVAL_RULES).where(APPROVAL_RULES.c.id == identifier))
