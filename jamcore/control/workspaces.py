"""The typed client's part for workspaces: ``client.workspaces``."""

from __future__ import annotations

from jamcore.control.approvals import Ask, Change, quoted
from jamcore.control.failures import ConnectionDroppedError
from jamcore.domain.workspace_care import RecoverRequest, RecoverResult, RecoveryWay, WorkspaceView


class WorkspaceClient:
    """Made by the client, with its own ways to the daemon."""

    def __init__(self, ask: Ask, change: Change) -> None:
        self._ask = ask
        self._change = change

    async def inspect(self, room: str) -> WorkspaceView:
        """Return everything about a room's workspace."""
        return await self._ask(WorkspaceView, f"/v1/rooms/{quoted(room)}/workspace")

    async def recover(self, room: str, request: RecoverRequest) -> RecoverResult:
        """Recover a room's workspace; the request's id makes a retry exact."""
        target = f"/v1/rooms/{quoted(room)}/workspace/recover"
        try:
            return await self._change(RecoverResult, "POST", target, request, operation=request.id)
        except ConnectionDroppedError as dropped:
            if request.way is RecoveryWay.RETRY:
                dropped.operation = ""  # it finishes an operation of another id, or none
            raise
