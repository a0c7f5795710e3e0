"""Task groups whose only error is raised as itself.

A task group wraps even one error in a group, which no caller of an ordinary function expects. Whoever owns the group flattens it: one
error is raised as it is, several stay a group.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def owned_tasks() -> AsyncIterator[TaskGroup]:
    """Yield a task group; when the block or a task fails with one error, exactly that error leaves."""
    try:
        async with anyio.create_task_group() as tasks:
            yield tasks
    except BaseExceptionGroup as group:
        errors = _leaves(group)
        if len(errors) == 1:
            raise errors[0] from errors[0].__cause__
        raise


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found.extend(_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    return found
