"""Task groups whose error is raised as itself.

A task group wraps even one error in a group, which no caller of an ordinary function expects. Whoever owns the group flattens it: one
error is raised as it is. Of several that all have a type the first is raised and names the others in its notes: boundaries know
each of them, and no group. With an untyped one among them they stay a group, so that no bug hides behind a typed error.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from jamcore.domain.errors import JamError


@asynccontextmanager
async def owned_tasks() -> AsyncIterator[TaskGroup]:
    """Yield a task group; when the block or a task fails with one error, exactly that error leaves, and of several typed ones the first."""
    try:
        async with anyio.create_task_group() as tasks:
            yield tasks
    except BaseExceptionGroup as group:
        first, *others = _leaves(group)
        if others and not all(isinstance(error, JamError) for error in (first, *others)):
            raise
        for other in others:
            first.add_note(f"beside it: {other}")
        raise first from first.__cause__


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found.extend(_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    return found
