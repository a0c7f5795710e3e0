"""Approvals as clients see them: listed, shown, decided; and the rules that people made of them."""

from __future__ import annotations

from jamcore.domain.approvals import Approval, ApprovalRule, ApprovalState, DecisionRequest
from jamcore.runtime.approvals import ApprovalDesk
from jamcore.store import Repos, Store


class Approvals:
    """See :class:`~jamcore.daemon.services.ApprovalService`."""

    def __init__(self, *, store: Store, desk: ApprovalDesk) -> None:
        self._store = store
        self._desk = desk

    async def list(self, *, room: str | None, state: ApprovalState | None) -> tuple[Approval, ...]:
        """Return approvals, newest first, of one room or of all."""

        def read(repos: Repos) -> tuple[Approval, ...]:
            return repos.approvals.list(room=repos.rooms.find(room).id if room is not None else None, state=state)

        return await self._store.read(read)

    async def get(self, ref: str) -> Approval:
        """Return one."""
        return await self._store.read(lambda repos: repos.approvals.find(ref))

    async def decide(self, ref: str, request: DecisionRequest) -> Approval:
        """Answer one; the first answer counts."""
        return await self._desk.decide(ref, request)

    async def rules(self) -> tuple[ApprovalRule, ...]:
        """Return all rules, newest first."""
        return await self._store.read(lambda repos: repos.approval_rules.list())

    async def remove_rule(self, ref: str) -> ApprovalRule:
        """Remove a rule and return what it was; what it allowed stays allowed."""

        def write(repos: Repos) -> ApprovalRule:
            rule = repos.approval_rules.find(ref)
            repos.approval_rules.remove(rule.id)
            return rule

        return await self._store.transact(write)
