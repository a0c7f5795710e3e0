"""What the daemon tells of its operations: see :mod:`jamcore.daemon.services`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from jamcore.domain.operation_views import OperationLine, OperationPage, OperationView


class OperationService(Protocol):
    """Journaled operations. Read-only."""

    async def list(self, *, room: str | None, host: str | None, unfinished: bool, limit: int) -> OperationPage:
        """Return operations, newest first, of one room with its host, of one host, or all; a damaged row is one of them."""

    async def show(self, ref: str) -> OperationView:
        """Return one with its story."""

    def events(self, ref: str, *, after: int, follow: bool) -> AbstractAsyncContextManager[AsyncIterator[OperationLine]]:
        """Stream the lines of a story after a number; with ``follow`` until the operation has ended. Resumable by number."""
