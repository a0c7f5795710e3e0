"""File work beside the event loop, with errors that a boundary lets through."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import to_thread

from jamcore.system.files import typed_storage

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Run ``work`` in a worker thread and return what it returns.

    Raises:
        StorageFullError, StorageFailedError, MachineStuckError: The machine failed: an ``OSError`` of the work, typed.
        Exception: Whatever else the work raised.
    """
    with typed_storage():
        return await to_thread.run_sync(work)
