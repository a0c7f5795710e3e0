"""Asking once more when an answer was lost: every operation is exact under repetition, so that nothing happens twice (WS-11)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import UUID

import anyio

from jamcore.control.failures import ConnectionDroppedError

R = TypeVar("R")

REPEATS = 3
"""A daemon that died in the middle of an operation is started by the next attempt, which waits for it; it may die again meanwhile."""
PAUSE_S = 0.2
"""Between two attempts: a socket of a process that is just ending still takes connections."""


async def until_answered(once: Callable[[], Awaitable[R]], *, operation: UUID | None) -> R:
    """Return what ``once`` returns, asked again when the connection dropped: once, or for an operation up to :data:`REPEATS` times.

    Args:
        once: Asks, and starts the daemon first where it may.
        operation: The id of the journaled operation that is asked for; ``None`` for anything else.

    Raises:
        ConnectionDroppedError: No answer came; names the operation, which may go on. There is none of that id where it was not begun, and
            where the request took over one that was cut before.
    """
    for _ in range(REPEATS if operation else 1):
        try:
            return await once()
        except ConnectionDroppedError:
            await anyio.sleep(PAUSE_S if operation else 0)
    try:
        return await once()
    except ConnectionDroppedError as error:
        error.operation = str(operation or "")
        raise
