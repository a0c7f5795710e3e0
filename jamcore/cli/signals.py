"""Ctrl-C: the first one interrupts the turn, the second detaches; nothing is lost by either."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskGroup

T = TypeVar("T")


class Interruptible(Generic[T]):
    """Runs work that a person may interrupt and leave. One object per piece of work."""

    def __init__(self, work: Callable[[], Awaitable[T]], on_press: Callable[[], Awaitable[bool]]) -> None:
        """Take the work and what Ctrl-C does.

        Args:
            work: What is waited for. It is cancelled, here and not in the daemon, when the person detaches.
            on_press: Called for each Ctrl-C, also while an earlier call still waits; answers whether to stay. It prints what happens.
        """
        self._work = work
        self._on_press = on_press
        self._result: list[T] = []
        self._tasks: TaskGroup | None = None

    async def run(self) -> T | None:
        """Return the work's result, or ``None`` when the person detached."""
        with anyio.open_signal_receiver(signal.SIGINT) as signals:
            async with anyio.create_task_group() as self._tasks:
                tasks = self._tasks
                tasks.start_soon(self._finish, tasks.cancel_scope)
                async for _ in signals:
                    tasks.start_soon(self._press, tasks.cancel_scope)
        return self._result[0] if self._result else None

    def pressed(self) -> None:
        """Take a Ctrl-C that came as a key: a terminal in which lines are edited sends no signal."""
        if self._tasks is not None:
            self._tasks.start_soon(self._press, self._tasks.cancel_scope)

    async def _finish(self, scope: anyio.CancelScope) -> None:
        self._result.append(await self._work())
        scope.cancel()

    async def _press(self, scope: anyio.CancelScope) -> None:
        if not await self._on_press():
            scope.cancel()


def second_leaves(first: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[bool]]:
    """Return what most commands do: the first Ctrl-C calls ``first`` and stays, the second leaves."""
    pressed: list[None] = []

    async def press() -> bool:
        pressed.append(None)
        if len(pressed) > 1:
            return False
        await first()
        return True

    return press
