"""The typed client's part for journaled operations: ``client.operations``."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from jamcore.control.approvals import Ask, encoded, quoted
from jamcore.domain.operation_views import OperationLine, OperationPage, OperationView


class Follow(Protocol):
    """Follows a stream of the daemon, and takes it up again where it was cut."""

    def __call__(self, kind: type[OperationLine], target: str, *, after: int, follow: bool) -> AsyncGenerator[OperationLine, None]:
        """Yield what comes after a number, in order and each once."""


class OperationClient:
    """Made by the client, with its own ways to the daemon."""

    def __init__(self, ask: Ask, follow: Follow) -> None:
        self._ask = ask
        self._follow = follow

    async def list(
        self, *, room: str | None = None, host: str | None = None, unfinished: bool = False, limit: int | None = None
    ) -> OperationPage:
        """List operations, newest first."""
        asked = {"room": room, "host": host, "unfinished": "1" if unfinished else None, "limit": str(limit) if limit else None}
        wanted = {name: value for name, value in asked.items() if value is not None}
        return await self._ask(OperationPage, "/v1/operations" + (f"?{encoded(wanted)}" if wanted else ""))

    async def show(self, ref: str) -> OperationView:
        """Return one with its story."""
        return await self._ask(OperationView, f"/v1/operations/{quoted(ref)}")

    def events(self, ref: str, *, after: int = 0, follow: bool = True) -> AsyncGenerator[OperationLine, None]:
        """Yield the lines of a story after a number; with ``follow`` until the operation has ended.

        Close the iterator (``contextlib.aclosing``) to stop; the operation goes on.
        """
        return self._follow(OperationLine, f"/v1/operations/{quoted(ref)}/events", after=after, follow=follow)
