"""What the daemon does for workspaces that something is wrong with: see :mod:`jamcore.daemon.services`."""

from __future__ import annotations

from typing import Protocol

from jamcore.domain.workspace_care import RecoverRequest, RecoverResult, WorkspaceView


class WorkspaceService(Protocol):
    """Workspaces as they stand."""

    async def inspect(self, ref: str) -> WorkspaceView:
        """Return everything about a room's workspace. Changes nothing."""

    async def recover(self, ref: str, request: RecoverRequest) -> RecoverResult:
        """Recover a room's workspace in one of the ways; none of them removes anything."""
