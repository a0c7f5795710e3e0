"""The typed client's part for what is kept of checkpoints: ``client.removals``."""

from __future__ import annotations

from jamcore.control.approvals import Ask, Change, quoted
from jamcore.control.schemas import StandingList
from jamcore.domain.retention import CheckpointStanding, RemovalPlan, RemovalQuestion, RemovalRequest, RemovalResult


class RemovalClient:
    """Made by the client, with its own ways to the daemon."""

    def __init__(self, ask: Ask, change: Change) -> None:
        self._ask = ask
        self._change = change

    async def standings(self, room: str) -> tuple[CheckpointStanding, ...]:
        """List the generations of a room's host, newest first, with what keeps each."""
        return (await self._ask(StandingList, f"/v1/rooms/{quoted(room)}/checkpoints/standings")).items

    async def plan(self, question: RemovalQuestion) -> RemovalPlan:
        """Return what the removal of these checkpoints' payload would free; everything that goes is read, which takes its time."""
        return await self._change(RemovalPlan, "POST", "/v1/checkpoint-removals/plan", question)

    async def remove(self, request: RemovalRequest) -> RemovalResult:
        """Remove it; the request confirms the plan by its digest."""
        return await self._change(RemovalResult, "POST", "/v1/checkpoint-removals", request, operation=request.id)
